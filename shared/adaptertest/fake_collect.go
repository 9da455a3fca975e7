package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"cellharness/shared"
)

// Collect reads the artifacts and makes the patch.
func (f *Fake) Collect(ctx context.Context, h shared.Handle, spec shared.CollectSpec, sink shared.ArtifactSink) (shared.Collection, error) {
	return act(ctx, f, f.callFor(h, "collect"), func(b bent) (shared.Collection, error) {
		cfg, err := f.check(h)
		if err != nil {
			return shared.Collection{}, err
		}
		w, err := openWorkspace(cfg.settings.root, h.Lease)
		if err != nil {
			return shared.Collection{}, err
		}
		c := collector{w: w, spec: spec, sink: sink, lies: b}
		return c.collect(ctx)
	})
}

type collector struct {
	w     *workspace
	spec  shared.CollectSpec
	sink  shared.ArtifactSink
	lies  bent
	root  *os.Root
	found shared.Collection
}

func (c *collector) collect(ctx context.Context) (_ shared.Collection, err error) {
	if c.root, err = os.OpenRoot(c.w.tree()); err != nil {
		return shared.Collection{}, collectError("open the workspace", err)
	}
	defer func() { err = errors.Join(err, c.root.Close()) }()
	names, err := c.names()
	if err != nil {
		return shared.Collection{}, err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return shared.Collection{}, fromContext(ctx.Err())
		}
		if err := c.file(name); err != nil {
			return shared.Collection{}, collectError(fmt.Sprintf("collect %q", name), err)
		}
	}
	if err := c.patches(); err != nil {
		return shared.Collection{}, err
	}
	return c.found, nil
}

// names lists what was asked for: the pattern itself where it names one file or matches none.
func (c *collector) names() ([]string, error) {
	var names []string
	for _, p := range c.spec.Patterns {
		if _, err := shared.ParsePattern(string(p)); err != nil {
			return nil, invalid(shared.CauseCollect, err.Error())
		}
		matches := []string{string(p)}
		if p.IsGlob() {
			var err error
			if matches, err = c.matches(p); err != nil {
				return nil, collectError("list the workspace", err)
			}
		}
		for _, m := range matches {
			if !slices.Contains(names, m) {
				names = append(names, m)
			}
		}
	}
	return names, nil
}

func (c *collector) matches(p shared.Pattern) ([]string, error) {
	var matches []string
	err := fs.WalkDir(c.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return err
		case err != nil:
			return fs.SkipDir
		case d.IsDir() && strings.EqualFold(d.Name(), ".git"):
			return fs.SkipDir
		case !d.IsDir() && p.Match(name):
			matches = append(matches, name)
		}
		return nil
	})
	if len(matches) == 0 {
		matches = []string{string(p)}
	}
	slices.Sort(matches)
	return matches, err
}

// file sends one file.
func (c *collector) file(name string) error {
	if err := c.sink.Begin(shared.ArtifactFile, name); err != nil {
		return err
	}
	a, data, err := c.read(name)
	if err != nil {
		return err
	}
	if a.State == shared.ArtifactRefused {
		c.found.Notices = append(c.found.Notices, shared.Notice{
			Kind: shared.NoticeArtifactRefused, Detail: name + ": " + a.Detail, Count: 1,
		})
	}
	c.bend(&a)
	return c.send(a, data)
}

func (c *collector) bend(a *shared.Artifact) {
	if c.lies["digest"] && a.State == shared.ArtifactPresent {
		a.SHA256 = digest([]byte("something else"))
	}
	if c.lies["missing"] && a.State == shared.ArtifactMissing {
		a.State, a.SHA256 = shared.ArtifactPresent, digest(nil)
	}
}

func (c *collector) send(a shared.Artifact, data []byte) error {
	if len(data) > 0 {
		if _, err := c.sink.Write(data); err != nil {
			return err
		}
	}
	return c.sink.End(a)
}

// read looks at a file, and opens it only when it is regular: opening a pipe would wait for a writer.
func (c *collector) read(name string) (shared.Artifact, []byte, error) {
	a := shared.Artifact{Kind: shared.ArtifactFile, Path: name}
	info, err := c.look(name)
	a.State, a.Detail = judge(info, err)
	switch {
	case a.State != shared.ArtifactPresent:
		return a, nil, nil
	case c.spec.MaxBytes > 0 && info.Size() > c.spec.MaxBytes:
		a.State, a.Bytes = shared.ArtifactTooLarge, info.Size()
		return a, nil, nil
	}
	data, err := c.content(name)
	a.Bytes, a.SHA256 = int64(len(data)), digest(data)
	return a, data, err
}

// look returns what is at name, or at the first link on the way to it.
func (c *collector) look(name string) (fs.FileInfo, error) {
	if c.lies["links"] {
		return os.Stat(path.Join(c.w.tree(), name))
	}
	parts := strings.Split(name, "/")
	for i := range parts[1:] {
		info, err := c.root.Lstat(path.Join(parts[:i+1]...))
		if err == nil && info.Mode().Type() == fs.ModeSymlink {
			return info, nil
		}
	}
	return c.root.Lstat(name)
}

// judge tells the state of a file, and why it is refused.
func judge(info fs.FileInfo, err error) (shared.ArtifactState, string) {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return shared.ArtifactMissing, ""
	case err != nil:
		return shared.ArtifactRefused, err.Error()
	case info.IsDir():
		return shared.ArtifactDirectory, ""
	case info.Mode().Type() == fs.ModeSymlink:
		return shared.ArtifactRefused, info.Name() + " is a symbolic link"
	case !info.Mode().IsRegular():
		return shared.ArtifactRefused, "it is no regular file"
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return shared.ArtifactRefused, "it is a hard link"
	}
	return shared.ArtifactPresent, ""
}

func (c *collector) content(name string) (data []byte, err error) {
	if c.lies["links"] {
		return os.ReadFile(path.Join(c.w.tree(), name))
	}
	file, err := c.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(file)
}

// patches makes the patches that were asked for.
func (c *collector) patches() error {
	if !c.spec.Diff && !c.spec.DiffFromBase {
		return nil
	}
	now, unreadable, err := readTree(c.w.tree())
	if err != nil {
		return collectError("read the workspace", err)
	}
	if len(unreadable) > 0 {
		c.found.Notices = append(c.found.Notices, shared.Notice{
			Kind: shared.NoticeUnreadable, Detail: strings.Join(unreadable, ", "), Count: int64(len(unreadable)),
		})
	}
	if c.spec.Diff {
		start, err := c.w.startTree()
		if err != nil {
			return collectError("read the state at the start", err)
		}
		if c.found.Diff, err = c.patch(shared.ArtifactDiff, start, now); err != nil {
			return err
		}
	}
	if c.spec.DiffFromBase {
		c.found.DiffFromBase, err = c.patch(shared.ArtifactDiffFromBase, c.w.baseTree(), now)
	}
	return err
}

func (c *collector) patch(kind shared.ArtifactKind, from, to tree) (*shared.Diff, error) {
	if err := c.sink.Begin(kind, shared.DiffName); err != nil {
		return nil, collectError("send the patch", err)
	}
	patch, sum := makePatch(from, to)
	a := shared.Artifact{
		Kind: kind, Path: shared.DiffName, State: shared.ArtifactPresent, Bytes: sum.Bytes, SHA256: sum.SHA256,
	}
	if err := c.send(a, patch); err != nil {
		return nil, collectError("send the patch", err)
	}
	return &sum, nil
}

func collectError(doing string, err error) error {
	return &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseCollect, Message: doing + ": " + err.Error(), Err: err}
}
