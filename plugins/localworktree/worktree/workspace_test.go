package worktree_test

import (
	"os"
	"path/filepath"
	"testing"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

func TestWorkspaceIsClean(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		for _, history := range []worktree.History{worktree.HistoryBase, worktree.HistoryFull, worktree.HistoryNone} {
			t.Run(format+"/"+string(history), func(t *testing.T) {
				t.Parallel()
				repo := gittest.New(t, map[string]string{
					"a.txt": "a\n", "dir/b.txt": "b\n", "crlf.txt": "c\n",
					".gitattributes": "crlf.txt text eol=crlf\n",
				}, "--object-format="+format)
				f := newFixture(t, repo)
				m := f.mirror(history)
				w := f.create(m, "x")
				cell := f.cell(w)
				if got := cell.Git("status", "--porcelain"); got != "" {
					t.Errorf("git status says %q", got)
				}
				if got := cell.Git("rev-parse", "HEAD"); got != m.Commit {
					t.Errorf("HEAD is %s, want %s", got, m.Commit)
				}
				if got := f.snapshot(w).Tree; got != w.StartTree() || got != m.Tree {
					t.Errorf("the tree is %s, want %s", got, w.StartTree())
				}
				if got, want := cell.Git("cat-file", "-p", "HEAD^{tree}"), repo.Git("cat-file", "-p", "HEAD^{tree}"); got != want {
					t.Errorf("the tree of HEAD is\n%s\nwant\n%s", got, want)
				}
				cell.Git("fsck", "--strict")
			})
		}
	}
}

// TestAttributesOfTheBase removes every .gitattributes from a workspace. Files that the base's attributes convert must
// still be read as they were written, wherever the rule stood and however it was spelled.
func TestAttributesOfTheBase(t *testing.T) {
	t.Parallel()
	const dir = `we ird[x]*"q`
	repo := gittest.New(t, map[string]string{
		".gitattributes":            "\ufeff# comment\n[attr]win text eol=crlf\n*.w win\n!*.w -text\n*.b binary\n",
		dir + "/.gitattributes":     "*.x win\n/top.y win\nsub/*.z win\n\"sp ace\\tq\" win\n\\#hash win\n*.deep win\n",
		dir + "/sub/.gitattributes": "*.x -text\n",
		"a.w":                       "1\n", "in/b.w": "1\n", "c.b": "1\r\n\x00", dir + "/a.x": "1\n", dir + "/top.y": "1\n",
		dir + "/sub/top.y": "1\n", dir + "/sub/a.z": "1\n", dir + "/sp ace\tq": "1\n", dir + "/#hash": "1\n",
		dir + "/p/q/r.deep": "1\n", dir + "/sub/raw.x": "1\r\n", "outside.x": "1\n",
	})
	f := newFixture(t, repo)
	w := f.workspace()
	cell := f.cell(w)
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(w.Tree(), name))
		must(t, err)
		return string(data)
	}
	for _, name := range []string{
		"a.w", "in/b.w", dir + "/a.x", dir + "/top.y", dir + "/sub/a.z", dir + "/sp ace\tq",
		dir + "/#hash", dir + "/p/q/r.deep",
	} {
		if got := read(name); got != "1\r\n" {
			t.Errorf("%s is checked out as %q", name, got)
		}
	}
	for name, want := range map[string]string{dir + "/sub/top.y": "1\n", dir + "/sub/raw.x": "1\r\n", "outside.x": "1\n"} {
		if got := read(name); got != want {
			t.Errorf("%s is checked out as %q", name, got)
		}
	}
	if got := cell.Git("status", "--porcelain"); got != "" {
		t.Errorf("git status says %q", got)
	}
	for _, name := range []string{".gitattributes", dir + "/.gitattributes", dir + "/sub/.gitattributes"} {
		must(t, os.Remove(filepath.Join(w.Tree(), name)))
	}
	if patch, stat, _ := f.patch(w); stat.Files != 3 {
		t.Errorf("%d files changed, want the three that were removed:\n%s", stat.Files, patch)
	}
}
