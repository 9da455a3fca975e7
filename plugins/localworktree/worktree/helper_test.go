package worktree_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

// fixture is a repository, a store and what reads them.
type fixture struct {
	t     testing.TB
	repo  *gittest.Repository
	git   *worktree.Git
	store *worktree.Store
}

func newFixture(t testing.TB, repo *gittest.Repository) *fixture {
	t.Helper()
	f := &fixture{t: t, repo: repo, git: newGit(t, repo.Home)}
	store, err := worktree.NewStore(f.git, filepath.Join(t.TempDir(), "cache"))
	if err != nil {
		t.Fatal(err)
	}
	f.store = store
	return f
}

func newGit(t testing.TB, home string) *worktree.Git {
	t.Helper()
	g, err := worktree.New(t.Context(), worktree.Options{Path: os.Getenv("PATH"), Home: home})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (f *fixture) open() *worktree.Source {
	f.t.Helper()
	src, err := f.git.Open(f.t.Context(), f.repo.Dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return src
}

func (f *fixture) mirror(h worktree.History) *worktree.Mirror {
	f.t.Helper()
	src := f.open()
	pin, err := src.Resolve(f.t.Context(), "")
	if err != nil {
		f.t.Fatal(err)
	}
	m, err := f.store.Mirror(f.t.Context(), src, pin.Commit, h)
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

func (f *fixture) create(m *worktree.Mirror, name string) *worktree.Workspace {
	f.t.Helper()
	w, err := f.store.Create(f.t.Context(), m, worktree.CreateSpec{Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

// workspace is a fresh workspace of the repository's HEAD.
func (f *fixture) workspace() *worktree.Workspace {
	f.t.Helper()
	return f.create(f.mirror(worktree.HistoryBase), "w")
}

func (f *fixture) snapshot(w *worktree.Workspace) worktree.Snapshot {
	f.t.Helper()
	s, err := w.Snapshot(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// patch is the patch from the base to the workspace as it is.
func (f *fixture) patch(w *worktree.Workspace) (string, worktree.DiffStat, worktree.Snapshot) {
	f.t.Helper()
	s := f.snapshot(w)
	var out bytes.Buffer
	stat, err := w.Diff(f.t.Context(), w.BaseTree(), s.Tree, &out)
	if err != nil {
		f.t.Fatal(err)
	}
	return out.String(), stat, s
}

// cell is the workspace as a cell sees it.
func (f *fixture) cell(w *worktree.Workspace) *gittest.Repository { return f.repo.At(w.Tree()) }

// removeAll removes a workspace and fails where anything of it is left.
func (f *fixture) removeAll(w *worktree.Workspace) {
	f.t.Helper()
	for _, r := range w.Remove(f.t.Context()) {
		if r.State != worktree.StateRemoved {
			f.t.Fatalf("removal of %s: %s %s", r.Name, r.State, r.Detail)
		}
	}
}

func diff(t testing.TB, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
