package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The states of a Removal.
const (
	StateRemoved = "removed"
	StateAbsent  = "absent" // was gone already
	StateLeaked  = "leaked" // is still there
)

// KindWorkspace is the kind of a Removal of a workspace: its directory with everything in it.
const KindWorkspace = "workspace"

// Removal is what was seen of a directory after its removal was tried.
type Removal struct {
	Kind   string
	Name   string // path
	State  string
	Detail string // why it is leaked
}

// Remove removes the workspace; see Store.Remove. A tree that was moved out of the store is not followed there: it is
// told as leaked, with the place where it is.
func (w *Workspace) Remove(ctx context.Context) []Removal {
	removals := w.store.Remove(ctx, w.Name())
	if w.held == nil {
		return removals
	}
	path := whereabouts(w.held)
	if strings.HasPrefix(path, w.store.root+"/") {
		return removals // which say what is left in the store
	}
	if id, err := identify(path); path != "" && err == nil && id == w.meta.Directory {
		return append(removals, Removal{
			Kind: KindWorkspace, Name: path, State: StateLeaked,
			Detail: "a command moved the workspace there; nothing outside of the store is removed",
		})
	}
	_ = w.held.Close() // it was opened for its place alone
	w.held = nil
	return removals
}

// Remove removes the workspace of that name, and what an earlier Remove could not. It renames the directory away
// first, so that the name is free at once, follows no link, enters nothing that is mounted, and says what it saw
// afterwards. What is gone already counts as done, so it can be tried again.
func (st *Store) Remove(ctx context.Context, name string) []Removal {
	dir := filepath.Join(st.workspaces(), name)
	if err := checkName(name); err != nil {
		return []Removal{{Kind: KindWorkspace, Name: dir, State: StateLeaked, Detail: err.Error()}}
	}
	left, err := st.inTrash(name)
	if err != nil {
		return []Removal{{Kind: KindWorkspace, Name: dir, State: StateLeaked, Detail: err.Error()}}
	}
	removals := []Removal{st.remove(ctx, dir)}
	for _, old := range left {
		removals = append(removals, removal(old, removeTree(ctx, old)))
	}
	return removals
}

func (st *Store) remove(ctx context.Context, dir string) Removal {
	trash, err := st.toTrash(dir)
	if errors.Is(err, os.ErrNotExist) {
		return Removal{Kind: KindWorkspace, Name: dir, State: StateAbsent}
	}
	if err != nil {
		return removal(dir, err)
	}
	r := removal(trash, removeTree(ctx, trash))
	if r.State == StateRemoved {
		r.Name = dir
	}
	return r
}

// removal looks whether path is gone. What is there decides, not what a call returned.
func removal(path string, err error) Removal {
	r := Removal{Kind: KindWorkspace, Name: path, State: StateRemoved}
	if _, statErr := os.Lstat(path); errors.Is(statErr, os.ErrNotExist) {
		return r
	} else if err == nil {
		err = errors.Join(errors.New("it is still there"), statErr)
	}
	r.State, r.Detail = StateLeaked, err.Error()
	return r
}

// toTrash renames a directory of the store into its trash, and returns the new path.
func (st *Store) toTrash(dir string) (string, error) {
	trash := filepath.Join(st.trash(), filepath.Base(dir)+"."+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := os.Rename(dir, trash); err != nil {
		return "", err
	}
	return trash, nil
}

// inTrash lists what toTrash made of the workspace of that name and could not be removed then.
func (st *Store) inTrash(name string) ([]string, error) {
	entries, err := os.ReadDir(st.trash())
	if err != nil {
		return nil, err
	}
	var left []string
	for _, e := range entries {
		if trashedName(e.Name()) == name {
			left = append(left, filepath.Join(st.trash(), e.Name()))
		}
	}
	return left, nil
}

// listTrash lists the workspaces in the trash, once each. Without its meta nobody knows that it was one.
func (st *Store) listTrash() ([]Entry, error) {
	dirs, err := os.ReadDir(st.trash())
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, dir := range dirs {
		m, err := readMeta(filepath.Join(st.trash(), dir.Name()))
		if err != nil {
			continue
		}
		name := trashedName(dir.Name())
		if len(entries) == 0 || entries[len(entries)-1].Name != name {
			entries = append(entries, Entry{Name: name, Labels: m.Labels, Created: m.Created})
		}
	}
	return entries, nil
}

// trashedName is the name that toTrash was given, or empty.
func trashedName(entry string) string {
	i := strings.LastIndexByte(entry, '.')
	if i < 0 {
		return ""
	}
	if _, err := strconv.ParseInt(entry[i+1:], 36, 64); err != nil {
		return ""
	}
	return entry[:i]
}

// discard removes a directory of the store that is no workspace.
func (st *Store) discard(ctx context.Context, dir string) error {
	trash, err := st.toTrash(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return removeTree(ctx, trash)
}

// removeTree removes path and everything below it. It touches nothing at all where something is mounted below.
func removeTree(ctx context.Context, path string) (err error) {
	parent, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	dir, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := unlock(ctx, parent, dir, filepath.Base(path)); err != nil {
		return err
	}
	return parent.RemoveAll(filepath.Base(path))
}

// unlock makes the directory name in parent, and all directories in it, writable for us, and fails where one is a
// mount point. A name that is no directory, such as a link, is left alone. dir is parent, opened for reading.
func unlock(ctx context.Context, parent *os.Root, dir *os.File, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := parent.Lstat(name)
	if err != nil || !info.IsDir() {
		return err
	}
	if mounted, err := isMountPoint(dir, name); err != nil {
		return err
	} else if mounted {
		return fmt.Errorf("something is mounted at %s; unmount it first", filepath.Join(parent.Name(), name))
	}
	if info.Mode()&0o700 != 0o700 {
		if err := parent.Chmod(name, 0o700); err != nil {
			return err
		}
	}
	return unlockBelow(ctx, parent, name)
}

func unlockBelow(ctx context.Context, parent *os.Root, name string) (err error) {
	root, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := unlock(ctx, root, dir, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}
