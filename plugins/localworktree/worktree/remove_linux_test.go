package worktree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

func states(removals []worktree.Removal) string {
	var all []string
	for _, r := range removals {
		all = append(all, r.State)
	}
	return strings.Join(all, " ")
}

func TestRemoveIsIdempotent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	w := f.workspace()
	outside := t.TempDir()
	gittest.Write(t, filepath.Join(outside, "precious"), "p\n")
	must(t, os.Symlink(outside, filepath.Join(w.Tree(), "out")))
	must(t, os.Link(filepath.Join(outside, "precious"), filepath.Join(w.Tree(), "hard")))
	gittest.Write(t, filepath.Join(w.Tree(), "locked", "dir", "x"), "x\n")
	must(t, os.Chmod(filepath.Join(w.Tree(), "locked", "dir"), 0))
	must(t, os.Chmod(filepath.Join(w.Tree(), "locked"), 0))
	must(t, unix.Mkfifo(filepath.Join(w.Tree(), "fifo"), 0o600))
	for _, want := range []string{"removed", "absent", "absent"} {
		if got := states(w.Remove(t.Context())); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if data, err := os.ReadFile(filepath.Join(outside, "precious")); err != nil || string(data) != "p\n" {
		t.Errorf("the removal left the workspace: %q %v", data, err)
	}
	if _, err := f.store.Open(t.Context(), "w"); !errors.Is(err, worktree.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	f.workspace() // the name is free
}

func TestRemoveOfALinkKeepsItsTarget(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	w := f.workspace()
	outside := t.TempDir()
	gittest.Write(t, filepath.Join(outside, "precious"), "p\n")
	dir := filepath.Dir(w.Tree())
	must(t, os.RemoveAll(dir))
	must(t, os.Symlink(outside, dir))
	f.removeAll(w)
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Error(err)
	}
}

// TestRemoveStopsAtAMount mounts a directory of somebody else in the workspace.
func TestRemoveStopsAtAMount(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	w := f.workspace()
	outside := t.TempDir()
	gittest.Write(t, filepath.Join(outside, "precious"), "p\n")
	point := filepath.Join(w.Tree(), "dir", "mnt")
	must(t, os.Mkdir(point, 0o755))
	if err := unix.Mount(outside, point, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("this process may not mount: %v", err)
	}
	removals := w.Remove(t.Context())
	if states(removals) != "leaked" || !strings.Contains(removals[0].Detail, "mounted") {
		t.Errorf("%+v", removals)
	}
	if entries, err := f.store.List(t.Context()); err != nil || len(entries) != 1 || entries[0].Name != "w" {
		t.Errorf("what is left is not listed: %+v %v", entries, err)
	}
	must(t, unix.Unmount(filepath.Join(removals[0].Name, "tree", "dir", "mnt"), 0))
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Errorf("the removal entered the mount: %v", err)
	}
	if got := states(w.Remove(t.Context())); got != "absent removed" {
		t.Errorf("after the unmount: %s", got)
	}
}

func TestOpenAfterACrash(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	f.workspace()
	half := filepath.Join(f.store.Root(), "workspaces", "half")
	must(t, os.Mkdir(half, 0o700)) // the maker died right after this
	entries, err := f.store.List(t.Context())
	must(t, err)
	if len(entries) != 2 || entries[0].Name != "half" || entries[0].Labels != nil {
		t.Errorf("%+v", entries)
	}
	if got := states(f.store.Remove(t.Context(), "half")); got != "removed" {
		t.Error(got)
	}
	mirrors := filepath.Join(f.store.Root(), "mirrors")
	must(t, os.RemoveAll(mirrors))
	w, err := f.store.Open(t.Context(), "w")
	must(t, err)
	if _, err := w.Snapshot(t.Context()); !errors.Is(err, worktree.ErrMirror) {
		t.Errorf("without its mirror: %v", err)
	}
	f.removeAll(w)
}

// TestDeepTree makes directories deeper than a path can name, which a command can do one step at a time.
func TestDeepTree(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	w := f.workspace()
	f.cell(w).Write("b.txt", "changed\n")
	dir, err := os.OpenRoot(w.Tree())
	must(t, err)
	component := strings.Repeat("d", 200)
	for range 60 {
		must(t, dir.Mkdir(component, 0o755))
		inner, err := dir.OpenRoot(component)
		must(t, errors.Join(err, dir.Close()))
		dir = inner
	}
	must(t, errors.Join(dir.WriteFile("bottom", nil, 0o644), dir.Close()))
	patch, _, s := f.patch(w)
	if !strings.Contains(patch, "+changed\n") || len(s.Notices) != 1 || s.Notices[0].Kind != worktree.NoticeUnreadable {
		t.Errorf("notices %+v, patch\n%s", s.Notices, patch)
	}
	f.removeAll(w)
}
