package wire

import (
	"math"

	"golang.org/x/sys/unix"
)

// hideMemory keeps processes of the same user from reading the memory of this one, where secrets are. Programs that are
// started from here are not concerned.
func hideMemory() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// markInherited marks every descriptor above 2 close-on-exec.
func markInherited() {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		markExpected() // kernels before 5.11 do not know the flag
	}
}

// dup2 is dup3 because some Linux architectures have no other.
func dup2(from, to int) error { return unix.Dup3(from, to, 0) }
