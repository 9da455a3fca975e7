package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"cellharness/shared"
)

const (
	// startBound is the time a supervisor gets to start its command: as long as a machine that is very busy may take.
	startBound = 30 * time.Second
	// orderBound is the time a supervisor gets to read what to run.
	orderBound = 10 * time.Second
	// nudgeAfter is when, after the deadline of the command, a supervisor that the command may have stopped is continued.
	nudgeAfter = time.Second
	// lookEvery is the time between two looks at the stored output. With the time to read and hand over it stays below
	// the 50 ms in which output is promised to arrive.
	lookEvery = 20 * time.Millisecond
	// exitBound is the time a supervisor gets to exit after its last report.
	exitBound = 10 * time.Second
)

// session is one command that is under way, seen from the parent of its supervisor.
type session struct {
	runner *Runner
	cmd    Command
	means  means
	proc   *exec.Cmd
	said   tail // what the supervisor said

	stdout, stderr *spool
	orders         *os.File // write end of the control pipe
	status         *os.File // read end of the status pipe
	stdin          *feeder  // nil without stdin
	group          *group   // nil without control groups
	temp           string   // temporary directory of the command; empty where it has none of its own

	started chan struct{} // closed when the command has started
	ended   chan struct{} // closed when the supervisor has closed its status pipe

	mu      sync.Mutex
	signals []string // sent and not yet handed to the sink

	// written by listen, read after ended
	outcome *outcome
	refused string
	unheld  bool  // refused because of a limit
	trouble error // what went wrong in talking to the supervisor

	unreadable error // written by forward: why the stored output cannot be shown
}

// start makes the spool files and what else the command needs, and starts a supervisor.
func (r *Runner) start(cmd Command, m means) (*session, error) {
	s := &session{runner: r, cmd: cmd, means: m, started: make(chan struct{}), ended: make(chan struct{})}
	var err error
	if s.stdout, err = createSpool(r.opts.SpoolDir, cmd.StdoutPath, shared.EventStdout); err != nil {
		return nil, err
	}
	if s.stderr, err = createSpool(r.opts.SpoolDir, cmd.StderrPath, shared.EventStderr); err != nil {
		return nil, errors.Join(err, s.stdout.file.Close())
	}
	if err := s.prepare(); err != nil {
		s.release()
		return nil, err
	}
	if err := s.launch(); err != nil {
		s.release()
		return nil, &shared.Error{
			Code: shared.CodeInternal, Err: err,
			Message: fmt.Sprintf("the command was never started: start its supervisor: %v", err),
		}
	}
	return s, nil
}

// prepare makes the control group and the temporary directory.
func (s *session) prepare() error {
	var err error
	if s.group, err = newGroup(s.cmd.Limits, s.means.of(s.cmd.Limits)); err != nil {
		return unheld(err)
	}
	if !s.cmd.Limits.WorkspaceOnly || s.means[shared.DimensionFilesystem].by == byNothing {
		return nil
	}
	if s.temp, err = os.MkdirTemp(filepath.Dir(s.stdout.file.Name()), "tmp-"); err == nil {
		err = os.Chmod(s.temp, os.ModeSticky|0o777) // as any temporary directory
	}
	if err != nil {
		return &shared.Error{
			Code: shared.CodeInternal, Cause: shared.CauseStorage, Err: err,
			Message: fmt.Sprintf("the command was never started: make its temporary directory: %v", err),
		}
	}
	return nil
}

// unheld is the error of a command whose limits could not be put in place.
func unheld(why error) error {
	return &shared.Error{
		Code: shared.CodeUnsupported, Err: why,
		Message: "the command was never started: " + why.Error() + "; restore what holds the limit, or drop the limit",
	}
}

// launch starts the supervisor with its pipes.
func (s *session) launch() error {
	controlRead, controlWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer controlRead.Close()
	s.orders = controlWrite
	statusRead, statusWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer statusWrite.Close()
	s.status = statusRead
	files := []*os.File{controlRead, statusWrite, s.stdout.file, s.stderr.file}
	if s.cmd.Stdin != nil {
		stdinRead, stdinWrite, err := os.Pipe()
		if err != nil {
			return err
		}
		defer stdinRead.Close()
		files = append(files, stdinRead)
		s.stdin = newFeeder(s.cmd.Stdin, stdinWrite)
	}
	files = append(files, s.group.files()...)
	s.proc = &exec.Cmd{
		Path: s.runner.opts.Executable, Args: append([]string{s.runner.opts.Argv0}, s.arguments()...),
		Env: runtimeSettings(), Dir: "/", Stderr: &s.said, ExtraFiles: files,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, WaitDelay: time.Second,
	}
	s.runner.starting.RLock()
	defer s.runner.starting.RUnlock()
	if err := s.proc.Start(); err != nil {
		s.proc = nil
		return err
	}
	s.runner.know(s.proc.Process.Pid)
	return nil
}

// arguments say which process of Main is to be started.
func (s *session) arguments() []string {
	switch {
	case !newOrder(s.cmd, s.means).boxed():
		return []string{supervisorArgument}
	case s.cmd.Limits.NoNetwork && s.means[shared.DimensionNetwork].by == byBox:
		return []string{boxArgument, boxNetwork}
	}
	return []string{boxArgument}
}

// fullOrder is what the supervisor is told.
func (s *session) fullOrder() (order, error) {
	o := newOrder(s.cmd, s.means)
	if s.group != nil {
		o.Join, o.Events = len(s.group.join), s.group.about
	}
	if s.temp != "" {
		o.Temp = []byte(s.temp)
		seen := s.temp
		if o.Held[shared.DimensionFilesystem] == byBox {
			seen = boxTemp
		}
		o.Env = toBytes(setVariable(s.cmd.environment(), "TMPDIR", seen))
	}
	if o.Held[shared.DimensionFilesystem] != byBox && o.Held[shared.DimensionNetwork] != byBox {
		return o, nil
	}
	sockets, err := unixSockets()
	o.Sockets = toBytes(sockets)
	return o, err
}

// order tells the supervisor what to run. When that fails the supervisor has died, or is killed here; its status pipe
// then ends and the error is part of the message.
func (s *session) order() {
	err := s.orders.SetWriteDeadline(time.Now().Add(orderBound))
	var o order
	if err == nil {
		o, err = s.fullOrder()
	}
	if err == nil {
		err = json.NewEncoder(s.orders).Encode(o)
	}
	if err != nil {
		s.trouble = errors.Join(fmt.Errorf("tell the supervisor what to run: %w", err), s.proc.Process.Kill())
	}
	if s.stdin != nil {
		go s.stdin.run()
	}
}

// listen reads the reports of the supervisor until the pipe ends.
func (s *session) listen() {
	defer close(s.ended)
	reports := json.NewDecoder(s.status)
	for {
		var r report
		if err := reports.Decode(&r); err != nil {
			if err != io.EOF {
				s.trouble = errors.Join(s.trouble, fmt.Errorf("read what the supervisor says: %w", err))
			}
			return
		}
		switch r.Kind {
		case reportStarted:
			close(s.started)
		case reportRefused:
			s.refused, s.unheld = r.Message, r.Unheld
		case reportSignal:
			s.mu.Lock()
			s.signals = append(s.signals, r.Signal)
			s.mu.Unlock()
		case reportDone:
			s.outcome = r.Outcome
		}
	}
}

// control passes on that the command has to end, and kills a supervisor that does not answer in time: the command may
// have stopped it.
func (s *session) control(ctx context.Context, stop, kill <-chan struct{}) {
	bound := time.NewTimer(startBound)
	defer bound.Stop()
	nudge := time.NewTimer(s.cmd.Timeout + nudgeAfter)
	defer nudge.Stop()
	started, done := s.started, ctx.Done()
	for {
		ask := false
		select {
		case <-s.ended:
			return
		case <-started:
			started = nil
			if done != nil {
				bound.Reset(s.cmd.Timeout + s.cmd.Grace + endBound)
			}
		case <-done:
			ask = true
		case <-stop:
			ask = true
		case <-kill:
			kill = nil
			s.abandon()
			bound.Reset(endBound)
		case <-nudge.C:
			s.send(syscall.SIGCONT)
		case <-bound.C:
			s.send(syscall.SIGKILL)
		}
		if ask {
			done, stop = nil, nil
			s.ask()
			s.send(syscall.SIGCONT)
			bound.Reset(s.cmd.Grace + endBound)
		}
	}
}

// ask tells the supervisor to end the command with its grace. An error means that the supervisor is gone, which listen
// sees.
func (s *session) ask() { _ = json.NewEncoder(s.orders).Encode(request{End: true}) }

// abandon cuts the lifeline: the supervisor ends the command at once. An error means that it is cut already.
func (s *session) abandon() { _ = s.orders.Close() }

// send signals the supervisor. An error means that it has ended.
func (s *session) send(sig syscall.Signal) { _ = s.proc.Process.Signal(sig) }

// forward hands output and signals to sink while the command runs and until all of it is handed over. After an error
// of the sink it only waits.
func (s *session) forward(sink shared.EventSink) {
	if sink == nil {
		<-s.ended
		return
	}
	frame := make([]byte, shared.MaxOutputFrame)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for live := true; live; {
		select {
		case <-s.ended:
			live = false
		case <-look.C:
		}
		if err := s.flush(sink, frame); err != nil {
			if !errors.Is(err, errSink) {
				s.unreadable = err
			}
			<-s.ended
			return
		}
	}
}

// flush hands over what is new.
func (s *session) flush(sink shared.EventSink, frame []byte) error {
	for {
		moreOut, err := s.stdout.forward(sink, frame)
		if err != nil {
			return err
		}
		moreErr, err := s.stderr.forward(sink, frame)
		if err != nil {
			return err
		}
		for _, name := range s.takeSignals() {
			if err := sink(shared.Event{Kind: shared.EventSignal, Signal: name}); err != nil {
				return errSink
			}
		}
		if !moreOut && !moreErr {
			return nil
		}
	}
}

func (s *session) takeSignals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.signals
	s.signals = nil
	return taken
}

// reap waits for the end of the supervisor itself, which has closed its status pipe.
func (s *session) reap() {
	overdue := time.AfterFunc(exitBound, func() { s.send(syscall.SIGKILL) })
	defer overdue.Stop()
	if err := s.proc.Wait(); err != nil {
		s.trouble = errors.Join(s.trouble, fmt.Errorf("supervisor: %w", err))
	}
	s.runner.forget(s.proc.Process.Pid)
	if text := s.said.String(); text != "" {
		s.trouble = errors.Join(s.trouble, fmt.Errorf("supervisor: %s", text))
	}
	if s.stdin == nil {
		return
	}
	if !s.stdin.stop() {
		s.trouble = errors.Join(s.trouble, errors.New("what feeds stdin does not return"))
	}
}

// release closes what the session has open, and removes what the command had to itself.
func (s *session) release() {
	files := []*os.File{s.stdout.file, s.stderr.file, s.orders, s.status}
	if s.proc == nil && s.stdin != nil {
		files = append(files, s.stdin.to)
	}
	for _, f := range files {
		if f != nil {
			_ = f.Close() // everything was written by the supervisor; abandon may have closed it before
		}
	}
	if err := s.group.remove(); err != nil {
		s.runner.opts.Log.Warn("after a command", "error", err)
	}
	if s.temp == "" {
		return
	}
	if err := removeTemp(s.temp); err != nil {
		s.runner.opts.Log.Warn("after a command", "error", err)
	}
}
