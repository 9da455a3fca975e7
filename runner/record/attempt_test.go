package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/plan"
)

func attempt(t *testing.T) *Attempt {
	t.Helper()
	a, err := started(t).Attempt("k", 1)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAttemptCreatesFilesOnce(t *testing.T) {
	t.Parallel()
	a := attempt(t)
	for _, name := range []string{"stdout.log", "verify/stdout.log", "diff.patch"} {
		f, err := a.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(name)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Create(name); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s again: %v", name, err)
		}
	}
	want := map[string]string{"stdout.log": "stdout.log", "verify/stdout.log": "verify/stdout.log", "diff.patch": "diff.patch"}
	if diff := cmp.Diff(want, tree(t, a.Dir())); diff != "" {
		t.Error(diff)
	}
	if err := a.Remove("verify/stdout.log"); err != nil {
		t.Error(err)
	}
	if _, ok := tree(t, a.Dir())["verify/stdout.log"]; ok {
		t.Error("a removed file is still there")
	}
}

func TestNothingIsCreatedOutsideTheAttempt(t *testing.T) {
	t.Parallel()
	a := attempt(t)
	if err := os.Symlink(t.TempDir(), filepath.Join(a.Dir(), "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../x", "/tmp/x", "a/../../x", "link/x", "", "."} {
		if f, err := a.Create(name); err == nil {
			t.Errorf("%q was created as %s", name, f.Name())
			_ = f.Close()
		}
	}
	for _, key := range []string{"", "..", "a/b", "a\x00", strings.Repeat("k", 256)} {
		if _, err := started(t).Attempt(key, 1); err == nil {
			t.Errorf("key %q has a folder", key)
		}
	}
	if _, err := started(t).Attempt("k", 0); err == nil {
		t.Error("attempt 0 has a folder")
	}
}

func TestArtifactsGetSafeNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 255)
	paths := []string{
		"out/a.json", "out/b.json", "plain.txt", "Résumé.txt", ".golangci.yml", "a b.txt", // kept as they are
		"../x", "/etc/passwd", "a/../b", ".", "..", "nul\x00", "new\nline", "esc\x1b[31m", "\xff\xfe", "con", "COM1.txt", "a.",
		"b ", ".git/config", "x:y", `back\slash`, "quote\"", "percent%2e", "hash#", "bidi\u202e", long, long + "/" + long, strings.Repeat("d/", 400) + "x",
		"case", "Case", "CASE", "caf\u00e9", "cafe\u0301", "file", "file/below", "deep/one", "deep", "plain.txt", "plain.txt",
	}
	plain := map[string]bool{}
	for _, p := range paths[:6] {
		plain[p] = true
	}
	a := attempt(t)
	seen := map[string]string{}
	for _, path := range paths {
		f, file, err := a.Artifact(path)
		if err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		_, err = f.WriteString(path)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if before, taken := seen[fold(file)]; taken {
			t.Errorf("%q and %q are both stored as %s", before, path, file)
		}
		seen[fold(file)] = path
		checkSafe(t, path, file)
		if plain[path] && file != "artifacts/"+path {
			delete(plain, path)
			t.Errorf("%q is stored as %s", path, file)
		}
		delete(plain, path)
		stored, err := os.ReadFile(filepath.Join(a.Dir(), file))
		if err != nil || string(stored) != path {
			t.Errorf("%s holds %q, %v", file, stored, err)
		}
	}
	if got := len(tree(t, a.Dir())); got != len(paths) {
		t.Errorf("%d files for %d artifacts", got, len(paths))
	}
}

func checkSafe(t *testing.T, path, file string) {
	t.Helper()
	rest, ok := strings.CutPrefix(file, "artifacts/")
	if !ok || !filepath.IsLocal(file) || !utf8.ValidString(file) || strings.ContainsAny(file, "\x00\n\x1b\\:\"%#\u202e") {
		t.Errorf("%q is stored as %q", path, file)
	}
	for _, part := range strings.Split(rest, "/") {
		if len(part) > 255 || isReserved(part) || strings.Trim(part, ".") == "" {
			t.Errorf("%q is stored as %q", path, file)
		}
	}
}

func TestArtifactsAtOnce(t *testing.T) {
	t.Parallel()
	a := attempt(t)
	var group sync.WaitGroup
	for n := range 32 {
		group.Go(func() {
			f, _, err := a.Artifact([]string{"same", "SAME", "same/x"}[n%3])
			if err != nil {
				t.Error(err)
				return
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := len(tree(t, a.Dir())); got != 32 {
		t.Errorf("%d files for 32 artifacts", got)
	}
}

func FuzzArtifactName(f *testing.F) {
	for _, seed := range []string{"a", "../x", "\xff", "con", "A/b", "a/B/c"} {
		f.Add(seed, seed+"2")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		names := artifactNames{}
		first, second := names.claim(one), names.claim(two)
		for path, name := range map[string]string{one: first, two: second} {
			if one != two {
				checkSafe(t, path, "artifacts/"+name)
			}
		}
		if fold(first) == fold(second) || strings.HasPrefix(fold(second), fold(first)+"/") || strings.HasPrefix(fold(first), fold(second)+"/") {
			t.Errorf("%q and %q are stored as %q and %q", one, two, first, second)
		}
	})
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestPlanAndBlobs(t *testing.T) {
	t.Parallel()
	f := started(t)
	p := &plan.Plan{Schema: plan.Schema, Name: "n", Cells: []plan.Cell{{Address: "x/t/v#1", Key: "k"}}}
	blobs := plan.Blobs{digest("one"): []byte("one"), digest(""): nil}
	for range 2 { // writing the same again is fine
		if err := f.WritePlan(p, blobs); err != nil {
			t.Fatal(err)
		}
	}
	read, err := f.ReadPlan()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, read); diff != "" {
		t.Error(diff)
	}
	for want := range map[string]bool{"one": true, "": true} {
		if got, err := readBlob(f, digest(want)); err != nil || got != want {
			t.Errorf("content is %q, %v; wanted %q", got, err, want)
		}
	}
	overwrite(t, filepath.Join(f.Dir(), "blobs", digest("one")), []byte("two"))
	if _, err := readBlob(f, digest("one")); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged content: %v", err)
	}
	for _, sha := range []string{"../run.json", "", digest("absent")} {
		if _, err := readBlob(f, sha); err == nil {
			t.Errorf("%q can be read", sha)
		}
	}
	if err := f.WritePlan(p, plan.Blobs{digest("one"): []byte("other")}); err == nil {
		t.Error("content under a wrong digest is taken")
	}
	overwrite(t, filepath.Join(f.Dir(), "plan.json"), fmt.Appendf(nil, `{"schema":%d}`, plan.Schema+1))
	if _, err := f.ReadPlan(); err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("newer plan: %v", err)
	}
}

func readBlob(f *Folder, sha string) (string, error) {
	r, err := f.OpenBlob(sha)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(r)
	return string(data), errors.Join(err, r.Close())
}
