package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

const (
	sigTerm = syscall.SIGTERM
	sigKill = syscall.SIGKILL
)

const (
	// sweepPatience is how long killed processes may take to be gone. Where nobody reaps them they never are.
	sweepPatience = 200 * time.Millisecond
	sweepStep     = 2 * time.Millisecond
)

// pumpPatience is how long output may go on after the command ended, when something of it still holds a pipe.
const pumpPatience = time.Second

// defaultPath is the PATH of commands where neither the configuration nor the cell sets one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// process is a command that was started.
type process struct {
	cmd   *exec.Cmd
	out   *output
	grace time.Duration
	lies  bent

	started time.Time

	stdin  *os.File // nil where the command has none
	pumps  sync.WaitGroup
	pipes  []*os.File    // the ends that the pumps read
	exited chan struct{} // closed when the command itself ended
}

// runProcess runs the command of a cell.
func runProcess(ctx context.Context, w *workspace, cell shared.Cell, cfg *fakeConfig, b bent, out *output) (shared.Result, error) {
	env := environment(cfg, cell, b)
	program, err := lookPath(cell.Argv[0], w.tree(), env)
	if err != nil {
		return shared.Result{}, err
	}
	p := &process{
		cmd: &exec.Cmd{
			Path: program, Args: cell.Argv, Env: env, Dir: w.tree(), SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		},
		out: out, grace: cell.Grace, lies: b, exited: make(chan struct{}),
	}
	if p.stdin, err = w.spool(cell.Stdin); err != nil {
		return shared.Result{}, err
	}
	defer p.close()
	if err := p.start(w); err != nil {
		return shared.Result{}, err
	}
	timedOut := p.wait(ctx, cell.Timeout)
	result := p.result()
	since(&result, p.started)
	result.Notices = append(result.Notices, p.sweep()...)
	if ctx.Err() != nil {
		return shared.Result{}, endedBy(ctx)
	}
	if timedOut {
		result.Status = shared.StatusTimedOut
	}
	result.Notices = append(result.Notices, p.unreadStdin(cell.Stdin)...)
	out.finish(&result)
	if b["exit_code"] {
		result.ExitCode, result.Signal = new(int64), ""
	}
	return result, nil
}

// environment is what the adapter gives to every command, with the cell's own variables over it.
func environment(cfg *fakeConfig, cell shared.Cell, b bent) []string {
	vars := map[string]string{"PATH": defaultPath}
	if b["env"] {
		for _, kv := range os.Environ() {
			name, value, _ := strings.Cut(kv, "=")
			vars[name] = value
		}
	}
	maps.Copy(vars, cfg.Environment)
	maps.Copy(vars, cell.Env)
	for name, secret := range cell.SecretEnv {
		vars[name] = secret.Reveal()
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// lookPath finds a program in the PATH that the command itself gets, not in the adapter's.
func lookPath(program, dir string, env []string) (string, error) {
	candidates := []string{program}
	if !strings.Contains(program, "/") {
		candidates = nil
		for _, kv := range env {
			if list, ok := strings.CutPrefix(kv, "PATH="); ok {
				for _, d := range filepath.SplitList(list) {
					candidates = append(candidates, filepath.Join(d, program))
				}
			}
		}
	}
	for _, c := range candidates {
		if !filepath.IsAbs(c) {
			c = filepath.Join(dir, c)
		}
		if info, err := os.Stat(c); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return c, nil
		}
	}
	return "", precondition(fmt.Sprintf("the program %q is not in the PATH of the cell", program))
}

// spool makes a file without a name out of what the command is to read.
func (w *workspace) spool(c *shared.Content) (*os.File, error) {
	if c == nil {
		return nil, nil
	}
	data, err := readContent(*c)
	if err != nil {
		return nil, invalid("", "read the stdin: "+err.Error())
	}
	f, err := os.CreateTemp(w.dir, "stdin")
	if err != nil {
		return nil, internal("spool the stdin", err)
	}
	_, writeErr := f.Write(data)
	_, seekErr := f.Seek(0, io.SeekStart)
	if err := errors.Join(os.Remove(f.Name()), writeErr, seekErr); err != nil {
		return nil, internal("spool the stdin", errors.Join(err, f.Close()))
	}
	return f, nil
}

// start starts the command and the pumps of its output.
func (p *process) start(w *workspace) error {
	stdout, outEnd, err := p.pipe()
	if err != nil {
		return err
	}
	defer outEnd.Close()
	stderr, errEnd, err := p.pipe()
	if err != nil {
		return err
	}
	defer errEnd.Close()
	if p.stdin != nil {
		p.cmd.Stdin = p.stdin
	}
	p.cmd.Stdout, p.cmd.Stderr = outEnd, errEnd
	if err := p.cmd.Start(); err != nil {
		return &shared.Error{Code: shared.CodePrecondition, Message: "start the command: " + err.Error(), Err: err}
	}
	p.started = time.Now()
	// Before any output is passed on: whoever saw some may rely on the record.
	saveErr := p.record(w)
	p.pump(stdout, shared.EventStdout)
	p.pump(stderr, shared.EventStderr)
	go func() {
		// The state is in cmd.ProcessState; an exit that is not 0 is no error here.
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	if saveErr != nil {
		p.kill()
		p.sweep()
	}
	return saveErr
}

// record saves beside the workspace which process the command is, for a process of the adapter that comes after this.
func (p *process) record(w *workspace) error {
	pid := p.cmd.Process.Pid
	started, ok := processStart(pid)
	if !ok {
		return nil
	}
	return w.save("command.json", orphan{PID: pid, Started: started})
}

func (p *process) pipe() (read, write *os.File, err error) {
	read, write, err = os.Pipe()
	if err != nil {
		return nil, nil, internal("make a pipe", err)
	}
	p.pipes = append(p.pipes, read)
	return read, write, nil
}

func (p *process) pump(from *os.File, kind shared.EventKind) {
	p.pumps.Go(func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				p.out.take(kind, buf[:n])
			}
			if err != nil {
				return // the end, or sweep that waits no longer
			}
		}
	})
}

// wait returns when the command ended, by itself or because it had to, and tells whether it passed its timeout.
func (p *process) wait(ctx context.Context, timeout time.Duration) (timedOut bool) {
	if p.lies["timeout"] {
		timeout = time.Hour
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-p.out.full:
		p.kill()
	case <-ctx.Done():
		if context.Cause(ctx) == errHostGone {
			p.kill() // this process has a second left, whatever the grace
			return false
		}
		p.terminate()
	case <-timer.C:
		p.terminate()
		return true
	}
	return false
}

// terminate asks the command to end and kills it when it does not.
func (p *process) terminate() {
	p.send(sigTerm)
	_ = signalGroup(p.cmd.Process.Pid, syscall.SIGCONT) // a stopped process would keep the signal pending
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return
	case <-timer.C:
	}
	p.kill()
}

func (p *process) kill() {
	p.send(sigKill)
	<-p.exited
}

func (p *process) send(sig syscall.Signal) {
	p.out.signal(signalName(sig))
	_ = signalGroup(p.cmd.Process.Pid, sig) // gone already is as good
}

// sweep ends what the command left in its process group, and the waiting for output that others hold open.
func (p *process) sweep() []shared.Notice {
	var notices []shared.Notice
	if !p.lies["survivors"] && signalGroup(p.cmd.Process.Pid, sigKill) == nil {
		notices = append(notices, shared.Notice{Kind: shared.NoticeSurvivorsKilled, Detail: "in the process group", Count: 1})
		awaitGone(p.cmd.Process.Pid)
	}
	drained := make(chan struct{})
	go func() {
		p.pumps.Wait()
		close(drained)
	}()
	timer := time.NewTimer(pumpPatience)
	defer timer.Stop()
	select {
	case <-drained:
		return notices
	case <-timer.C:
	}
	for _, r := range p.pipes {
		_ = r.SetReadDeadline(time.Unix(1, 0)) // pipes can be interrupted on every system that has process groups
	}
	<-drained
	return append(notices, shared.Notice{Kind: shared.NoticeOutputHeld, Count: 1})
}

// awaitGone waits until nothing of a process group that was killed is left.
func awaitGone(leader int) {
	for range sweepPatience / sweepStep {
		if signalGroup(leader, 0) != nil {
			return
		}
		time.Sleep(sweepStep)
	}
}

// result reads how the command itself ended.
func (p *process) result() shared.Result {
	state := p.cmd.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	result := exited(int64(status.ExitStatus()))
	if status.Signaled() {
		result.ExitCode, result.Signal = nil, signalName(status.Signal())
	}
	result.CPU = state.UserTime() + state.SystemTime()
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		result.MaxRSS = usage.Maxrss
		if runtime.GOOS == "linux" {
			result.MaxRSS *= 1024 // Linux counts in KiB, others in bytes
		}
	}
	return result
}

func (p *process) unreadStdin(c *shared.Content) []shared.Notice {
	if p.stdin == nil {
		return nil
	}
	// The command read through the same open file, so its position is the command's.
	at, err := p.stdin.Seek(0, io.SeekCurrent)
	if err != nil || at >= c.Size {
		return nil
	}
	return []shared.Notice{{Kind: shared.NoticeStdinUnread, Count: c.Size - at}}
}

// close closes the files of the command. Nothing was written to them here, so there is nothing to lose.
func (p *process) close() {
	for _, f := range p.pipes {
		_ = f.Close()
	}
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
}

func signalGroup(leader int, sig syscall.Signal) error { return syscall.Kill(-leader, sig) }

// signalName is the name without its SIG, such as "KILL".
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return fmt.Sprint(int(sig))
}

// processStart returns when a process started, in a form that only compares; false where the system does not say.
func processStart(pid int) (string, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// Field 22, counted behind the name in parentheses, which may hold anything.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", false
	}
	return fields[19], true
}
