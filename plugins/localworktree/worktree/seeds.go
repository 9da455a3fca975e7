package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CommitSeeds commits the given files, as they are in the workspace, on top of its HEAD, and no other change. The
// commit has a fixed author and date, so the same files on the same base give the same id. It fails with ErrVanished
// where the workspace or its git directory is not the one that was made.
func (w *Workspace) CommitSeeds(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	if err := w.checkGitDir(); err != nil {
		return err
	}
	// The object goes where the workspace's own git finds it; all else is done through our own git directory.
	t, err := w.trusted(nil)
	if err != nil {
		return err
	}
	t.env = append(t.env, "GIT_OBJECT_DIRECTORY="+filepath.Join(w.gitDir(), "objects"))
	head, err := w.store.git.output(ctx, inside(w.gitDir(), "rev-parse", "--verify", "-q", "HEAD^{commit}"))
	if err != nil {
		return fmt.Errorf("read HEAD of workspace %s: %w", w.Name(), err)
	}
	commit, err := t.commit(ctx, head, paths)
	if err != nil {
		return fmt.Errorf("commit the seeds in workspace %s: %w", w.Name(), err)
	}
	update := inside(w.gitDir(), "update-ref", "-m", "seeds", "HEAD", commit, head)
	update.env = append(update.env, author()...)
	if _, err := w.store.git.run(ctx, update); err != nil {
		return fmt.Errorf("move HEAD of workspace %s: %w", w.Name(), err)
	}
	t.env = append(t.env, "GIT_INDEX_FILE="+filepath.Join(w.gitDir(), "index"))
	if err := t.stage(ctx, paths); err != nil {
		return fmt.Errorf("renew the index of workspace %s: %w", w.Name(), err)
	}
	return nil
}

// checkGitDir makes sure that the workspace's git directory is the one that was made, and leads to no other.
func (w *Workspace) checkGitDir() error {
	if err := w.checkPresent(); err != nil {
		return err
	}
	if id, err := identify(w.gitDir()); err != nil || id != w.meta.GitDirectory {
		return fail(ErrVanished, "the git directory of workspace %s is gone or was replaced", w.Tree())
	}
	if _, err := os.Lstat(filepath.Join(w.gitDir(), "commondir")); err == nil {
		return fail(ErrVanished, "the git directory of workspace %s was made to lead to another one", w.Tree())
	}
	return nil
}

func (t *trusted) commit(ctx context.Context, parent string, paths []string) (string, error) {
	if _, err := t.output(ctx, "read-tree", parent); err != nil {
		return "", err
	}
	if err := t.stage(ctx, paths); err != nil {
		return "", err
	}
	tree, err := t.output(ctx, "write-tree")
	if err != nil {
		return "", err
	}
	c := t.command("commit-tree", "-p", parent, "-m", "seeds", tree)
	c.env = slices.Concat(c.env, author())
	return t.git.output(ctx, c)
}

// stage takes single files into the index, ignored ones too.
func (t *trusted) stage(ctx context.Context, paths []string) error {
	c := t.command("update-index", "--add", "--replace", "-z", "--stdin")
	c.stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	_, err := t.git.run(ctx, c)
	return err
}
