package worktree_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

// program writes an executable git into a directory of its own, and returns the directory.
func program(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"+script), 0o755))
	return dir
}

func TestNewRefusesGit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, path, says string }{
		{"none", t.TempDir(), "install git 2.32"},
		{"relative directory", ".:bin", "install git 2.32"},
		{"old", program(t, "echo git version 2.31.8"), "version 2.31.8; version 2.32"},
		{"other program", program(t, "echo hello"), `"hello"`},
		{"broken", program(t, "echo no library >&2; exit 7"), "no library"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := worktree.New(t.Context(), worktree.Options{Path: c.path, Home: t.TempDir()})
			if !errors.Is(err, worktree.ErrGit) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestHangingGitIsEnded has a git that ignores SIGTERM and has a child that does so too.
func TestHangingGitIsEnded(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	dir := program(t, `case "$*" in *version) echo git version 2.40.0; exit;; *safe.directory) exit 1;; esac
trap "" TERM
(trap "" TERM; while :; do sleep 1; done) &
echo $$ $! >`+pids+`
while :; do sleep 1; done
`)
	path := dir + string(os.PathListSeparator) + os.Getenv("PATH")
	g, err := worktree.New(t.Context(), worktree.Options{Path: path, Home: t.TempDir(), Timeout: 2 * time.Second})
	must(t, err)
	start := time.Now()
	if _, err = g.Open(t.Context(), t.TempDir()); !errors.Is(err, worktree.ErrTimeout) {
		t.Errorf("got %v", err)
	}
	if wall := time.Since(start); wall > 20*time.Second {
		t.Errorf("it took %v", wall)
	}
	data, err := os.ReadFile(pids)
	must(t, err)
	for _, field := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(field)
		must(t, err)
		waitGone(t, pid)
	}
}

// waitGone waits until a process has ended. A zombie that nobody reaped has ended too.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d still runs", pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestCancelledCallSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, gittest.New(t, baseFiles))
	w := f.workspace()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Snapshot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestInheritedVariablesDoNotMatter runs itself under variables that point git at another repository.
func TestInheritedVariablesDoNotMatter(t *testing.T) {
	t.Parallel()
	if os.Getenv("WORKTREE_TEST_REPOSITORY") != "" {
		t.Skip("this is the inner run")
	}
	victim := gittest.New(t, map[string]string{"v.txt": "v\n"})
	repo := gittest.New(t, baseFiles)
	before := gittest.Fingerprint(t, victim.Dir)
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWholeWay$", "-test.v")
	cmd.Env = append(os.Environ(), "WORKTREE_TEST_REPOSITORY="+repo.Dir,
		"GIT_DIR="+victim.Dir+"/.git", "GIT_WORK_TREE="+victim.Dir, "GIT_INDEX_FILE="+victim.Dir+"/.git/index",
		"GIT_OBJECT_DIRECTORY="+victim.Dir+"/.git/objects", "GIT_COMMON_DIR="+victim.Dir+"/.git", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=core.worktree", "GIT_CONFIG_VALUE_0="+victim.Dir, "GIT_EXTERNAL_DIFF=false",
		"GIT_DIFF_OPTS=--unified=0", "GIT_TRACE="+trace, "GIT_TEMPLATE_DIR="+victim.Dir, "GIT_CEILING_DIRECTORIES=/",
		"GIT_LITERAL_PATHSPECS=1", "GIT_ATTR_SOURCE=HEAD")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWholeWay") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Lstat(trace); err == nil {
		t.Error("git saw GIT_TRACE")
	}
	diff(t, before, gittest.Fingerprint(t, victim.Dir))
}

// TestWholeWay goes from a repository to a patch, in a process whose environment was poisoned.
func TestWholeWay(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("WORKTREE_TEST_REPOSITORY")
	if dir == "" {
		t.Skip("runs inside of TestInheritedVariablesDoNotMatter only")
	}
	g := newGit(t, t.TempDir())
	store, err := worktree.NewStore(g, t.TempDir())
	must(t, err)
	src, err := g.Open(t.Context(), dir)
	must(t, err)
	pin, err := src.Resolve(t.Context(), "")
	must(t, err)
	m, err := store.Mirror(t.Context(), src, pin.Commit, worktree.HistoryBase)
	must(t, err)
	w, err := store.Create(t.Context(), m, worktree.CreateSpec{Name: "w"})
	must(t, err)
	gittest.Write(t, filepath.Join(w.Tree(), "a.txt"), "1\n2\nthree\n4\n5\n")
	s, err := w.Snapshot(t.Context())
	must(t, err)
	var out strings.Builder
	stat, err := w.Diff(t.Context(), w.BaseTree(), s.Tree, &out)
	must(t, err)
	if stat.Files != 1 || !strings.Contains(out.String(), " 1\n 2\n-3\n+three\n 4\n 5\n") {
		t.Errorf("%+v\n%s", stat, out.String())
	}
}
