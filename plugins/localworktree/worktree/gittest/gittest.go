// Package gittest builds git repositories for tests, apart from every setting of the user who runs them. Any test of
// this module may use it.
package gittest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// limit bounds one git command of a test.
const limit = 2 * time.Minute

// Repository is a repository of a test, with a home directory of its own.
type Repository struct {
	Dir  string // top of the working tree, or the bare repository
	Home string
	t    testing.TB
}

// New makes a repository with the branch main and one commit of the given files, by path. Without files there is no
// commit. The options go to git init.
func New(t testing.TB, files map[string]string, options ...string) *Repository {
	t.Helper()
	return NewAt(t, filepath.Join(t.TempDir(), "repo"), files, options...)
}

// NewAt is New with a directory of the caller's choice.
func NewAt(t testing.TB, dir string, files map[string]string, options ...string) *Repository {
	t.Helper()
	r := &Repository{Dir: dir, Home: t.TempDir(), t: t}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Git(append(append([]string{"init", "-q", "-b", "main"}, options...), dir)...)
	if len(files) == 0 {
		return r
	}
	for _, name := range sortedKeys(files) {
		r.Write(name, files[name])
	}
	r.Commit("base")
	return r
}

// At is the repository at another directory, such as a clone or a linked worktree, with the same home.
func (r *Repository) At(dir string) *Repository { return &Repository{Dir: dir, Home: r.Home, t: r.t} }

// Git runs git in the repository and returns its stdout without surrounding space. A failure ends the test.
func (r *Repository) Git(args ...string) string {
	r.t.Helper()
	return strings.TrimSpace(string(r.Output(args...)))
}

// Output runs git in the repository and returns its stdout as it is. A failure ends the test.
func (r *Repository) Output(args ...string) []byte {
	r.t.Helper()
	out, err := r.Try(args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// Try runs git in the repository and returns its stdout.
func (r *Repository) Try(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.Dir
	cmd.Env = r.Env()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// Env is the environment of Git: a home of its own, no configuration of the machine, an identity and fixed dates.
func (r *Repository) Env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.Home, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@localhost", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@localhost", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
}

// Write writes a file of the working tree, and its directories.
func (r *Repository) Write(name, content string) {
	r.t.Helper()
	Write(r.t, filepath.Join(r.Dir, name), content)
}

// Commit commits everything in the working tree and returns the commit.
func (r *Repository) Commit(message string) string {
	r.t.Helper()
	r.Git("add", "-A")
	r.Git("commit", "-q", "--allow-empty", "-m", message)
	return r.Git("rev-parse", "HEAD")
}

// Write writes a file and its directories.
func Write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Fingerprint lists everything below dir, with mode and content, for a comparison before and after.
func Fingerprint(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		found[name], err = describe(path, info)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func describe(path string, info fs.FileInfo) (string, error) {
	switch {
	case info.Mode().IsRegular():
		data, err := os.ReadFile(path)
		return fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(data)), err
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := os.Readlink(path)
		return "-> " + target, err
	}
	return info.Mode().String(), nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
