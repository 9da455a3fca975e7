package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a lock is tried that another process holds.
const lockPoll = 20 * time.Millisecond

// Store is a directory of mirrors and workspaces. Any number of processes may use one at once.
type Store struct {
	git  *Git
	root string

	mu      sync.Mutex
	mirrors map[string]*Mirror // by key; opened and checked once
}

// NewStore opens the store at root and makes what is missing of it, readable by the user alone. It fails with
// ErrInsideRepository where root is inside of a repository: a tool in a workspace would walk up into it.
func NewStore(g *Git, root string) (*Store, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find the directory %s: %w", root, err)
	}
	if strings.ContainsAny(root, "\n") {
		return nil, fmt.Errorf("the directory %q has a newline in its name, which git cannot borrow objects through", root)
	}
	if root, err = resolve(root); err != nil {
		return nil, fmt.Errorf("find the directory for workspaces: %w", err)
	}
	if err := checkOutside(root); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for workspaces: %w", err)
	}
	st := &Store{git: g, root: root, mirrors: map[string]*Mirror{}}
	for _, dir := range []string{st.mirrorDir(), st.workspaces(), st.trash()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make the directory for workspaces: %w", err)
		}
	}
	return st, nil
}

// Root returns the directory of the store, absolute and without symlinks.
func (st *Store) Root() string { return st.root }

func (st *Store) mirrorDir() string  { return filepath.Join(st.root, "mirrors") }
func (st *Store) workspaces() string { return filepath.Join(st.root, "workspaces") }
func (st *Store) trash() string      { return filepath.Join(st.root, "trash") }

// resolve follows the symlinks in the part of path that exists.
func resolve(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, os.ErrNotExist) || path == filepath.Dir(path) {
		return resolved, err
	}
	dir, err := resolve(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// checkOutside looks at every directory above root for a git directory.
func checkOutside(root string) error {
	for dir := root; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil || isBareRepository(dir) {
			return fail(ErrInsideRepository, "the directory for workspaces %s is inside the repository %s; "+
				"name one outside of any repository", root, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// isBareRepository looks for the three entries by which git itself knows a git directory.
func isBareRepository(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// lock takes the named lock among all processes, within the timeout of a git call.
func (st *Store) lock(ctx context.Context, path string) (*flock.Flock, error) {
	ctx, cancel := context.WithTimeout(ctx, st.git.timeout)
	defer cancel()
	l := flock.New(path)
	if _, err := l.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("wait for the lock %s, which another process holds: %w", path, err)
	}
	return l, nil
}

// cached returns a mirror that this store has opened before, if no change of it was seen since.
func (st *Store) cached(key string) (*Mirror, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	m, ok := st.mirrors[key]
	if !ok || m.checkGit() != nil || m.spoiled.Load() {
		return nil, false
	}
	return m, true
}

// openCached is open, for a mirror that may have been opened before.
func (st *Store) openCached(key string) (*Mirror, error) {
	if m, ok := st.cached(key); ok {
		return m, nil
	}
	return st.open(key)
}

// open opens the mirror of that key and proves that it is as it was made. It fails with ErrMirror.
func (st *Store) open(key string) (*Mirror, error) {
	m, err := openMirror(filepath.Join(st.mirrorDir(), key))
	if err != nil {
		return nil, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.mirrors[key] = m
	return m, nil
}
