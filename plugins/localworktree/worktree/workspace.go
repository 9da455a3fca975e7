package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// metaVersion is the version of meta.
const metaVersion = 1

// The names inside the directory of a workspace.
const (
	workspaceTree    = "tree"        // the workspace itself
	workspaceTrusted = "trusted.git" // git directory through which it is read
	workspaceMeta    = "meta.json"
)

// Workspace is a directory with the files of a commit. One goroutine at a time may use it, but for Remove, which may
// come at any time.
type Workspace struct {
	store  *Store
	mirror *Mirror // nil where it is gone; see Open
	dir    string
	meta   meta
	held   *os.File // the tree, wherever it is; nil in a process that did not make it
}

// meta is what is kept beside a workspace. It is there before the first file of the workspace is.
type meta struct {
	Version      int       `json:"version"`
	Created      time.Time `json:"created"`
	Labels       []byte    `json:"labels"`
	Mirror       string    `json:"mirror"`
	Base         string    `json:"base"`
	BaseTree     string    `json:"base_tree"`
	Start        string    `json:"start"`
	Directory    identity  `json:"directory"`
	GitDirectory identity  `json:"git_directory"`
}

// Entry is a workspace that a store holds.
type Entry struct {
	Name    string
	Tree    string // directory, absolute
	Base    string // commit; empty where the maker died before it could write it
	Labels  []byte // nil where the maker died before it could write them
	Created time.Time
}

// Open opens a workspace that any process made. It fails with ErrNotFound. A workspace whose mirror or tree is gone can
// be opened, so that it can be removed.
func (st *Store) Open(ctx context.Context, name string) (*Workspace, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", name, err)
	}
	w := &Workspace{store: st, dir: filepath.Join(st.workspaces(), name)}
	var err error
	if w.meta, err = readMeta(w.dir); errors.Is(err, os.ErrNotExist) {
		return nil, fail(ErrNotFound, "there is no workspace %s", w.dir)
	} else if err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", name, err)
	}
	w.mirror, err = st.openCached(w.meta.Mirror)
	if err != nil && !errors.Is(err, ErrMirror) {
		return nil, fmt.Errorf("open workspace %s: %w", name, err)
	}
	return w, nil
}

// List lists the workspaces that there are, whoever made them, half-made ones too, and those that Remove could not
// remove whole.
func (st *Store) List(ctx context.Context) ([]Entry, error) {
	dirs, err := os.ReadDir(st.workspaces())
	if err != nil {
		return nil, fmt.Errorf("list the workspaces: %w", err)
	}
	var entries []Entry
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list the workspaces: %w", err)
		}
		info, err := dir.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("list the workspaces: %w", err)
		}
		tree := filepath.Join(st.workspaces(), dir.Name(), workspaceTree)
		entry := Entry{Name: dir.Name(), Tree: tree, Created: info.ModTime().UTC()}
		if m, err := readMeta(filepath.Join(st.workspaces(), dir.Name())); err == nil {
			entry.Base, entry.Labels, entry.Created = m.Base, m.Labels, m.Created
		}
		entries = append(entries, entry)
	}
	trashed, err := st.listTrash()
	if err != nil {
		return nil, fmt.Errorf("list the workspaces: %w", err)
	}
	return append(entries, trashed...), nil
}

func readMeta(dir string) (meta, error) {
	data, err := os.ReadFile(filepath.Join(dir, workspaceMeta))
	if err != nil {
		return meta{}, err
	}
	var m meta
	if err := json.Unmarshal(data, &m); err != nil {
		return meta{}, fmt.Errorf("read %s: %w", workspaceMeta, err)
	}
	if m.Version != metaVersion {
		return meta{}, fmt.Errorf("%s has version %d; this build reads version %d", workspaceMeta, m.Version, metaVersion)
	}
	return m, nil
}

// writeMeta replaces meta.json. It is not synced: what survives a power failure is the caller's own record, and this
// is on the path of every provision.
func (w *Workspace) writeMeta() error {
	data, err := json.Marshal(w.meta)
	if err != nil {
		return fmt.Errorf("write %s: %w", workspaceMeta, err)
	}
	return replaceFile(filepath.Join(w.dir, workspaceMeta), data)
}

// replaceFile writes a file so that a reader sees the old bytes or the new ones.
func replaceFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Name returns the name of the workspace in its store.
func (w *Workspace) Name() string { return filepath.Base(w.dir) }

// Tree returns the directory that is the workspace, absolute.
func (w *Workspace) Tree() string { return filepath.Join(w.dir, workspaceTree) }

// Base returns the commit the workspace was made from.
func (w *Workspace) Base() string { return w.meta.Base }

// BaseTree returns the tree of Base.
func (w *Workspace) BaseTree() string { return w.meta.BaseTree }

// StartTree returns the tree the workspace was created with: that of Base with the patch of CreateSpec. It is known
// without a look at the files, and Diff takes it.
func (w *Workspace) StartTree() string { return w.meta.Start }

// Labels returns the labels of CreateSpec.
func (w *Workspace) Labels() []byte { return w.meta.Labels }

// Created returns when the workspace was made.
func (w *Workspace) Created() time.Time { return w.meta.Created }

func (w *Workspace) gitDir() string { return filepath.Join(w.Tree(), ".git") }

// checkPresent fails with ErrVanished unless the directory is the one that was made. A workspace that is gone must
// never look like one without changes.
func (w *Workspace) checkPresent() error {
	id, err := identify(w.Tree())
	if err != nil {
		return fail(ErrVanished, "the workspace %s is gone: %v", w.Tree(), errors.Unwrap(err))
	}
	if id != w.meta.Directory {
		return fail(ErrVanished, "the workspace %s is gone: another directory is in its place", w.Tree())
	}
	return nil
}

// checkMirror fails with ErrMirror where the mirror is gone.
func (w *Workspace) checkMirror() error {
	if w.mirror == nil {
		return fail(ErrMirror, "the mirror %s of workspace %s is gone or was changed",
			filepath.Join(w.store.mirrorDir(), w.meta.Mirror), w.Name())
	}
	return w.mirror.checkGit()
}
