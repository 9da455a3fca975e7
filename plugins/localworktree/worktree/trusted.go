package worktree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// trusted is the git directory of ours through which a workspace is read and changed. Its objects stay as long as the
// workspace does; everything else in it is written anew for each use, because a cell may have found it.
type trusted struct {
	git  *Git
	dir  string
	tree string
	env  []string
}

// trusted writes the git directory, and a private index where one is given.
func (w *Workspace) trusted(index []byte) (*trusted, error) {
	if err := w.checkMirror(); err != nil {
		return nil, err
	}
	dir := filepath.Join(w.dir, workspaceTrusted)
	if err := clearControl(dir); err != nil {
		return nil, fmt.Errorf("renew %s: %w", dir, err)
	}
	var errs []error
	for _, name := range []string{"objects/info", "refs", "info"} {
		errs = append(errs, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	write := func(name string, data []byte) {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	write("HEAD", []byte("ref: refs/heads/none\n"))
	write("config", []byte(repositoryConfig(w.mirror.format)))
	write("info/attributes", w.mirror.attributes)
	write("objects/info/alternates", []byte(w.mirror.objects()+"\n"))
	if index != nil {
		write("index", index)
	}
	if w.mirror.shallow != nil {
		write("shallow", w.mirror.shallow)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("renew %s: %w", dir, err)
	}
	return &trusted{git: w.store.git, dir: dir, tree: w.Tree(), env: []string{
		"GIT_DIR=" + dir, "GIT_WORK_TREE=" + w.Tree(), "GIT_INDEX_FILE=" + filepath.Join(dir, "index"),
	}}, nil
}

// clearControl removes everything but the objects from dir, and everything that steers git from the objects.
func clearControl(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil {
		return nil
	} else if !errors.Is(err, os.ErrExist) {
		return err
	}
	if _, err := identify(dir); err != nil { // a link would lead the removal somewhere else
		return errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	errs := []error{err}
	for _, entry := range entries {
		if entry.Name() != "objects" || !entry.IsDir() {
			errs = append(errs, root.RemoveAll(entry.Name()))
		}
	}
	errs = append(errs, root.RemoveAll(filepath.Join("objects", "info")))
	return errors.Join(append(errs, root.Close())...)
}

// command is a git call on the workspace.
func (t *trusted) command(args ...string) command {
	return command{args: args, dir: t.tree, env: slices.Clone(t.env)}
}

func (t *trusted) output(ctx context.Context, args ...string) (string, error) {
	return t.git.output(ctx, t.command(args...))
}

// applyPatch applies a patch to the base and checks the result out. data is the index of the workspace as it is.
func (w *Workspace) applyPatch(ctx context.Context, patch io.Reader, data []byte) error {
	in := bufio.NewReader(patch)
	if _, err := in.Peek(1); errors.Is(err, io.EOF) {
		return nil // git refuses an empty patch
	} else if err != nil {
		return fmt.Errorf("read the patch: %w", err)
	}
	t, err := w.trusted(data)
	if err != nil {
		return err
	}
	apply := t.command("apply", "--cached", "--whitespace=nowarn", "-")
	apply.stdin = in
	if text, err := t.git.run(ctx, apply); exitCode(err) > 0 {
		return fail(ErrPatch, "the patch does not apply to %s: %s", w.Base(), text)
	} else if err != nil {
		return fmt.Errorf("apply the patch: %w", err)
	}
	if w.meta.Start, err = t.output(ctx, "write-tree"); err != nil {
		return fmt.Errorf("write the patched tree: %w", err)
	}
	if t, err = w.trusted(data); err != nil {
		return err
	}
	if _, err = t.output(ctx, "read-tree", "-m", "-u", w.meta.BaseTree, w.meta.Start); err != nil {
		return fmt.Errorf("check the patched tree out: %w", err)
	}
	return w.writeMeta()
}
