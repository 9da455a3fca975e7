package worktree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

// TestUnusualRepositories goes the whole way, from the repository to a patch, for every kind of legal repository.
func TestUnusualRepositories(t *testing.T) {
	t.Parallel()
	src := gittest.New(t, map[string]string{"a.txt": "a\n", "dir/x": "x\n"})
	src.Write("a.txt", "b\n")
	src.Commit("second")
	at := func(t *testing.T, name string) *gittest.Repository { return src.At(filepath.Join(t.TempDir(), name)) }
	clone := func(t *testing.T, name string, options ...string) *gittest.Repository {
		r := at(t, name)
		src.Git(append(append([]string{"clone", "-q"}, options...), "file://"+src.Dir, r.Dir)...)
		return r
	}
	kinds := map[string]func(t *testing.T) *gittest.Repository{
		"plain":        func(t *testing.T) *gittest.Repository { return clone(t, "r") },
		"bare":         func(t *testing.T) *gittest.Repository { return clone(t, "r", "--bare") },
		"shallow":      func(t *testing.T) *gittest.Repository { return clone(t, "r", "--depth=1") },
		"blank":        func(t *testing.T) *gittest.Repository { return clone(t, "a b") },
		"quote":        func(t *testing.T) *gittest.Repository { return clone(t, `a'b"c`) },
		"newline":      func(t *testing.T) *gittest.Repository { return clone(t, "a\nb\n") },
		"colon":        func(t *testing.T) *gittest.Repository { return clone(t, "a:b") },
		"subdirectory": func(t *testing.T) *gittest.Repository { r := clone(t, "r"); return r.At(filepath.Join(r.Dir, "dir")) },
		"git directory": func(t *testing.T) *gittest.Repository {
			r := clone(t, "r")
			return r.At(filepath.Join(r.Dir, ".git"))
		},
		"symlink": func(t *testing.T) *gittest.Repository {
			r := at(t, "link")
			must(t, os.Symlink(src.Dir, r.Dir))
			return r
		},
		"detached": func(t *testing.T) *gittest.Repository {
			r := clone(t, "r")
			r.Git("checkout", "-q", "--detach", "HEAD~1")
			return r
		},
		"linked worktree": func(t *testing.T) *gittest.Repository {
			r := at(t, "linked")
			clone(t, "r").Git("worktree", "add", "-q", "--detach", r.Dir, "HEAD~1")
			return r
		},
		"sparse": func(t *testing.T) *gittest.Repository {
			r := clone(t, "r")
			r.Git("sparse-checkout", "set", "--no-cone", "/*", "!/dir/")
			return r
		},
		"borrowing": func(t *testing.T) *gittest.Repository {
			r := at(t, "r")
			src.Git("clone", "-q", "--shared", src.Dir, r.Dir)
			return r
		},
		"worktree configuration": func(t *testing.T) *gittest.Repository {
			r := clone(t, "r")
			r.Git("config", "extensions.worktreeConfig", "true")
			r.Git("config", "--worktree", "core.untrackedCache", "false")
			return r
		},
		"empty tree": func(t *testing.T) *gittest.Repository {
			r := gittest.New(t, nil)
			r.Git("commit", "-q", "--allow-empty", "-m", "empty")
			return r
		},
	}
	for kind, build := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			repo := build(t)
			before := gittest.Fingerprint(t, repo.Dir)
			for _, history := range []worktree.History{worktree.HistoryBase, worktree.HistoryFull, worktree.HistoryNone} {
				f := newFixture(t, repo)
				w := f.create(f.mirror(history), "w")
				f.cell(w).Write("new.txt", "new\n")
				if got := f.cell(w).Git("status", "--porcelain"); got != "?? new.txt" {
					t.Errorf("history %s: git status says %q", history, got)
				}
				f.cell(w).Git("log", "--oneline")
				_, stat, _ := f.patch(w)
				if stat.Files != 1 || w.Base() != repo.Git("rev-parse", "HEAD") {
					t.Errorf("history %s: base %s, %+v", history, w.Base(), stat)
				}
			}
			diff(t, before, gittest.Fingerprint(t, repo.Dir))
		})
	}
}

func TestPartialCloneIsNotCompleted(t *testing.T) {
	t.Parallel()
	src := gittest.New(t, map[string]string{"a.txt": "a\n"})
	src.Git("config", "uploadpack.allowFilter", "true")
	repo := src.At(filepath.Join(t.TempDir(), "partial"))
	src.Git("clone", "-q", "--filter=blob:none", "--no-checkout", "file://"+src.Dir, repo.Dir)
	f := newFixture(t, repo)
	before := gittest.Fingerprint(t, repo.Dir)
	_, err := f.store.Mirror(t.Context(), f.open(), repo.Git("rev-parse", "HEAD"), worktree.HistoryBase)
	if !errors.Is(err, worktree.ErrIncomplete) {
		t.Fatalf("got %v", err)
	}
	diff(t, before, gittest.Fingerprint(t, repo.Dir))
	repo.Git("fetch", "--refetch", "--no-filter") // the command of the message
	if w := f.workspace(); f.snapshot(w).Tree != w.BaseTree() {
		t.Error("the command of the message does not complete the repository")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	g := newGit(t, t.TempDir())
	dir := t.TempDir()
	gittest.Write(t, filepath.Join(dir, "file"), "")
	newer := gittest.New(t, map[string]string{"a": "a\n"})
	newer.Git("config", "core.repositoryformatversion", "1")
	newer.Git("config", "extensions.unheardOf", "true")
	for _, c := range []struct {
		name string
		dir  string
		kind error
		says string
	}{
		{"missing", filepath.Join(dir, "no"), worktree.ErrNoRepository, "no such file"},
		{"file", filepath.Join(dir, "file"), worktree.ErrNoRepository, "is a file"},
		{"no repository", dir, worktree.ErrNoRepository, "init"},
		{"unknown extension", newer.Dir, worktree.ErrUnsupported, "unheardof"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := g.Open(t.Context(), c.dir)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.dir) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestRepositoryOfAnotherOwner shows that git's own check is neither switched off nor ignored when the user has
// answered it.
func TestRepositoryOfAnotherOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	repo := gittest.New(t, map[string]string{"a.txt": "a\n"})
	err := filepath.WalkDir(repo.Dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 12345, 12345))
	})
	must(t, err)
	_, err = newGit(t, repo.Home).Open(t.Context(), repo.Dir)
	remedy := "git config --global --add safe.directory " + repo.Dir
	if !errors.Is(err, worktree.ErrDubiousOwnership) || !strings.HasSuffix(err.Error(), remedy) {
		t.Fatalf("got %v", err)
	}
	repo.Git("config", "--global", "--add", "safe.directory", repo.Dir)
	repo.Git("config", "--global", "--add", "safe.directory", repo.Dir+"/.git")
	f := newFixture(t, repo)
	if w := f.workspace(); f.snapshot(w).Tree != w.BaseTree() {
		t.Error("the workspace is not the base")
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, map[string]string{"a.txt": "a\n"})
	first := repo.Git("rev-parse", "HEAD")
	repo.Write("a.txt", "b\n")
	second := repo.Commit("second")
	repo.Git("branch", "feature", first)
	repo.Git("tag", "-a", "-m", "v1", "v1", first)
	repo.Git("branch", "both", first)
	repo.Git("tag", "both", second)
	repo.Git("branch", "same", first)
	repo.Git("tag", "same", first)
	src := newFixture(t, repo).open()
	for _, c := range []struct {
		ref, full, commit string
		kind              error
	}{
		{ref: "", full: "refs/heads/main", commit: second},
		{ref: "main", full: "refs/heads/main", commit: second},
		{ref: "feature", full: "refs/heads/feature", commit: first},
		{ref: "refs/heads/both", full: "refs/heads/both", commit: first},
		{ref: "v1", full: "refs/tags/v1", commit: first},
		{ref: "same", full: "refs/tags/same", commit: first},
		{ref: first, commit: first},
		{ref: first[:10], commit: first},
		{ref: "HEAD~1", commit: first},
		{ref: "both", kind: worktree.ErrAmbiguousRef},
		{ref: "nothing", kind: worktree.ErrUnknownRef},
		{ref: "--all", kind: worktree.ErrUnknownRef},
		{ref: "-h", kind: worktree.ErrUnknownRef},
		{ref: "HEAD:a.txt", kind: worktree.ErrUnknownRef},
		{ref: "a\nb", kind: worktree.ErrUnknownRef},
	} {
		t.Run(c.ref, func(t *testing.T) {
			pin, err := src.Resolve(t.Context(), c.ref)
			if !errors.Is(err, c.kind) || (err == nil) != (c.kind == nil) {
				t.Fatalf("got %v, want %v", err, c.kind)
			}
			if pin.Commit != c.commit || (c.full != "" && pin.FullName != c.full) {
				t.Errorf("got %+v", pin)
			}
		})
	}
}

func TestResolveWithoutCommits(t *testing.T) {
	t.Parallel()
	src := newFixture(t, gittest.New(t, nil)).open()
	for ref, kind := range map[string]error{
		"": worktree.ErrNoCommits, "main": worktree.ErrNoCommits,
		"other": worktree.ErrUnknownRef,
	} {
		if _, err := src.Resolve(t.Context(), ref); !errors.Is(err, kind) {
			t.Errorf("%q gives %v", ref, err)
		}
	}
}

func TestResolveNotices(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t, map[string]string{
		"a.txt": "a\n", "b.txt": "b\n", "x.bin": "data",
		".gitattributes": "# comment filter=no\n*.bin filter=big -text\n\"odd name\" filter=other\n",
	})
	repo.Git("update-index", "--add", "--cacheinfo", "160000,"+repo.Git("rev-parse", "HEAD")+",mod")
	must(t, os.MkdirAll(filepath.Join(repo.Dir, "mod"), 0o755))
	commit := repo.Commit("submodule")
	marker := filepath.Join(t.TempDir(), "marker")
	repo.Write("a.txt", "staged\n")
	repo.Git("add", "a.txt")
	repo.Write("b.txt", "unstaged\n")
	repo.Write("new.txt", "untracked\n")
	repo.Write("x.bin", "DATA")
	repo.Git("config", "filter.big.clean", "touch "+marker+"; cat")
	repo.Git("config", "filter.big.required", "true")
	before := gittest.Fingerprint(t, repo.Dir)
	src := newFixture(t, repo).open()
	pin, err := src.Resolve(t.Context(), "main")
	must(t, err)
	var got []string
	for _, n := range pin.Notices {
		got = append(got, n.Kind+": "+n.Detail)
	}
	diff(t, []string{
		"dirty_source: uncommitted changes are not in the commit: 1 staged, 2 unstaged, 1 untracked",
		"submodule: 1 submodules, not checked out",
		`filter_not_applied: files of filter "big" are given as stored (rule "*.bin filter=big" of .gitattributes)`,
		`filter_not_applied: files of filter "other" are given as stored (rule "odd name filter=other" of .gitattributes)`,
	}, got)
	if _, err := os.Lstat(marker); err == nil {
		t.Error("a filter of the user was started")
	}
	diff(t, before, gittest.Fingerprint(t, repo.Dir))
	old, err := src.Resolve(t.Context(), commit+"~1")
	must(t, err)
	for _, n := range old.Notices {
		if n.Kind == worktree.NoticeDirtySource || n.Kind == worktree.NoticeSubmodule {
			t.Errorf("for an older commit: %+v", n)
		}
	}
}
