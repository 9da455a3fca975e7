package supervise

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be a supervisor and the other processes that tests need, and fails when a test leaves a
// process or a descriptor behind.
func TestMain(m *testing.M) {
	if code, ok := Main(); ok {
		os.Exit(code)
	}
	if code, ok := helperMain(); ok {
		os.Exit(code)
	}
	if err := BecomeSubreaper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if left := leftChildren(); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes left behind:", left)
		code = 1
	}
	os.Exit(code)
}

// leftChildren returns the living children of the test process, after a second in which they may end.
func leftChildren() []stat {
	var left []stat
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
		left, _ = descendants(os.Getpid())
		if len(left) == 0 {
			return nil
		}
	}
	return left
}
