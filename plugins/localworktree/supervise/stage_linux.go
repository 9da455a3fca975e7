package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

// A stage is the process that becomes the command. Between its start and the exec it puts on itself what the command
// has to carry and the supervisor must not.

// Descriptors of a stage beside 0, 1 and 2, which are those of the command.
const (
	stageOrderFD  = 3 + iota // a stageOrder
	stageReportFD            // a stageReport; its end without a failure means that exec succeeded
	stageJoinFD              // the first of the cgroup.procs files to join
)

// stageOrder is what a stage is told, as JSON.
type stageOrder struct {
	Path     []byte                         `json:"path"`
	Argv     [][]byte                       `json:"argv"`
	Env      [][]byte                       `json:"env"`
	Dir      []byte                         `json:"dir"`
	FileSize int64                          `json:"file_size"`
	Held     map[shared.Dimension]mechanism `json:"held"`
	Writable [][]byte                       `json:"writable,omitempty"` // for Landlock
	Boxed    bool                           `json:"boxed"`
	Join     int                            `json:"join"`
}

// stage returns what the stage is told that becomes the command, the program at path.
func (o order) stage(path string) stageOrder {
	out := stageOrder{
		Path: []byte(path), Argv: o.Argv, Env: o.Env, Dir: o.Dir, FileSize: o.File, Held: o.Held, Boxed: o.boxed(), Join: o.Join,
	}
	if o.Held[shared.DimensionFilesystem] == byFilter {
		out.Writable = append(append(out.Writable, o.Dir, o.Temp), o.Writable...)
	}
	return out
}

// joinFDs are the descriptors of the control groups, in the supervisor.
func (o order) joinFDs() []uintptr {
	fds := make([]uintptr, o.Join)
	for i := range fds {
		fds[i] = uintptr(o.firstExtraFD() + i)
	}
	return fds
}

// stageReport is what a stage says.
type stageReport struct {
	CPU     time.Duration `json:"cpu,omitempty"` // used before exec, which the kernel counts as the command's
	Failure string        `json:"failure,omitempty"`
	Unheld  bool          `json:"unheld,omitempty"`
}

// unheldError says that a limit could not be put in place.
type unheldError struct{ err error }

func (e unheldError) Error() string { return "a limit cannot be held any more: " + e.err.Error() }

// stageMain becomes the command.
func stageMain() int {
	// Most of what is put on here belongs to the thread, and exec keeps what its own thread has.
	runtime.LockOSThread()
	if err := closeOnExec(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out := json.NewEncoder(os.NewFile(stageReportFD, "report"))
	err := stage(out)
	r := stageReport{Failure: err.Error()}
	r.Unheld = errors.As(err, &unheldError{})
	if err := out.Encode(r); err != nil {
		return 1
	}
	return 0
}

// stage returns only with an error.
func stage(out *json.Encoder) error {
	var o stageOrder
	if err := json.NewDecoder(os.NewFile(stageOrderFD, "order")).Decode(&o); err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	if err := o.putOn(); err != nil {
		return unheldError{err}
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return fmt.Errorf("measure the start: %w", err)
	}
	if err := out.Encode(stageReport{CPU: time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}); err != nil {
		return fmt.Errorf("report to the supervisor: %w", err)
	}
	argv, env := toStrings(o.Argv), toStrings(o.Env)
	err := whileBusy(func() error { return syscall.Exec(string(o.Path), argv, env) })
	return explain(argv[0], absolute(string(o.Dir), string(o.Path)), err)
}

// putOn puts the limits on this process. Control groups come last, so that the command alone is counted.
func (o stageOrder) putOn() error {
	if o.FileSize > 0 {
		limit := unix.Rlimit{Cur: uint64(o.FileSize), Max: uint64(o.FileSize)}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			return fmt.Errorf("limit the size of files: %w", err)
		}
	}
	filter := o.Held[shared.DimensionFilesystem] == byFilter || o.Held[shared.DimensionNetwork] == byFilter
	if o.Boxed || filter {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("give up new privileges: %w", err)
		}
	}
	if o.Boxed {
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	if filter {
		if err := o.filter(); err != nil {
			return err
		}
	}
	for i := range o.Join {
		if _, err := unix.Write(stageJoinFD+i, []byte("0")); err != nil { // 0: the writing process
			return fmt.Errorf("join a control group: %w", err)
		}
	}
	return nil
}

// keptCapabilities are those that the superuser keeps in a box: they are about files and processes inside of it.
func keptCapabilities() map[uintptr]bool {
	return map[uintptr]bool{
		unix.CAP_CHOWN: true, unix.CAP_DAC_OVERRIDE: true, unix.CAP_FOWNER: true, unix.CAP_FSETID: true, unix.CAP_KILL: true,
		unix.CAP_SETGID: true, unix.CAP_SETUID: true, unix.CAP_NET_BIND_SERVICE: true, unix.CAP_SETFCAP: true,
	}
}

// dropCapabilities takes the rights over the box away that its supervisor has: with them the command could undo it.
func dropCapabilities() error {
	kept := keptCapabilities()
	for c := uintptr(0); ; c++ {
		if kept[c] {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) { // beyond the last one
			break
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("drop inheritable capabilities: %w", err)
	}
	return nil
}

// startStage starts the command by way of a stage, and returns when exec has succeeded, or why it has not. join are
// the descriptors of the control groups.
func startStage(o stageOrder, files, join []uintptr) (pid int, cpu time.Duration, err error) {
	orderRead, orderWrite, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	defer orderRead.Close()
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		return 0, 0, errors.Join(err, orderWrite.Close())
	}
	defer reportRead.Close()
	all := append(append([]uintptr(nil), files...), orderRead.Fd(), reportWrite.Fd())
	pid, err = syscall.ForkExec("/proc/self/exe", []string{os.Args[0], stageArgument}, &syscall.ProcAttr{
		Dir: string(o.Dir), Env: runtimeSettings(), Files: append(all, join...), Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if closeErr := reportWrite.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return 0, 0, errors.Join(fmt.Errorf("start the process that becomes it: %w", err), orderWrite.Close())
	}
	sent := json.NewEncoder(orderWrite).Encode(o)
	cpu, err = awaitExec(reportRead)
	if err = errors.Join(sent, orderWrite.Close(), err); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL) // it is ending, or it is of no use
		_, _ = unix.Wait4(pid, nil, 0, nil)
		return 0, 0, err
	}
	return pid, cpu, nil
}

// awaitExec reads what a stage says until exec closes its end.
func awaitExec(from io.Reader) (cpu time.Duration, err error) {
	reports := json.NewDecoder(from)
	for ready := false; ; ready = true {
		var r stageReport
		err := reports.Decode(&r)
		switch {
		case err == io.EOF && ready:
			return cpu, nil
		case err != nil:
			return 0, fmt.Errorf("the process that becomes it ended early: %w", err)
		case r.Unheld:
			return 0, unheldError{errors.New(r.Failure)}
		case r.Failure != "":
			return 0, errors.New(r.Failure)
		}
		cpu = r.CPU
	}
}
