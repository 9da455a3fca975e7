package worktree

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// holdDirectory keeps hold of a directory, wherever it is moved. It reads nothing and keeps nothing from being removed.
func holdDirectory(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// whereabouts returns where a held directory is by now, empty where it is removed or cannot be told.
func whereabouts(held *os.File) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", held.Fd()))
	if err != nil || strings.HasSuffix(path, " (deleted)") {
		return ""
	}
	return path
}
