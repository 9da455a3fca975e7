package worktree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

// TestWorkspaceReadsOnlyItsHistory plants answers that no cell may read: in a later commit, a stash, another branch
// and, for no history at all, in an older commit.
func TestWorkspaceReadsOnlyItsHistory(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, map[string]string{"a.txt": "older canary\n"})
	repo.Write("a.txt", "base\n")
	base := repo.Commit("base, message canary")
	repo.Git("checkout", "-q", "-b", "side")
	repo.Write("side.txt", "side canary\n")
	repo.Commit("side")
	repo.Git("checkout", "-q", "main")
	repo.Write("a.txt", "later canary\n")
	repo.Commit("later")
	repo.Write("a.txt", "stash canary\n")
	repo.Git("stash", "-q")
	before := gittest.Fingerprint(t, repo.Dir)
	f := newFixture(t, repo)
	all := []string{"older canary", "message canary", "side canary", "later canary", "stash canary"}
	for history, readable := range map[worktree.History]string{
		worktree.HistoryBase: "older canary, message canary",
		worktree.HistoryFull: "older canary, message canary, side canary, later canary",
		worktree.HistoryNone: "",
	} {
		t.Run(string(history), func(t *testing.T) {
			m, err := f.store.Mirror(t.Context(), f.open(), base, history)
			must(t, err)
			cell := f.cell(f.create(m, string(history)))
			objects := string(cell.Output("cat-file", "--batch-all-objects", "--batch"))
			for _, canary := range all {
				if got, want := strings.Contains(objects, canary), strings.Contains(readable, canary); got != want {
					t.Errorf("%q readable: %v, want %v", canary, got, want)
				}
			}
			if got := cell.Git("remote"); got != "" {
				t.Errorf("remotes %q", got)
			}
			if (history == worktree.HistoryNone) != (m.Commit != base) || (len(m.Notices) > 0) != (history != worktree.HistoryBase) {
				t.Errorf("commit %s, notices %+v", m.Commit, m.Notices)
			}
			branches := cell.Git("for-each-ref", "--format=%(refname)")
			if want := history == worktree.HistoryFull; strings.Contains(branches, "refs/heads/side") != want {
				t.Errorf("refs %q", branches)
			}
		})
	}
	diff(t, before, gittest.Fingerprint(t, repo.Dir))
}

func TestMirrorIsMadeOnce(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, baseFiles)
	f := newFixture(t, repo)
	src := f.open()
	commit := repo.Git("rev-parse", "HEAD")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := f.store.Mirror(t.Context(), src, commit, worktree.HistoryBase); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	dirs, err := filepath.Glob(filepath.Join(f.store.Root(), "mirrors", "*", "mirror.json"))
	must(t, err)
	if len(dirs) != 1 {
		t.Errorf("mirrors %v", dirs)
	}
	if leftover, err := filepath.Glob(filepath.Join(f.store.Root(), "mirrors", "*.build")); err != nil || leftover != nil {
		t.Errorf("left: %v %v", leftover, err)
	}
}

// TestChangedMirrorIsNotBelieved writes to the mirror as a cell could, since it runs as the same user.
func TestChangedMirrorIsNotBelieved(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, baseFiles)
	find := func(t *testing.T, f *fixture, pattern string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(f.store.Root(), "mirrors", "*", pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v %v", pattern, found, err)
		}
		must(t, os.Chmod(found[0], 0o600))
		return found[0]
	}
	for what, change := range map[string]func(t *testing.T, f *fixture){
		"same size": func(t *testing.T, f *fixture) {
			path := find(t, f, "tree/b.txt")
			info, err := os.Stat(path)
			must(t, err)
			must(t, os.WriteFile(path, []byte("B\n"), 0o600))
			must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
		"pack cut": func(t *testing.T, f *fixture) {
			must(t, os.Truncate(find(t, f, "git/objects/pack/*.pack"), 20))
		},
		"file gone": func(t *testing.T, f *fixture) { must(t, os.Remove(find(t, f, "tree/b.txt"))) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, repo)
			m := f.mirror(worktree.HistoryBase)
			change(t, f)
			if _, err := f.store.Create(t.Context(), m, worktree.CreateSpec{Name: "w"}); err == nil {
				t.Error("a workspace was made from it")
			} else if !errors.Is(err, worktree.ErrMirror) {
				t.Errorf("got %v", err)
			}
			if entries, err := f.store.List(t.Context()); err != nil || len(entries) != 0 {
				t.Errorf("left: %+v %v", entries, err)
			}
			w := f.workspace() // asks for the mirror again
			if f.snapshot(w).Tree != w.BaseTree() {
				t.Error("the new mirror is not the base")
			}
		})
	}
}

// TestPackTouchedByABorrower shows that what git itself does to a mirror is no change: it renews the time of a pack
// that has an object which somebody writes.
func TestPackTouchedByABorrower(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	m := f.mirror(worktree.HistoryBase)
	cell := f.cell(f.create(m, "a"))
	cell.Write("copy.txt", baseFiles["a.txt"])
	cell.Commit("copy")
	cell.Git("gc", "-q", "--prune=now")
	f.create(m, "b")
	if again := f.mirror(worktree.HistoryBase); f.create(again, "c").Tree() == "" {
		t.Error("no workspace")
	}
	cell.Git("fsck", "--strict")
}

func TestStoreInsideARepository(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, baseFiles)
	g := newGit(t, repo.Home)
	bare := repo.At(filepath.Join(t.TempDir(), "bare"))
	repo.Git("clone", "-q", "--bare", repo.Dir, bare.Dir)
	before := gittest.Fingerprint(t, repo.Dir)
	for _, dir := range []string{repo.Dir, filepath.Join(repo.Dir, "dir", "cache"), filepath.Join(bare.Dir, "cache")} {
		if _, err := worktree.NewStore(g, dir); !errors.Is(err, worktree.ErrInsideRepository) {
			t.Errorf("%s gives %v", dir, err)
		}
	}
	diff(t, before, gittest.Fingerprint(t, repo.Dir))
}
