package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Copying is bound by the file system, which takes more than one caller at a time but not many. Below the minimum a
// second one costs more than it saves.
const (
	maxCopiers        = 4
	minFilesPerCopier = 128
)

// copyTo copies the files of the mirror to the empty directory target, checks each against the seal, and returns
// their new stat data in the order of the index.
func (m *Mirror) copyTo(ctx context.Context, target string) ([]unix.Stat_t, error) {
	if err := m.checkGit(); err != nil {
		return nil, err
	}
	if err := m.makeDirectories(target); err != nil {
		return nil, err
	}
	n := len(m.index.entries)
	stats := make([]unix.Stat_t, n)
	copiers := max(1, min(maxCopiers, runtime.NumCPU(), n/minFilesPerCopier))
	errs := make([]error, copiers)
	var group sync.WaitGroup
	for c := range copiers {
		group.Go(func() { errs[c] = m.copyRange(ctx, target, stats, n*c/copiers, n*(c+1)/copiers) })
	}
	group.Wait()
	return stats, errors.Join(errs...)
}

// checkGit looks whether a file of the mirror's repository was replaced. Their content is compared when the mirror is
// opened only; see seal.
func (m *Mirror) checkGit() error {
	prefix := mirrorGit + string(filepath.Separator)
	for name, want := range m.seal {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(m.dir, name), &st); err != nil {
			return m.changed(name)
		}
		got := fingerprintOf(&st)
		if got.Inode != want.Inode || got.Size != want.Size || got.Mode != want.Mode {
			return m.changed(name)
		}
	}
	return nil
}

// changed makes the store check the mirror before it is used once more.
func (m *Mirror) changed(name string) error {
	m.spoiled.Store(true)
	return fail(ErrMirror, "%s was changed or removed since the mirror was made; a cell may have done it",
		filepath.Join(m.dir, name))
}

func (m *Mirror) makeDirectories(target string) error {
	made := map[string]bool{".": true}
	for _, e := range m.index.entries {
		dir := e.name
		if e.mode != modeGitlink {
			dir = filepath.Dir(e.name)
		}
		if made[dir] {
			continue
		}
		if err := os.MkdirAll(filepath.Join(target, dir), 0o777); err != nil {
			return fmt.Errorf("make a directory of the workspace: %w", err)
		}
		made[dir] = true
	}
	return nil
}

func (m *Mirror) copyRange(ctx context.Context, target string, stats []unix.Stat_t, from, to int) error {
	for i := from; i < to; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.copyEntry(m.index.entries[i], target, &stats[i]); err != nil {
			return fmt.Errorf("copy %q: %w", m.index.entries[i].name, err)
		}
	}
	return nil
}

func (m *Mirror) copyEntry(e indexEntry, target string, st *unix.Stat_t) error {
	name := filepath.Join(mirrorTree, e.name)
	to := filepath.Join(target, e.name)
	switch e.mode {
	case modeGitlink:
		return nil
	case modeSymlink:
		return m.copyLink(name, to, st)
	}
	return m.copyFile(name, to, os.FileMode(e.mode&0o111|0o666), st)
}

func (m *Mirror) copyLink(name, to string, st *unix.Stat_t) error {
	from := filepath.Join(m.dir, name)
	if err := unix.Lstat(from, st); err != nil || fingerprintOf(st) != m.seal[name] {
		return m.changed(name)
	}
	text, err := os.Readlink(from)
	if err != nil {
		return err
	}
	if err := os.Symlink(text, to); err != nil {
		return err
	}
	return unix.Lstat(to, st)
}

// copyFile copies one file. As with git, the index says whether it is executable and the umask the rest.
func (m *Mirror) copyFile(name, to string, mode os.FileMode, st *unix.Stat_t) (err error) {
	from, err := os.OpenFile(filepath.Join(m.dir, name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return m.changed(name)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := io.Copy(file, from); err != nil {
		return err
	}
	// Looked at after the copy, so that a write during it shows too.
	if err := unix.Fstat(int(from.Fd()), st); err != nil {
		return err
	}
	if fingerprintOf(st) != m.seal[name] {
		return m.changed(name)
	}
	return unix.Fstat(int(file.Fd()), st)
}
