package supervise

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes this process the parent of every descendant whose own parent ends, so that a command that
// kills its supervisor can still be found and ended. A process that owns a Runner calls it at its start.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphaned processes: %w", err)
	}
	return nil
}

// isSubreaper tells whether BecomeSubreaper was called here.
func isSubreaper() bool {
	var set int32
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&set)), 0)
	return errno == 0 && set == 1
}

// isolate gives the supervisor a state of its own, whatever it inherited, and so the command a clean one.
func isolate() error {
	if err := closeOnExec(); err != nil {
		return err
	}
	// A process that is not dumpable hides its memory, with the command's secrets in it, from others of the same user.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the memory of the supervisor: %w", err)
	}
	if err := BecomeSubreaper(); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("turn core files off: %w", err)
	}
	unix.Umask(0o022)
	// A signal that is ignored stays ignored over exec; one with a handler becomes default again. The channel is never
	// read: no signal that can be caught ends the supervisor.
	signal.Notify(make(chan os.Signal, 1))
	return nil
}

// closeOnExec marks every descriptor above 2, so that the command gets exactly 0, 1 and 2.
func closeOnExec() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) { // kernels before 5.11
		return fmt.Errorf("mark inherited descriptors: %w", err)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list inherited descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
