package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

const (
	// pumpsGet is the time that the pumps get after the end of the command to find the end of its output. Whatever
	// holds the output open longer is no part of the command's own work.
	pumpsGet = time.Second
	// sweepBound is how long processes get to be gone after SIGKILL. Only a process in uninterruptible sleep needs more.
	sweepBound = 5 * time.Second
	// drainBound is how long the pumps get when nothing of the command is left, so that only a slow disk, or a process
	// elsewhere that was handed the pipe, can keep them.
	drainBound = 5 * time.Second
	// endBound is the most time between the last signal of a supervisor to its command and its own end: the wait for
	// the command, the pumps before and after the sweep, the sweep, and slack for a busy machine.
	endBound = sweepBound + pumpsGet + sweepBound + drainBound + 5*time.Second
)

// supervisor is the state of a process that watches over one command.
type supervisor struct {
	order  order
	status *json.Encoder

	leader         int // pid of the command; its number is also that of its process group
	stdin          *os.File
	stdout, stderr *pump
	out            outcome
	spent          time.Duration // CPU time of the leader before it was the command
	events         []*os.File    // of control groups, in the order of order.Events
	started        time.Time

	ended     chan time.Time        // the command has ended, and is not reaped
	requested chan struct{}         // the parent wants the command to end
	lifeline  chan struct{}         // the parent is gone
	exceeded  chan shared.Dimension // a limit was passed; room for one
	broken    chan struct{}         // output cannot be stored; room for one
	finished  chan struct{}         // closed when the watchdog has nothing to watch any more
}

func newSupervisor(o order, status io.Writer) *supervisor {
	return &supervisor{
		order: o, status: json.NewEncoder(status),
		ended: make(chan time.Time, 1), requested: make(chan struct{}), lifeline: make(chan struct{}),
		exceeded: make(chan shared.Dimension, 1), broken: make(chan struct{}, 1), finished: make(chan struct{}),
	}
}

// supervise runs the command to its end and reports. Goroutines that still wait when it returns end with the process.
func (s *supervisor) supervise(control *json.Decoder) error {
	if err := s.start(); err != nil {
		return s.report(report{Kind: reportRefused, Message: err.Error(), Unheld: errors.As(err, &unheldError{})})
	}
	go s.listen(control)
	go s.waitLeader()
	s.startWatching()
	s.tell(report{Kind: reportStarted})
	s.untilEnd()
	close(s.finished)
	s.settle()
	return s.report(report{Kind: reportDone, Outcome: &s.out})
}

// start starts the command and its pumps.
func (s *supervisor) start() error {
	stdin, err := s.openStdin()
	if err != nil {
		return err
	}
	outRead, outWrite, err := outputPipe()
	if err != nil {
		return err
	}
	errRead, errWrite, err := outputPipe()
	if err != nil {
		return err
	}
	s.leader, s.spent, err = startLeader(s.order, []uintptr{stdin.Fd(), outWrite.Fd(), errWrite.Fd()})
	if err != nil {
		return err
	}
	s.started = time.Now()
	s.out.StartedNS = s.started.UnixNano()
	s.stdin = stdin
	s.trouble("raise the command's oom_score_adj", raiseOOMScore(s.leader))
	// The pumps see the end of the output when the last copy of these is closed.
	for _, f := range []*os.File{outWrite, errWrite} {
		s.trouble("close a pipe", f.Close())
	}
	s.stdout = newPump(outRead, os.NewFile(stdoutFD, "stdout"), s.order.Output, s.outputFull, s.outputBroken)
	s.stderr = newPump(errRead, os.NewFile(stderrFD, "stderr"), s.order.Output, s.outputFull, s.outputBroken)
	go s.stdout.run()
	go s.stderr.run()
	return nil
}

func (s *supervisor) openStdin() (*os.File, error) {
	if s.order.Stdin {
		// The command shares this flag, and expects reads that wait.
		if err := unix.SetNonblock(stdinFD, false); err != nil {
			return nil, fmt.Errorf("make its stdin blocking: %w", err)
		}
		return os.NewFile(stdinFD, "stdin"), nil
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("open its stdin: %w", err)
	}
	return null, nil
}

// outputPipe makes a pipe whose read end can have a deadline and whose write end blocks, as commands expect.
func outputPipe() (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe for its output: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, fmt.Errorf("make a pipe for its output: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output"), nil
}

func (s *supervisor) outputFull() { s.exceed(shared.DimensionOutput) }

func (s *supervisor) outputBroken() {
	select {
	case s.broken <- struct{}{}:
	default:
	}
}

// exceed notes the first limit that is passed.
func (s *supervisor) exceed(d shared.Dimension) {
	select {
	case s.exceeded <- d:
	default:
	}
}

// listen waits for the parent's wish to end the command, and for the parent's end.
func (s *supervisor) listen(control *json.Decoder) {
	for wished := false; ; {
		var r request
		if err := control.Decode(&r); err != nil {
			close(s.lifeline)
			return
		}
		if r.End && !wished {
			wished = true
			close(s.requested)
		}
	}
}

// untilEnd returns when the command has ended, by itself or by our doing.
func (s *supervisor) untilEnd() {
	deadline := time.NewTimer(s.order.Timeout)
	defer deadline.Stop()
	select {
	case at := <-s.ended:
		s.noteEnd(at)
	case <-deadline.C:
		s.endGently(endedTimeout)
	case <-s.requested:
		s.endGently(endedRequest)
	case d := <-s.exceeded:
		s.out.Limit = d
		s.endNow(endedLimit)
	case <-s.broken:
		s.endNow(endedStorage)
	case <-s.lifeline:
		s.endNow(endedLifeline)
	}
}

// endGently asks the command to end, and forces it after its grace. A stopped process does not see SIGTERM before it
// is continued.
func (s *supervisor) endGently(reason endReason) {
	s.out.Reason = reason
	s.signal(unix.SIGTERM)
	s.signal(unix.SIGCONT)
	grace := time.NewTimer(s.order.Grace)
	defer grace.Stop()
	select {
	case at := <-s.ended:
		s.noteEnd(at)
		return
	case <-grace.C:
	case <-s.broken:
	case <-s.lifeline:
	}
	s.endNow(reason)
}

func (s *supervisor) endNow(reason endReason) {
	s.out.Reason = reason
	s.signal(unix.SIGKILL)
	bound := time.NewTimer(sweepBound)
	defer bound.Stop()
	select {
	case at := <-s.ended:
		s.noteEnd(at)
	case <-bound.C:
	}
}

func (s *supervisor) noteEnd(at time.Time) { s.out.Wall = at.Sub(s.started) }

// signal sends sig to the command's process group, and to the command itself where it has left that group. The numbers
// are safe: the command is not reaped before settle.
func (s *supervisor) signal(sig unix.Signal) {
	err := unix.Kill(-s.leader, sig)
	if group, groupErr := unix.Getpgid(s.leader); err != nil || groupErr != nil || group != s.leader {
		err = errors.Join(err, unix.Kill(s.leader, sig))
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		s.trouble("send "+signalName(sig), err)
	}
	s.tell(report{Kind: reportSignal, Signal: signalName(sig)})
}

// settle ends and reaps everything below this process, and sums up.
func (s *supervisor) settle() {
	ended := s.pumpsEnd(pumpsGet)
	s.sweep()
	s.out.OutputHeld = !ended && s.out.Survived > 0
	if !s.pumpsEnd(drainBound) {
		s.out.OutputHeld = true
		s.stopPumps()
	}
	s.out.Stdout, s.out.Stderr = s.stdout.result(), s.stderr.result()
	if s.order.Stdin {
		unread, err := unix.IoctlGetUint32(int(s.stdin.Fd()), unix.TIOCINQ)
		s.trouble("look at what is left of stdin", err)
		s.out.StdinUnread = int64(unread)
	}
	s.lastLook()
	select {
	case d := <-s.exceeded: // passed in the last moment
		if s.out.Reason == endedItself {
			s.out.Reason, s.out.Limit = endedLimit, d
		}
	default:
	}
}

// pumpsEnd waits for the pumps, and tells whether both have ended.
func (s *supervisor) pumpsEnd(within time.Duration) bool {
	bound := time.NewTimer(within)
	defer bound.Stop()
	for _, p := range []*pump{s.stdout, s.stderr} {
		select {
		case <-p.done:
		case <-bound.C:
			return false
		}
	}
	return true
}

// stopPumps ends pumps whose pipe something out of reach holds open. What they had no time to store is a failure of
// the storage, not the command's end.
func (s *supervisor) stopPumps() {
	for _, p := range []*pump{s.stdout, s.stderr} {
		pipe := p.from.(*os.File)
		s.trouble("stop reading output", pipe.SetReadDeadline(time.Now()))
		<-p.done
		unread, err := unix.IoctlGetUint32(int(pipe.Fd()), unix.TIOCINQ)
		s.trouble("look at what is left of the output", err)
		if unread > 0 && p.err == nil {
			p.err = fmt.Errorf("%d bytes could not be written within %s", unread, drainBound)
		}
	}
}

// trouble keeps what went wrong beside the command for the report.
func (s *supervisor) trouble(doing string, err error) {
	if err == nil {
		return
	}
	if s.out.Trouble != "" {
		s.out.Trouble += "; "
	}
	s.out.Trouble += doing + ": " + err.Error()
}

func (s *supervisor) report(r report) error {
	if err := s.status.Encode(r); err != nil {
		return fmt.Errorf("report to the parent: %w", err)
	}
	return nil
}

// tell reports; a parent that cannot be told has died, which listen sees.
func (s *supervisor) tell(r report) { s.trouble("report", s.report(r)) }

func signalName(sig unix.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name[len("SIG"):]
	}
	return fmt.Sprintf("%d", int(sig))
}
