package worktree

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// identity tells one directory from every other that may stand at its path later. The inode number alone does not: a
// file system gives it to the next directory.
type identity struct {
	Device uint64
	Inode  uint64
	Birth  int64 // nanoseconds since 1970; 0 where the file system does not keep it
}

// identify reads the identity of what path itself is. It fails where that is no directory.
func identify(path string) (identity, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return identity{}, fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return identity{}, fmt.Errorf("look at %s: %w", path, unix.ENOTDIR)
	}
	return identity{Device: uint64(st.Dev), Inode: st.Ino, Birth: st.Btim.Nano()}, nil
}

// isMountPoint tells whether something is mounted at name in dir. The system has no bind mounts, so devices tell.
func isMountPoint(dir *os.File, name string) (bool, error) {
	var st, parent unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, fmt.Errorf("look at %s: %w", name, err)
	}
	if err := unix.Fstat(int(dir.Fd()), &parent); err != nil {
		return false, fmt.Errorf("look at the directory of %s: %w", name, err)
	}
	return st.Dev != parent.Dev, nil
}
