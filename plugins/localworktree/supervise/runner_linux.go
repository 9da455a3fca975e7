package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

// Runner runs commands, any number at once. A process has one.
type Runner struct {
	opts    Options
	session int // of this process

	// starting is held for reading while a supervisor is started and made known, and for writing while strangers are
	// ended, so that a fresh supervisor is never taken for one.
	starting sync.RWMutex

	mu          sync.Mutex // guards the fields below
	supervisors map[int]bool
	running     sync.WaitGroup // one for each Run
	closed      bool

	stop chan struct{} // closed by Close: commands end with their grace
	kill chan struct{} // closed when Close is out of time: commands end at once
}

// New makes a Runner. It fails in a process whose main did not call Main.
func New(opts Options) (*Runner, error) {
	if startedByMain() {
		return nil, &shared.Error{
			Code:    shared.CodeInternal,
			Message: "this program was started as a supervisor, but its main does not call supervise.Main first; add the call",
		}
	}
	if opts.Executable == "" {
		path, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the executable to start supervisors from: %w", err)
		}
		opts.Executable = path
	}
	if opts.Argv0 == "" {
		opts.Argv0 = os.Args[0]
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	session, err := unix.Getsid(0)
	if err != nil {
		return nil, fmt.Errorf("find the session of this process: %w", err)
	}
	return &Runner{
		opts: opts, session: session, supervisors: map[int]bool{},
		stop: make(chan struct{}), kill: make(chan struct{}),
	}, nil
}

// Run runs cmd until no process that came from it is alive. Output goes to sink from the stored files, in order for
// each stream and within 50 ms, so that a slow sink delays Run but never the command; an error of the sink stops the
// events only. A nil sink takes none.
//
// Result.MaxRSS is never below the size of the supervisor itself, a few MiB: Linux counts what a process had before exec.
//
// A limit of memory passed is StatusLimitExceeded also when only a part of the command was ended for it; one of processes
// refuses a new process where it is enforced, and the command goes on; one of the size of files is StatusLimitExceeded
// when the command itself ends by it, and an error of the write otherwise.
//
// Errors are *shared.Error: CodeInvalid for a command that makes no sense, CodeUnsupported for a limit that cannot be
// held at its required level, or no longer as it was when it was probed, CodePrecondition for a command that could not be started, CodeCancelled when ctx or Close
// ended it (its output stays stored), CauseStorage when its output could not be stored or its stdin not be read, and
// CauseAmbiguous when how it ended is not known or something of it could not be ended. A Result beside an error is what
// is known, for messages; it is no measurement.
func (r *Runner) Run(ctx context.Context, cmd Command, sink shared.EventSink) (shared.Result, error) {
	if err := cmd.check(); err != nil {
		return shared.Result{}, err
	}
	m, err := meansFor(ctx, cmd.Limits)
	if err != nil {
		return shared.Result{}, err
	}
	if err := cmd.heldBy(m); err != nil {
		return shared.Result{}, err
	}
	return r.run(ctx, cmd, m, sink)
}

// run runs cmd with its limits held as m says.
func (r *Runner) run(ctx context.Context, cmd Command, m means, sink shared.EventSink) (shared.Result, error) {
	if err := r.enter(ctx); err != nil {
		return shared.Result{}, err
	}
	defer r.running.Done()
	s, err := r.start(cmd, m)
	if err != nil {
		return shared.Result{}, err
	}
	defer s.release()
	s.order()
	var helpers sync.WaitGroup
	helpers.Go(s.listen)
	helpers.Go(func() { s.control(ctx, r.stop, r.kill) })
	s.forward(sink)
	helpers.Wait()
	s.reap()
	s.logTrouble()
	if s.outcome == nil && s.refused == "" {
		return shared.Result{}, r.ambiguous(s)
	}
	return s.result(ctx)
}

// enter counts a Run in, unless it comes too late.
func (r *Runner) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return cancelled("the command was never started", context.Cause(ctx))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return &shared.Error{Code: shared.CodePrecondition, Message: "the command was never started: the adapter is being stopped"}
	}
	r.running.Add(1)
	return nil
}

// Close refuses new commands, ends those that run with their grace, and at once when ctx is over. It returns when
// nothing runs any more; the error is that of ctx, when grace was cut short.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if !first {
		r.running.Wait()
		return nil
	}
	close(r.stop)
	idle := make(chan struct{})
	go func() {
		r.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	close(r.kill)
	<-idle
	return fmt.Errorf("wait for commands to end with their grace: %w", context.Cause(ctx))
}

func (r *Runner) know(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.supervisors[pid] = true
}

func (r *Runner) forget(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.supervisors, pid)
}

func (r *Runner) knows(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.supervisors[pid]
}
