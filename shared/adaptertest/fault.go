package adaptertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cellharness/shared"
)

// FaultEnv is the variable of a cell's environment that holds faults for this cell alone, several of them separated
// by semicolons. They hold in the process that saw the cell, from its RunCell to its Teardown.
const FaultEnv = "FAKE_FAULT"

// A Fault makes the fake adapter misbehave at one moment.
type Fault struct {
	// At is the moment: start (of the process, before its handshake), negotiate, configure, provision, run_cell,
	// collect, teardown, find or drain; setup, cell or verify for the RunCell of that phase alone; output for every
	// frame of output. With .end behind it the moment is after the work, which stays done, and before the answer.
	At string
	// Do is what happens:
	//
	//	exit:N        the process exits with N
	//	kill          the process kills itself
	//	stop          the process stops itself, as a hung one
	//	panic         the handler panics
	//	gopanic       another goroutine panics
	//	block         the call does not return before it is cancelled
	//	sleep:D       the call waits
	//	late:D        the same after the work, before the answer
	//	error:CAUSE   the call fails with this cause
	//	stderr:TEXT   TEXT is written to file descriptor 2 as it stands, escapes of Go replaced
	//	stdout:TEXT   the same to file descriptor 1
	//	leak          Teardown leaves the workspace and says so
	//	lie:KIND      the answer is wrong, see Lies
	Do  string
	Arg string
	// Cell is a part of the cell's address, or the key of the cell. Empty: every call.
	Cell string
	// Call is the number, from 1, of the call at this moment and for this cell that is hit. 0: every call.
	Call int
	// Attempt is the attempt that is hit. 0: every attempt.
	Attempt int64
}

// ParseFault reads a fault of the form "AT DO[:ARG] [when CONDITION,…]" with the conditions cell:TEXT, call:N and
// attempt:N, such as "run_cell exit:3 when cell:solve/a,attempt:1".
func ParseFault(s string) (Fault, error) {
	rule, conditions, conditional := strings.Cut(strings.TrimSpace(s), " when ")
	at, action, _ := strings.Cut(rule, " ")
	do, arg, _ := strings.Cut(strings.TrimSpace(action), ":")
	f := Fault{At: at, Do: do, Arg: arg}
	if do == "late" {
		f = Fault{At: at + ".end", Do: "sleep", Arg: arg}
	}
	if err := f.check(); err != nil {
		return Fault{}, fmt.Errorf("the fault %q %w", s, err)
	}
	if !conditional {
		return f, nil
	}
	for c := range strings.SplitSeq(conditions, ",") {
		if err := f.addCondition(strings.TrimSpace(c)); err != nil {
			return Fault{}, fmt.Errorf("the fault %q %w", s, err)
		}
	}
	return f, nil
}

func parseFaults(list []string) ([]Fault, error) {
	var faults []Fault
	for _, s := range list {
		f, err := ParseFault(s)
		if err != nil {
			return nil, err
		}
		faults = append(faults, f)
	}
	return faults, nil
}

func (f Fault) check() error {
	switch moment := strings.TrimSuffix(f.At, ".end"); moment {
	case "start", "negotiate", "configure", "provision", "run_cell", "setup", "cell", "verify", "collect", "teardown",
		"find", "drain", "output":
	default:
		return fmt.Errorf("is at %q, which is no moment of an adapter", f.At)
	}
	switch f.Do {
	case "kill", "stop", "panic", "gopanic", "block", "stderr", "stdout", "leak":
		return nil
	case "exit":
		if _, err := strconv.Atoi(f.Arg); err != nil {
			return fmt.Errorf("wants an exit code: %w", err)
		}
		return nil
	case "sleep":
		if _, err := time.ParseDuration(f.Arg); err != nil {
			return fmt.Errorf("wants a duration: %w", err)
		}
		return nil
	case "error":
		for _, c := range shared.Causes() {
			if string(c) == f.Arg {
				return nil
			}
		}
		return fmt.Errorf("names no cause of an error")
	case "lie":
		if _, ok := Lies()[f.Arg]; !ok {
			return fmt.Errorf("names no lie")
		}
		return nil
	}
	return fmt.Errorf("wants %q, which cannot be done", f.Do)
}

func (f *Fault) addCondition(c string) error {
	name, value, _ := strings.Cut(c, ":")
	n, err := strconv.Atoi(value)
	switch {
	case name == "cell" && value != "":
		f.Cell = value
	case name == "call" && err == nil:
		f.Call = n
	case name == "attempt" && err == nil:
		f.Attempt = int64(n)
	default:
		return fmt.Errorf("has the condition %q; want cell:TEXT, call:N or attempt:N", c)
	}
	return nil
}

// Lies returns the lies that a Fault can tell, with the moment at which each is told and what it is.
func Lies() map[string]string {
	return map[string]string{
		"name":      "negotiate: another registered name",
		"unfit":     "negotiate: host and adapter do not fit",
		"seeds":     "run_cell: a seed is written before the next one was checked",
		"exit_code": "run_cell: every command exits with 0",
		"output":    "run_cell: output after the first frame is lost",
		"count":     "run_cell: one byte more than there was",
		"streams":   "run_cell: stderr arrives as stdout",
		"env":       "run_cell: commands get the environment of the adapter",
		"timeout":   "run_cell: no command is ended at its timeout",
		"survivors": "run_cell: what the command left running is left running",
		"limit":     "run_cell: the output limit does not hold",
		"digest":    "collect: the digest of an artifact is wrong",
		"missing":   "collect: a missing artifact is an empty one",
		"links":     "collect: links are followed",
		"diff":      "run_cell: the patch holds the seeds",
		"removed":   "teardown: what is still there is said to be removed",
	}
}

// caller is for whom a call is made, as far as it is known.
type caller struct {
	address string // of the cell
	key     string
	attempt int64
}

func (f Fault) concerns(at string, who caller) bool {
	return f.At == at && (f.Attempt == 0 || f.Attempt == who.attempt) &&
		(f.Cell == "" || f.Cell == who.key || (who.address != "" && strings.Contains(who.address, f.Cell)))
}

// faultPlan holds the faults of one fake, or of one of its cells, and counts how often each was met.
type faultPlan struct {
	faults []Fault

	mu  sync.Mutex
	met []int // by index of faults; guarded by mu
}

func newFaultPlan(faults []Fault) *faultPlan {
	return &faultPlan{faults: faults, met: make([]int, len(faults))}
}

// due returns the faults that hit now.
func (p *faultPlan) due(at string, who caller) []Fault {
	if p == nil || len(p.faults) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var hits []Fault
	for i, f := range p.faults {
		if !f.concerns(at, who) {
			continue
		}
		p.met[i]++
		if f.Call == 0 || f.Call == p.met[i] {
			hits = append(hits, f)
		}
	}
	return hits
}

// bent says how the answer of a call is to be wrong: the lies to be told, and "leak".
type bent map[string]bool

// strike lets the faults happen, one after another, and returns what they want of the answer.
func strike(ctx context.Context, faults []Fault) (bent, error) {
	var b bent
	for _, f := range faults {
		if f.Do == "lie" || f.Do == "leak" {
			if b == nil {
				b = bent{}
			}
			b[cmp.Or(f.Arg, f.Do)] = true
			continue
		}
		if err := f.strike(ctx); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (f Fault) strike(ctx context.Context) error {
	switch f.Do {
	case "exit":
		code, _ := strconv.Atoi(f.Arg) // checked when it was parsed
		os.Exit(code)
	case "kill":
		return signalSelf(syscall.SIGKILL)
	case "stop":
		return signalSelf(syscall.SIGSTOP)
	case "panic":
		panic("fault: panic in the handler")
	case "gopanic":
		go func() { panic("fault: panic in a goroutine") }()
		<-ctx.Done()
		return fromContext(ctx.Err())
	case "block":
		<-ctx.Done()
		return fromContext(ctx.Err())
	case "sleep":
		d, _ := time.ParseDuration(f.Arg) // checked when it was parsed
		return pause(ctx, d)
	case "error":
		return asked(shared.Cause(f.Arg))
	case "stderr":
		return writeRaw(2, f.Arg)
	case "stdout":
		return writeRaw(1, f.Arg)
	}
	return nil
}

// signalSelf sends a signal that no handler can see to this process.
func signalSelf(sig syscall.Signal) error {
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		return internal("signal the own process", err)
	}
	return nil
}

// writeRaw writes past os.Stdout and os.Stderr, which an adapter process replaces.
func writeRaw(fd int, text string) error {
	if unquoted, err := strconv.Unquote(`"` + text + `"`); err == nil {
		text = unquoted
	}
	for data := []byte(text); len(data) > 0; {
		n, err := syscall.Write(fd, data)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return internal(fmt.Sprintf("write to file descriptor %d", fd), err)
		}
		data = data[n:]
	}
	return nil
}

// asked makes the error of an error:CAUSE fault.
func asked(cause shared.Cause) error {
	e := &shared.Error{Code: shared.CodeInternal, Cause: cause, Message: "a fault of cause " + string(cause) + " was asked for"}
	switch cause {
	case shared.CauseAuth:
		e.Code = shared.CodeUnauthenticated
	case shared.CauseQuota:
		e.Code, e.RetryAfter = shared.CodeExhausted, 10*time.Millisecond
	case shared.CauseRemote:
		e.Code = shared.CodeUnavailable
	}
	return e
}

// pause waits unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fromContext(ctx.Err())
	}
}

func fromContext(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &shared.Error{Code: shared.CodeTimeout, Message: "the time for the call passed", Err: err}
	}
	return &shared.Error{Code: shared.CodeCancelled, Message: "the call was cancelled", Err: err}
}

func internal(doing string, err error) error {
	return &shared.Error{Code: shared.CodeInternal, Message: doing + ": " + err.Error(), Err: err}
}
