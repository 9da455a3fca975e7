package worktree_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

// TestSnapshotBelievesNothingOfTheCell lets a cell turn its own git directory against whoever reads it. Programs it
// names write a marker; each cell also edits a.txt and adds new.txt, which must be found.
func TestSnapshotBelievesNothingOfTheCell(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, baseFiles)
	f := newFixture(t, repo)
	m := f.mirror(worktree.HistoryBase)
	attacks := map[string]func(t *testing.T, cell *gittest.Repository, program string){
		"fsmonitor": func(_ *testing.T, c *gittest.Repository, p string) { c.Git("config", "core.fsmonitor", p) },
		"hooksPath": func(t *testing.T, c *gittest.Repository, p string) { hooks(t, c, p) },
		"clean":     func(_ *testing.T, c *gittest.Repository, p string) { filters(c, p, "clean") },
		"process":   func(_ *testing.T, c *gittest.Repository, p string) { filters(c, p, "process") },
		"diff":      func(_ *testing.T, c *gittest.Repository, p string) { c.Git("config", "diff.external", p) },
		"textconv":  textconv,
		"worktree":  func(t *testing.T, c *gittest.Repository, _ string) { c.Git("config", "core.worktree", t.TempDir()) },
		"fileMode":  func(_ *testing.T, c *gittest.Repository, _ string) { c.Git("config", "core.fileMode", "false") },
		"exclude":   func(_ *testing.T, c *gittest.Repository, _ string) { c.Write(".git/info/exclude", "*\n") },
		"unchanged": func(_ *testing.T, c *gittest.Repository, _ string) {
			c.Git("update-index", "--assume-unchanged", "a.txt")
		},
		"skip": func(_ *testing.T, c *gittest.Repository, _ string) { c.Git("update-index", "--skip-worktree", "a.txt") },
		"garbage": func(_ *testing.T, c *gittest.Repository, _ string) {
			c.Write(".git/HEAD", "x")
			c.Write(".git/index", "x")
		},
		"index.lock": func(_ *testing.T, c *gittest.Repository, _ string) { c.Write(".git/index.lock", "") },
		"deleted": func(t *testing.T, c *gittest.Repository, _ string) {
			must(t, os.RemoveAll(filepath.Join(c.Dir, ".git")))
		},
		"replaced":  replaced,
		"elsewhere": func(t *testing.T, c *gittest.Repository, _ string) { pointAt(t, c, repo) },
		"trusted":   trusted,
		"fifo": func(t *testing.T, c *gittest.Repository, _ string) {
			must(t, syscall.Mkfifo(filepath.Join(c.Dir, "fifo"), 0o600))
		},
	}
	before := gittest.Fingerprint(t, repo.Dir)
	t.Run("attacks", func(t *testing.T) {
		for attack, do := range attacks {
			t.Run(attack, func(t *testing.T) {
				t.Parallel()
				f := &fixture{t: t, repo: repo, git: f.git, store: f.store}
				w := f.create(m, "attack-"+attack)
				f.snapshot(w) // so that there is something to poison beside the workspace
				marker := filepath.Join(t.TempDir(), "marker")
				program := filepath.Join(t.TempDir(), "program")
				must(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch "+marker+"\ncat\n"), 0o755))
				do(t, f.cell(w), program)
				f.cell(w).Write("a.txt", "edited\n")
				f.cell(w).Write("new.txt", "new\n")
				patch, stat, _ := f.patch(w)
				if _, err := os.Lstat(marker); err == nil {
					t.Error("a program of the cell was started")
				}
				if !strings.Contains(patch, "+edited\n") || !strings.Contains(patch, "b/new.txt\n") || stat.Files < 2 {
					t.Errorf("the patch has not all edits:\n%s", patch)
				}
				f.removeAll(w)
			})
		}
	})
	diff(t, before, gittest.Fingerprint(t, repo.Dir))
}

func hooks(t *testing.T, cell *gittest.Repository, program string) {
	dir := t.TempDir()
	for _, hook := range []string{"post-index-change", "reference-transaction", "post-checkout"} {
		must(t, os.Symlink(program, filepath.Join(dir, hook)))
	}
	cell.Git("config", "core.hooksPath", dir)
}

func filters(cell *gittest.Repository, program, kind string) {
	cell.Git("config", "filter.evil."+kind, program)
	cell.Git("config", "filter.evil.required", "true")
	cell.Write(".gitattributes", "* filter=evil\n")
	cell.Write(".git/info/attributes", "* filter=evil\n")
}

func textconv(_ *testing.T, cell *gittest.Repository, program string) {
	cell.Git("config", "diff.evil.textconv", program)
	cell.Git("config", "diff.evil.command", program)
	cell.Write(".git/info/attributes", "* diff=evil\n")
	cell.Write(".gitattributes", "* diff=evil\n")
}

func replaced(t *testing.T, cell *gittest.Repository, program string) {
	must(t, os.RemoveAll(filepath.Join(cell.Dir, ".git")))
	cell.Git("init", "-q", ".")
	cell.Git("commit", "-q", "--allow-empty", "-m", "mine")
	cell.Git("config", "core.fsmonitor", program)
}

func pointAt(t *testing.T, cell, other *gittest.Repository) {
	must(t, os.RemoveAll(filepath.Join(cell.Dir, ".git")))
	cell.Write(".git", "gitdir: "+filepath.Join(other.Dir, ".git")+"\n")
}

// trusted poisons the git directory through which the workspace is read, which a cell can find.
func trusted(t *testing.T, cell *gittest.Repository, program string) {
	dir := filepath.Join(filepath.Dir(cell.Dir), "trusted.git")
	gittest.Write(t, filepath.Join(dir, "config"), "[filter \"evil\"]\n\tclean = "+program+"\n[core]\n\tfsmonitor = "+program+"\n")
	gittest.Write(t, filepath.Join(dir, "info", "attributes"), "* filter=evil\n")
	gittest.Write(t, filepath.Join(dir, "info", "exclude"), "*\n")
	must(t, os.Remove(filepath.Join(dir, "objects", "info", "alternates")))
	must(t, os.Symlink(t.TempDir(), filepath.Join(dir, "hooks")))
}

func TestNestedRepositories(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, map[string]string{"a.txt": "a\n", "vendor/v.txt": "v\n", ".gitignore": "*.o\ncache/\n"})
	f := newFixture(t, repo)
	m := f.mirror(worktree.HistoryBase)
	w := f.create(m, "w")
	cell := f.cell(w)
	for _, dir := range []string{"sub", "empty", "cache/dep", "vendor"} {
		cell.Git("init", "-q", dir)
	}
	cell.Write("ok.txt", "ok\n")
	cell.Write("sub/f", "x\n")
	cell.Write("sub/deep/f.o", "ignored\n")
	sub := repo.At(filepath.Join(w.Tree(), "sub"))
	sub.Git("config", "core.fsmonitor", "false")
	sub.Commit("inner")
	cell.Write("empty/g", "y\n")
	cell.Write("cache/dep/h", "z\n")
	cell.Write("vendor/v.txt", "changed\n")
	patch, stat, s := f.patch(w)
	if stat.Files != 4 {
		t.Errorf("%d files in the patch:\n%s", stat.Files, patch)
	}
	var nested []string
	for _, n := range s.Notices {
		if n.Kind != worktree.NoticeNestedRepository {
			t.Errorf("notice %+v", n)
		}
		nested = append(nested, strings.Split(n.Detail, `"`)[1])
	}
	slices.Sort(nested)
	diff(t, []string{"empty", "sub", "vendor"}, nested)
	if got := applied(t, repo, m.Commit, patch); got != s.Tree {
		t.Errorf("applied to the base the patch gives %s, want %s", got, s.Tree)
	}
	f.removeAll(w)
}

func TestFilesInsideSubmodulesAreNoted(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, map[string]string{"a.txt": "a\n"})
	commit := repo.Git("rev-parse", "HEAD")
	repo.Git("update-index", "--add", "--cacheinfo", "160000,"+commit+",mod")
	repo.Git("commit", "-qm", "submodule")
	f := newFixture(t, repo)
	w := f.workspace()
	f.cell(w).Write("mod/x", "x\n")
	f.cell(w).Write("b.txt", "b\n")
	_, stat, s := f.patch(w)
	if stat.Files != 1 || len(s.Notices) != 1 || s.Notices[0].Kind != worktree.NoticeSubmodule {
		t.Errorf("%+v %+v", stat, s.Notices)
	}
}

func TestEntriesThatGitCannotTake(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	w := f.workspace()
	cell := f.cell(w)
	cell.Write("a.txt", "edited\n")
	cell.Write("new.txt", "new\n")
	cell.Write("x/.GIT/y", "y\n")
	must(t, os.Chmod(filepath.Join(w.Tree(), "new.txt"), 0))
	must(t, os.Chmod(filepath.Join(w.Tree(), "dir"), 0))
	_, stat, s := f.patch(w)
	if stat.Files != 2 {
		t.Errorf("%+v", stat)
	}
	if len(s.Notices) != 1 || s.Notices[0].Kind != worktree.NoticeUnreadable || !strings.Contains(s.Notices[0].Detail, ".GIT") {
		t.Errorf("notices %+v", s.Notices)
	}
}

func TestFileThatDoesNotFitItsEncoding(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, map[string]string{".gitattributes": "*.u text working-tree-encoding=UTF-16LE\n"})
	f := newFixture(t, repo)
	m := f.mirror(worktree.HistoryBase)
	w := f.create(m, "w")
	f.cell(w).Write("bad.u", "odd")
	f.cell(w).Write("good.txt", "x\n")
	patch, stat, s := f.patch(w)
	if stat.Files < 1 || !strings.Contains(patch, "good.txt") {
		t.Errorf("%+v %+v", stat, s.Notices)
	}
	if len(s.Notices) == 0 {
		t.Error("nothing says that a file is not as it is on disk")
	}
}

func TestVanishedWorkspaceIsNoEmptyPatch(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, baseFiles)
	f := newFixture(t, repo)
	m := f.mirror(worktree.HistoryBase)
	other := t.TempDir()
	gittest.Write(t, filepath.Join(other, "precious"), "p\n")
	for how, do := range map[string]func(dir string) error{
		"removed":        os.RemoveAll,
		"moved":          func(dir string) error { return os.Rename(dir, dir+".x") },
		"made anew":      func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)) },
		"link":           func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Symlink(other, dir)) },
		"file":           func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
		"link to itself": func(dir string) error { return errors.Join(os.Rename(dir, dir+".x"), os.Symlink(dir+".x", dir)) },
	} {
		t.Run(how, func(t *testing.T) {
			w := f.create(m, strings.ReplaceAll(how, " ", "-"))
			must(t, do(w.Tree()))
			if _, err := w.Snapshot(t.Context()); !errors.Is(err, worktree.ErrVanished) {
				t.Errorf("Snapshot gives %v", err)
			}
			f.removeAll(w)
			if entries, err := os.ReadDir(filepath.Join(f.store.Root(), "trash")); err != nil || len(entries) != 0 {
				t.Errorf("in the trash: %v %v", entries, err)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(other, "precious")); err != nil {
		t.Errorf("the removal left the workspace: %v", err)
	}
}
