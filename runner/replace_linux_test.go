package runner_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// replaceOpen puts another file behind the descriptor under which this process has the named file open.
func replaceOpen(t *testing.T, name string, with *os.File) bool {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || target != name {
			continue // closed meanwhile, or another one
		}
		fd, err := strconv.Atoi(filepath.Base(link))
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Dup3(int(with.Fd()), fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		return true
	}
	return false
}
