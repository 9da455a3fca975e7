package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// The first arguments of a process that Main takes over.
const (
	supervisorArgument = "__supervise"
	boxArgument        = "__supervise_box"
	stageArgument      = "__supervise_stage"
	probeArgument      = "__supervise_probe"
)

// Main does the work of a supervisor when this process was started as one; ok tells so, and the caller then exits with
// code. It has to be the first thing in main, and in the TestMain of a test that runs commands: a program that does not
// call it would start itself over and over.
func Main() (code int, ok bool) {
	if len(os.Args) < 2 {
		return 0, false
	}
	switch os.Args[1] {
	case supervisorArgument:
		return supervisorMain(len(os.Args) > 2 && os.Args[2] == boxArgument), true
	case boxArgument:
		return boxMain(os.Args[2:]), true
	case stageArgument:
		return stageMain(), true
	case probeArgument:
		return probeMain(os.Args[2:]), true
	}
	return 0, false
}

// startedByMain tells whether this process carries an argument of Main: then Main was not called.
func startedByMain() bool {
	return len(os.Args) > 1 && slices.Contains([]string{supervisorArgument, boxArgument, stageArgument, probeArgument}, os.Args[1])
}

// supervisorMain supervises; boxed tells that this process is the first one in namespaces of its own.
func supervisorMain(boxed bool) int {
	if !isPipe(controlFD) || !isPipe(statusFD) {
		fmt.Fprintln(os.Stderr, "this is the part of an adapter that watches over one command; harness starts it")
		return 2
	}
	if err := isolate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	control := json.NewDecoder(os.NewFile(controlFD, "control"))
	var o order
	if err := control.Decode(&o); err != nil {
		fmt.Fprintln(os.Stderr, "read what to run:", err)
		return 1
	}
	s := newSupervisor(o, os.NewFile(statusFD, "status"))
	if boxed {
		if err := o.furnish(); err != nil {
			s.tell(report{Kind: reportRefused, Message: unheldError{err}.Error(), Unheld: true})
			return 0
		}
	}
	if err := s.supervise(control); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}
