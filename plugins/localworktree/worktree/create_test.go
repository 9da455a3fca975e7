package worktree_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

// TestParallelCreates makes 64 workspaces from four processes at once, the mirror included, while config.lock of the
// repository is held by somebody else.
func TestParallelCreates(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, baseFiles)
	repo.Write(".git/config.lock", "")
	before := gittest.Fingerprint(t, repo.Dir)
	f := newFixture(t, repo)
	var group sync.WaitGroup
	for p := range 4 {
		group.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCreateSixteen$", "-test.v")
			cmd.Env = append(os.Environ(), "WORKTREE_TEST_STORE="+f.store.Root(), "WORKTREE_TEST_SOURCE="+repo.Dir,
				fmt.Sprintf("WORKTREE_TEST_PREFIX=p%d-", p))
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestCreateSixteen") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	group.Wait()
	entries, err := f.store.List(t.Context())
	must(t, err)
	if len(entries) != 64 {
		t.Fatalf("%d workspaces", len(entries))
	}
	for _, e := range entries {
		w, err := f.store.Open(t.Context(), e.Name)
		must(t, err)
		if got := f.snapshot(w).Tree; got != w.BaseTree() {
			t.Errorf("%s has the tree %s, want %s", e.Name, got, w.BaseTree())
		}
		if string(e.Labels) != e.Name || time.Since(e.Created) > time.Hour {
			t.Errorf("%+v", e)
		}
		f.removeAll(w)
	}
	diff(t, before, gittest.Fingerprint(t, repo.Dir))
}

// TestCreateSixteen is one of the processes of TestParallelCreates.
func TestCreateSixteen(t *testing.T) {
	t.Parallel()
	root := os.Getenv("WORKTREE_TEST_STORE")
	if root == "" {
		t.Skip("runs inside of TestParallelCreates only")
	}
	g := newGit(t, t.TempDir())
	store, err := worktree.NewStore(g, root)
	must(t, err)
	src, err := g.Open(t.Context(), os.Getenv("WORKTREE_TEST_SOURCE"))
	must(t, err)
	pin, err := src.Resolve(t.Context(), "")
	must(t, err)
	m, err := store.Mirror(t.Context(), src, pin.Commit, worktree.HistoryBase)
	must(t, err)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			name := fmt.Sprintf("%s%d", os.Getenv("WORKTREE_TEST_PREFIX"), i)
			if _, err := store.Create(t.Context(), m, worktree.CreateSpec{Name: name, Labels: []byte(name)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// TestWorkspacesShareNothing looks from one workspace for what another one did in its git directory.
func TestWorkspacesShareNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	m := f.mirror(worktree.HistoryBase)
	one, two := f.cell(f.create(m, "one")), f.cell(f.create(m, "two"))
	one.Write("b.txt", "stash canary\n")
	one.Git("stash", "-q")
	one.Git("branch", "mine")
	one.Git("config", "x.y", "z")
	one.Write(".git/info/exclude", "*\n")
	one.Write("b.txt", "commit canary\n")
	one.Commit("mine")
	if got := two.Git("for-each-ref") + two.Git("stash", "list"); got != "" {
		t.Errorf("the other workspace sees %q", got)
	}
	if _, err := two.Try("config", "x.y"); err == nil {
		t.Error("the other workspace sees a setting")
	}
	if objects := two.Output("cat-file", "--batch-all-objects", "--batch"); bytes.Contains(objects, []byte("canary")) {
		t.Error("the other workspace sees objects")
	}
	two.Write("new.txt", "x\n")
	if got := two.Git("status", "--porcelain"); got != "?? new.txt" {
		t.Errorf("git status says %q", got)
	}
}

// TestCommitsNeedNoIdentity works in a workspace as a command does that has no settings at all, and as one whose user
// signs, converts and has hooks.
func TestCommitsNeedNoIdentity(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, map[string]string{"a.txt": "a\n", ".gitattributes": "*.bin filter=lfs\n", "x.bin": "pointer\n"})
	f := newFixture(t, repo)
	cell := f.cell(f.workspace())
	marker := filepath.Join(t.TempDir(), "marker")
	program := filepath.Join(t.TempDir(), "hooks", "pre-commit")
	gittest.Write(t, program, "#!/bin/sh\ntouch "+marker+"\n")
	must(t, os.Chmod(program, 0o755))
	gittest.Write(t, filepath.Join(repo.Home, ".gitconfig"), "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n"+
		"[core]\n\tautocrlf = true\n\thooksPath = "+filepath.Dir(program)+"\n[filter \"lfs\"]\n\tclean = false\n"+
		"\tsmudge = false\n\trequired = true\n")
	for _, args := range [][]string{
		{"status"},
		{"commit", "-qam", "c"},
		{"checkout", "-q", "--", "x.bin"},
		{"stash", "-q"},
		{"stash", "pop", "-q"},
	} {
		cell.Write("a.txt", strings.Join(args, " ")+"\n")
		cell.Write("x.bin", strings.Join(args, " ")+"\n")
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = cell.Dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + repo.Home}
		if args[0] == "stash" && len(args) > 2 {
			cell.Git("checkout", "-q", "--", ".")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("git %v: %v\n%s", args, err, out)
		}
	}
	if got := cell.Git("log", "-1", "--format=%an <%ae>"); got != "cellharness <cellharness@localhost>" {
		t.Errorf("the author is %q", got)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("a hook of the user was started")
	}
}

func TestCreateFailures(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	m := f.mirror(worktree.HistoryBase)
	f.create(m, "taken")
	for name, c := range map[string]struct {
		spec worktree.CreateSpec
		kind error
	}{
		"taken":       {worktree.CreateSpec{Name: "taken"}, worktree.ErrExists},
		"no patch":    {worktree.CreateSpec{Name: "x", Patch: strings.NewReader("hello\n")}, worktree.ErrPatch},
		"other patch": {worktree.CreateSpec{Name: "x", Patch: strings.NewReader(otherPatch)}, worktree.ErrPatch},
		"bad reader":  {worktree.CreateSpec{Name: "x", Patch: badReader{}}, errBadReader},
		"outside":     {worktree.CreateSpec{Name: "../x"}, nil},
		"empty":       {worktree.CreateSpec{}, nil},
		"dots":        {worktree.CreateSpec{Name: ".."}, nil},
	} {
		_, err := f.store.Create(t.Context(), m, c.spec)
		if err == nil || (c.kind != nil && !errors.Is(err, c.kind)) {
			t.Errorf("%s gives %v", name, err)
		}
	}
	entries, err := f.store.List(t.Context())
	must(t, err)
	if len(entries) != 1 || entries[0].Name != "taken" {
		t.Errorf("left: %+v", entries)
	}
	if trash, err := os.ReadDir(filepath.Join(f.store.Root(), "trash")); err != nil || len(trash) != 0 {
		t.Errorf("in the trash: %v %v", trash, err)
	}
	w, err := f.store.Create(t.Context(), m, worktree.CreateSpec{Name: "empty-patch", Patch: strings.NewReader("")})
	must(t, err)
	if w.StartTree() != w.BaseTree() {
		t.Error("an empty patch changed something")
	}
}

const otherPatch = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+x\n"

var errBadReader = errors.New("stream broken")

type badReader struct{}

func (badReader) Read([]byte) (int, error) { return 0, errBadReader }

func TestPatchedWorkspaceShowsEdits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	m := f.mirror(worktree.HistoryBase)
	w := f.create(m, "w")
	f.cell(w).Write("b.txt", "changed\n")
	f.cell(w).Write("new.txt", "new\n")
	patch, _, _ := f.patch(w)
	_, err := f.store.Create(t.Context(), m, worktree.CreateSpec{Name: "p", Patch: strings.NewReader(patch)})
	must(t, err)
	p, err := f.store.Open(t.Context(), "p")
	must(t, err)
	if got := f.cell(p).Git("status", "--porcelain"); got != "M b.txt\n?? new.txt" {
		t.Errorf("git status says %q", got)
	}
	if p.StartTree() == p.BaseTree() || p.StartTree() != f.snapshot(p).Tree {
		t.Errorf("it starts at %s", p.StartTree())
	}
}

func TestCommitSeeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	m := f.mirror(worktree.HistoryBase)
	var heads []string
	for _, name := range []string{"one", "two"} {
		w := f.create(m, name)
		cell := f.cell(w)
		marker := filepath.Join(t.TempDir(), "marker")
		hook := filepath.Join(t.TempDir(), "hook")
		must(t, os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o755))
		cell.Git("config", "core.fsmonitor", hook)
		hooks(t, cell, hook)
		must(t, os.RemoveAll(marker))
		cell.Write("deep/seed -x.txt", "seed\n")
		cell.Write("seed.o", "ignored by the base\n")
		cell.Write("other.txt", "not a seed\n")
		must(t, w.CommitSeeds(t.Context(), []string{"deep/seed -x.txt", "seed.o"}))
		if _, err := os.Lstat(marker); err == nil {
			t.Error("a program of the workspace was started")
		}
		cell.Git("config", "core.fsmonitor", "false")
		cell.Git("config", "--unset", "core.hooksPath")
		if got := cell.Git("status", "--porcelain"); got != "?? other.txt" {
			t.Errorf("git status says %q", got)
		}
		if got := cell.Git("show", "--format=%an %s", "--name-only", "HEAD"); got != "cellharness seeds\n\ndeep/seed -x.txt\nseed.o" {
			t.Errorf("the commit is %q", got)
		}
		cell.Git("fsck", "--strict")
		heads = append(heads, cell.Git("rev-parse", "HEAD"))
	}
	if heads[0] != heads[1] {
		t.Errorf("the same seeds give %v", heads)
	}
	w := f.create(m, "three")
	if err := w.CommitSeeds(t.Context(), []string{"missing.txt"}); err == nil {
		t.Error("a seed that is not there was committed")
	}
	must(t, os.RemoveAll(filepath.Join(w.Tree(), ".git")))
	f.cell(w).Write("s.txt", "s\n")
	pointAt(t, f.cell(w), f.repo)
	before := gittest.Fingerprint(t, f.repo.Dir)
	if err := w.CommitSeeds(t.Context(), []string{"s.txt"}); !errors.Is(err, worktree.ErrVanished) {
		t.Errorf("through another git directory: %v", err)
	}
	diff(t, before, gittest.Fingerprint(t, f.repo.Dir))
}
