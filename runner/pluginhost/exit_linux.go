package pluginhost

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

// awaitExit returns when the process has ended, without reaping it: as long as it is a zombie neither its number nor
// that of its process group can be given to another process.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
