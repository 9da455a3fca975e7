//go:build !linux

package pluginhost

import "os/exec"

// awaitExit returns when the process has ended. The system offers no wait that leaves the zombie in place, so it is
// reaped here; how it ended is in cmd.ProcessState.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }
