package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"cellharness/shared"
)

// canary is what lies outside a workspace and must never be seen by, or changed through, anything inside.
const canary = "canary_files_01\n"

// place is a workspace with a folder of the user's beside it.
type place struct {
	root    *os.Root
	dir     string // of the workspace
	outside string // folder that holds the canary file "secret"
}

func newPlace(t *testing.T) place {
	t.Helper()
	base := t.TempDir()
	p := place{dir: filepath.Join(base, "workspace"), outside: filepath.Join(base, "outside")}
	for _, d := range []string{p.dir, p.outside} {
		must(t, os.Mkdir(d, 0o755))
	}
	must(t, os.WriteFile(p.secret(), []byte(canary), 0o600))
	root, err := os.OpenRoot(p.dir)
	must(t, err)
	t.Cleanup(func() { must(t, root.Close()) })
	p.root = root
	return p
}

func (p place) secret() string          { return filepath.Join(p.outside, "secret") }
func (p place) path(name string) string { return filepath.Join(p.dir, name) }
func (p place) mkdir(t *testing.T, name string) {
	t.Helper()
	must(t, os.MkdirAll(p.path(name), 0o755))
}

func (p place) file(t *testing.T, name, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(p.path(name)), 0o755))
	must(t, os.WriteFile(p.path(name), []byte(content), 0o644))
}

func (p place) link(t *testing.T, target, name string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(p.path(name)), 0o755))
	must(t, os.Symlink(target, p.path(name)))
}

func (p place) hardLink(t *testing.T, name string) {
	t.Helper()
	must(t, os.Link(p.secret(), p.path(name)))
}

func (p place) pipe(t *testing.T, name string) {
	t.Helper()
	must(t, syscall.Mkfifo(p.path(name), 0o644))
}

// secretUntouched fails when the outside folder holds anything but the canary.
func (p place) secretUntouched(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(p.outside)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("outside the workspace there are %d files, want 1: %v", len(entries), entries)
	}
	got, err := os.ReadFile(p.secret())
	must(t, err)
	if string(got) != canary {
		t.Errorf("the file outside holds %q, want %q", got, canary)
	}
}

// names lists every file and directory of the workspace.
func (p place) names(t *testing.T) []string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(p.dir, func(path string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(p.dir, path); rel != "." {
			out = append(out, rel)
		}
		return err
	}))
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func seed(path, content string) shared.Seed {
	return shared.Seed{Path: shared.Path(path), Content: shared.Content{
		Size: int64(len(content)), SHA256: digest(content),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte(content))), nil },
	}}
}

// recorder is an ArtifactSink that keeps everything, and fails where it is told to.
type recorder struct {
	t         *testing.T
	open      string
	artifacts []shared.Artifact
	data      map[string][]byte
	writeErr  error
	onWrite   func()
}

func newRecorder(t *testing.T) *recorder { return &recorder{t: t, data: map[string][]byte{}} }

func (r *recorder) Begin(kind shared.ArtifactKind, path string) error {
	if r.open != "" || kind != shared.ArtifactFile {
		r.t.Errorf("Begin(%v, %q) while %q is open", kind, path, r.open)
	}
	r.open = path
	return nil
}

func (r *recorder) Write(data []byte) (int, error) {
	if len(data) > bufferBytes {
		r.t.Errorf("Write of %d bytes, want at most %d", len(data), bufferBytes)
	}
	if r.onWrite != nil {
		r.onWrite()
	}
	r.data[r.open] = append(r.data[r.open], data...)
	return len(data), r.writeErr
}

func (r *recorder) End(a shared.Artifact) error {
	if a.Path != r.open {
		r.t.Errorf("End of %q while %q is open", a.Path, r.open)
	}
	r.open = ""
	r.artifacts = append(r.artifacts, a)
	return nil
}
