package worktree_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

// baseFiles is what every edit starts from.
var baseFiles = map[string]string{
	"a.txt": "1\n2\n3\n4\n5\n", "b.txt": "b\n", "blank.txt": "x\n\n\n\n", "noeol.txt": "no end", "empty.txt": "",
	"crlf.txt": "one\r\ntwo\r\n", "bin.dat": "\x00\x01\x02\xff\xfe", "dir/c.txt": "c\n", "dir/d.txt": "d\n",
	"dir/deep/e.txt": "e\n", ".gitignore": "*.o\nignored/\n", "eol.txt": "k\nl\n", "odd/.gitattributes": "*.x text eol=crlf\n",
	"odd/f.x": "f\n", ".gitattributes": "eol.txt text eol=crlf\n", "script.sh": "#!/bin/sh\n",
}

// edit is one way to change a workspace.
type edit struct {
	name string
	do   func(t *testing.T, cell *gittest.Repository)
}

func write(name, content string) func(*testing.T, *gittest.Repository) {
	return func(_ *testing.T, cell *gittest.Repository) { cell.Write(name, content) }
}

// steps runs git commands, and shell-like steps that begin with "write" or "rm".
func steps(lines ...string) func(*testing.T, *gittest.Repository) {
	return func(t *testing.T, cell *gittest.Repository) {
		for _, line := range lines {
			fields := strings.Fields(line)
			switch fields[0] {
			case "write":
				cell.Write(fields[1], strings.Join(fields[2:], " ")+"\n")
			case "rm":
				must(t, os.RemoveAll(filepath.Join(cell.Dir, fields[1])))
			case "mv":
				must(t, os.Rename(filepath.Join(cell.Dir, fields[1]), filepath.Join(cell.Dir, fields[2])))
			case "chmod":
				must(t, os.Chmod(filepath.Join(cell.Dir, fields[1]), 0o755))
			case "ln":
				must(t, os.Symlink(fields[1], filepath.Join(cell.Dir, fields[2])))
			default:
				cell.Git(fields...)
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func edits() []edit {
	all256 := make([]byte, 256)
	for i := range all256 {
		all256[i] = byte(i)
	}
	list := []edit{
		{"new file", write("new.txt", "new\n")},
		{"line changed", write("a.txt", "1\n2\nthree\n4\n5\n")},
		{"deleted", steps("rm a.txt")},
		{"all deleted", steps("rm a.txt", "rm b.txt", "rm dir", "rm odd", "rm .gitignore", "rm .gitattributes", "rm bin.dat",
			"rm blank.txt", "rm noeol.txt", "rm empty.txt", "rm crlf.txt", "rm eol.txt", "rm script.sh")},
		{"binary changed", write("bin.dat", "\x00\x01\x03")},
		{"binary new", write("new.dat", string(all256))},
		{"NUL in text", write("a.txt", "1\n\x00\n")},
		{"mode", steps("chmod b.txt")},
		{"symlink", steps("ln b.txt link", "ln /nowhere/else far", "ln dir todir")},
		{"symlink to file", steps("rm b.txt", "ln a.txt b.txt")},
		{"directory to symlink", steps("rm dir", "ln a.txt dir")},
		{"directory to file", steps("rm dir", "write dir x")},
		{"file to directory", steps("rm a.txt", "write a.txt/x y")},
		{"rename", steps("mv a.txt z.txt")},
		{"case-only rename", steps("mv a.txt A.txt")},
		{"swap", steps("mv a.txt t", "mv b.txt a.txt", "mv t b.txt")},
		{"empty file", write("e", "")},
		{"emptied", write("a.txt", "")},
		{"no final newline", write("a.txt", "1\n2")},
		{"final newline added", write("noeol.txt", "no end\n")},
		{"blank context", write("blank.txt", "changed\n\n\n\n")},
		{"CRLF kept", write("crlf.txt", "one\r\n2\r\n")},
		{"CRLF to LF", write("crlf.txt", "one\ntwo\n")},
		{"lone CR", write("cr.txt", "a\rb\r")},
		{"eol attribute of the base", write("eol.txt", "k\r\nmore\r\n")},
		{"nested attribute of the base", write("odd/f.x", "f\r\ng\r\n")},
		{"attributes changed", steps("write .gitattributes * text=auto eol=crlf", "write b.txt x")},
		{"attributes removed", steps("rm .gitattributes", "rm odd/.gitattributes", "write b.txt x")},
		{"encoding attribute", steps("write .gitattributes * working-tree-encoding=UTF-16", "write b.txt x")},
		{"latin-1", write("l.txt", "caf\xe9\n")},
		{"UTF-16", write("u.txt", "\xff\xfea\x00\n\x00")},
		{"patch-like", write("p.txt", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")},
		{"long line", write("long.txt", strings.Repeat("x", 3<<20)+"\n")},
		{"long name", write(strings.Repeat("n", 250), "n\n")},
		{"committed", steps("write b.txt x", "commit -qam c1", "write a.txt y", "add -A", "commit -qm c2")},
		{"committed and edited", steps("write b.txt x", "commit -qam c1", "write a.txt y", "write n z")},
		{"on another branch", steps("checkout -qb other", "write b.txt x", "commit -qam c1")},
		{"orphan branch", steps("checkout -q --orphan lost", "write b.txt x", "commit -qam c1")},
		{"staged then edited", steps("write b.txt x", "add b.txt", "write b.txt y")},
		{"intent to add", steps("write n x", "add -N n")},
		{"staged deletion of what is there", steps("update-index --force-remove a.txt", "write b.txt x")},
		{"stash", steps("write b.txt x", "stash -q", "write a.txt y")},
		{"ignored file", steps("write x.o ignored", "write ignored/y z", "write b.txt x")},
		{"ignore rule added", steps("write .gitignore b.txt", "write b.txt x")},
		{"unborn nested repository", steps("init -q sub", "write sub/f x")},
	}
	for _, name := range []string{
		"new\nline", "tab\there", `quote"d`, `back\slash`, "bad\xff\xfe", "-dash", "star*", ":(top)x",
		" blank ", "é", "[x]", "!bang", "#hash", "dir/ sub/ x",
	} {
		list = append(list, edit{"name " + name, write(name, "x\n")})
	}
	return list
}

// TestPatchGivesTheSameTree makes every edit in a workspace, and applies the patch to the base: by git's index in the
// user's repository, and in a fresh workspace.
func TestPatchGivesTheSameTree(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, baseFiles)
	f := newFixture(t, repo)
	m := f.mirror(worktree.HistoryBase)
	for i, e := range edits() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{t: t, repo: repo, git: f.git, store: f.store}
			w := f.create(m, name("edit", i))
			e.do(t, f.cell(w))
			patch, stat, snapshot := f.patch(w)
			if stat.To != snapshot.Tree || stat.Bytes != int64(len(patch)) || (stat.Files == 0) != (patch == "") {
				t.Errorf("the numbers %+v do not fit a patch of %d bytes", stat, len(patch))
			}
			if patch == "" {
				t.Fatal("the patch is empty")
			}
			if got := applied(t, repo, m.Commit, patch); got != snapshot.Tree {
				t.Errorf("applied to the base the patch gives %s, want %s\n%s", got, snapshot.Tree, patch)
			}
			fresh, err := f.store.Create(t.Context(), m, worktree.CreateSpec{
				Name:  name("fresh", i),
				Patch: strings.NewReader(patch),
			})
			must(t, err)
			if fresh.StartTree() != snapshot.Tree || f.snapshot(fresh).Tree != snapshot.Tree {
				t.Errorf("a fresh workspace starts at %s and is %s, want %s", fresh.StartTree(), f.snapshot(fresh).Tree,
					snapshot.Tree)
			}
		})
	}
}

func name(prefix string, i int) string {
	return prefix + string(rune('A'+i/26)) + string(rune('A'+i%26))
}

// applied returns the tree that the patch makes of commit, through an index of its own in the repository.
func applied(t *testing.T, repo *gittest.Repository, commit, patch string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	repo.Git("clone", "-q", "--shared", "--no-checkout", repo.Dir, clone)
	r := repo.At(clone)
	file := filepath.Join(t.TempDir(), "patch")
	must(t, os.WriteFile(file, []byte(patch), 0o600))
	r.Git("read-tree", commit)
	r.Git("apply", "--cached", "--whitespace=nowarn", file)
	return r.Git("write-tree")
}

func TestNoChangeIsAnEmptyPatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	patch, stat, _ := f.patch(f.workspace())
	if patch != "" || stat.Files != 0 || stat.Bytes != 0 {
		t.Errorf("patch of %d bytes, %+v", len(patch), stat)
	}
}

// TestPatchIgnoresSettingsOfTheUser changes everything that a user can set about diffs.
func TestPatchIgnoresSettingsOfTheUser(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, map[string]string{
		"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b.txt": "b\n",
		".gitattributes": "*.txt diff=up\n",
	})
	marker := filepath.Join(t.TempDir(), "ran")
	settings := "[diff]\n\tnoprefix = true\n\tmnemonicPrefix = true\n\texternal = touch " + marker + " #\n\tcontext = 0\n" +
		"\trenames = copies\n\talgorithm = patience\n\trelative = true\n\tinterHunkContext = 9\n[color]\n\tui = always\n" +
		"[diff \"up\"]\n\ttextconv = touch " + marker + " && tr a-z A-Z <\n[core]\n\tabbrev = 4\n\tautocrlf = true\n" +
		"[apply]\n\twhitespace = error\n"
	patches := map[string]bool{}
	for _, config := range []string{"", settings} {
		must(t, os.WriteFile(filepath.Join(repo.Home, ".gitconfig"), []byte(config), 0o600))
		if config != "" {
			gittest.Write(t, filepath.Join(repo.Home, ".config/git/ignore"), "*\n")
			gittest.Write(t, filepath.Join(repo.Home, ".config/git/attributes"), "* -diff eol=crlf\n")
		}
		f := newFixture(t, repo)
		w := f.workspace()
		f.cell(w).Write("a.txt", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n")
		must(t, os.Rename(filepath.Join(w.Tree(), "b.txt"), filepath.Join(w.Tree(), "c.txt")))
		patch, _, _ := f.patch(w)
		patches[patch] = true
		if !strings.HasPrefix(patch, "diff --git a/a.txt b/a.txt\n") || strings.Contains(patch, "\x1b") {
			t.Errorf("with the settings %q the patch is\n%s", config, patch)
		}
	}
	if len(patches) != 1 {
		t.Error("the patch depends on the settings of the user")
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("a program of the user was started")
	}
}

func TestDiffStreams(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	w := f.workspace()
	f.cell(w).Write("a.txt", "1\n2\nthree\n4\n5\n6\n")
	f.cell(w).Write("bin.dat", "\x00\x09")
	_, stat, s := f.patch(w)
	if stat.Files != 2 || stat.Insertions != 2 || stat.Deletions != 1 {
		t.Errorf("%+v", stat)
	}
	broken := &failingWriter{}
	if _, err := w.Diff(t.Context(), w.BaseTree(), s.Tree, broken); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("a writer that fails gives %v", err)
	}
	var out bytes.Buffer
	if _, err := w.Diff(t.Context(), w.BaseTree(), strings.Repeat("1", 40), &out); err == nil {
		t.Error("a tree that does not exist gives no error")
	}
}

type failingWriter struct{}

func (*failingWriter) Write([]byte) (int, error) {
	return 0, os.NewSyscallError("disk full", os.ErrInvalid)
}
