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
	var st unix.Statx_t
	mask := unix.STATX_TYPE | unix.STATX_INO | unix.STATX_BTIME
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, mask, &st); err != nil {
		return identity{}, fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return identity{}, fmt.Errorf("look at %s: %w", path, unix.ENOTDIR)
	}
	id := identity{Device: unix.Mkdev(st.Dev_major, st.Dev_minor), Inode: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return id, nil
}

// isMountPoint tells whether something is mounted at name in dir. Comparing devices would miss a bind mount.
func isMountPoint(dir *os.File, name string) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO, &st); err != nil {
		return false, fmt.Errorf("look at %s: %w", name, err)
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}
