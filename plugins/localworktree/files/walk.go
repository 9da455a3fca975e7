package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// openDir opens the directory name of parent. It fails with a *notPlainError when name is no directory, is a link to
// one, or was replaced while it was opened.
func openDir(parent *os.Root, name string) (*os.Root, error) {
	seen, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, &notPlainError{what: describe(parent, name, seen), empty: seen.Mode()&fs.ModeSymlink == 0}
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err != nil {
		return nil, firstError(err, dir.Close())
	}
	if !os.SameFile(seen, opened) {
		return nil, firstError(&notPlainError{what: "was replaced while it was opened"}, dir.Close())
	}
	return dir, nil
}

// openParent opens the directory that holds the last component of path, and returns that component. step opens one
// directory of the way. The error is a *stepError that names the directory at which the way ended.
func openParent(root *os.Root, path string, step func(*os.Root, string) (*os.Root, error)) (*os.Root, string, error) {
	// Opened anew, so that every directory of the way, the first one too, is the callee's to close.
	dir, err := root.OpenRoot(".")
	if err != nil {
		return nil, "", &stepError{path: ".", err: err}
	}
	parts := strings.Split(path, "/")
	for i, name := range parts[:len(parts)-1] {
		next, err := step(dir, name)
		if closeErr := dir.Close(); err == nil && closeErr != nil {
			err = firstError(closeErr, next.Close())
		}
		if err != nil {
			return nil, "", &stepError{path: strings.Join(parts[:i+1], "/"), err: err}
		}
		dir = next
	}
	return dir, parts[len(parts)-1], nil
}

// stepError says at which directory of a path the way ended.
type stepError struct {
	path string
	err  error
}

func (e *stepError) Error() string { return fmt.Sprintf("%q %v", e.path, reason(e.err)) }
func (e *stepError) Unwrap() error { return e.err }

// notPlainError is met where a plain directory, or a plain file, was expected.
type notPlainError struct {
	what  string // the end of a sentence, such as "is a named pipe"
	empty bool   // nothing can exist below it
}

func (e *notPlainError) Error() string { return e.what }

// reason is err without the names of the call and of the component, which the message around it has already.
func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "does not exist"
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return "cannot be read: " + errno.Error()
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return "cannot be read: " + pathErr.Err.Error()
	}
	return err.Error()
}

// describe says what the entry name of dir is, as the end of a sentence. The target of a link is told, not followed.
func describe(dir *os.Root, name string, info fs.FileInfo) string {
	mode := info.Mode()
	switch {
	case mode&fs.ModeSymlink != 0:
		target, err := dir.Readlink(name)
		if err != nil {
			return "is a symbolic link"
		}
		return fmt.Sprintf("is a symbolic link to %q", target)
	case mode.IsDir():
		return "is a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "is a named pipe"
	case mode&fs.ModeSocket != 0:
		return "is a socket"
	case mode&fs.ModeDevice != 0:
		return "is a device"
	case mode.IsRegular():
		return "is a file"
	}
	return "is of an unknown kind"
}

// inode is what os.FileInfo does not say in a portable way.
type inode struct {
	device uint64
	links  uint64
}

func inodeOf(info fs.FileInfo) inode {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}
	}
	return inode{device: uint64(st.Dev), links: uint64(st.Nlink)} // the widths differ from system to system
}

// firstError returns err, and behind it what was met while cleaning up.
func firstError(err, cleanup error) error {
	if err == nil {
		return cleanup
	}
	if cleanup == nil {
		return err
	}
	return fmt.Errorf("%w (and then: %w)", err, cleanup)
}
