package worktree_test

import (
	"os"
	"path/filepath"
	"testing"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

func TestRemoveTellsWhereATreeWasMoved(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, map[string]string{"a.txt": "a\n"}))
	w := f.workspace()
	stolen := filepath.Join(t.TempDir(), "stolen")
	if err := os.Rename(w.Tree(), stolen); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it is told as long as it is there
		last := w.Remove(t.Context())
		if r := last[len(last)-1]; r.State != worktree.StateLeaked || r.Name != stolen {
			t.Errorf("Remove = %+v, want %s as leaked", last, stolen)
		}
	}
	if _, err := os.Stat(filepath.Join(stolen, "a.txt")); err != nil {
		t.Errorf("what lies outside of the store was touched: %v", err)
	}
	if err := os.RemoveAll(stolen); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.Remove(t.Context()) {
		if r.State == worktree.StateLeaked {
			t.Errorf("Remove = %+v after the tree is gone", r)
		}
	}
}
