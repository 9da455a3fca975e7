//go:build unix

package wire

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// restrictProcess keeps what the process writes, holds in memory and has open to itself.
func restrictProcess(umask int) error {
	unix.Umask(umask)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("turn core dumps off: %w", err)
	}
	if err := hideMemory(); err != nil {
		return fmt.Errorf("keep other processes from reading this one: %w", err)
	}
	markInherited()
	return nil
}

// inheritedMost is one above the greatest descriptor that is expected to be inherited from a shell or a harness.
const inheritedMost = 1024

// markExpected marks the descriptors that may have been inherited close-on-exec. One that is not open is no harm.
func markExpected() {
	for fd := syscall.Stderr + 1; fd < inheritedMost; fd++ {
		unix.CloseOnExec(fd)
	}
}

// moveStdout returns a private duplicate of fd 1 and puts /dev/null in its place.
func moveStdout() (fd int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return -1, err
	}
	defer closeInto(&err, null)
	fd, err = unix.FcntlInt(uintptr(syscall.Stdout), unix.F_DUPFD_CLOEXEC, syscall.Stderr+1)
	if err != nil {
		return -1, fmt.Errorf("duplicate fd 1: %w", err)
	}
	if err := dup2(int(null.Fd()), syscall.Stdout); err != nil {
		return -1, fmt.Errorf("put %s on fd 1: %w", os.DevNull, err)
	}
	return fd, nil
}

// checkOpen fails when fd is not open.
func checkOpen(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err
}
