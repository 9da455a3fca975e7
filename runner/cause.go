package runner

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"cellharness/shared"
)

// phaseError is an error and the phase it ended.
type phaseError struct {
	phase shared.Phase
	err   error
}

func (p *phaseError) Error() string { return string(p.phase) + ": " + p.err.Error() }
func (p *phaseError) Unwrap() error { return p.err }

// panicError is a panic that was caught, so that a mistake made for one cell costs no other one its workspace.
type panicError struct {
	value any
	stack []byte
}

// stackFile holds the stack of a panic, in the folder of the attempt.
const stackFile = "panic.txt"

func (p *panicError) Error() string {
	return fmt.Sprintf("a bug of the harness (panic: %v); please report it with %s, which is beside the outputs", p.value, stackFile)
}

// guard calls fn and turns a panic into an error.
func guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return fn()
}

// protocolError says that an adapter broke the contract.
func protocolError(format string, args ...any) error {
	return &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseProtocol, Message: fmt.Sprintf(format, args...)}
}

// storageError says that what came from an adapter could not be stored.
func storageError(what, dir string, err error) error {
	return &shared.Error{
		Code: shared.CodeInternal, Cause: shared.CauseStorage, Err: err,
		Message: fmt.Sprintf("%s could not be stored: %v; make room on the disk of %s, or mend it", what, err, dir),
	}
}

func phaseOf(err error) shared.Phase {
	var p *phaseError
	if errors.As(err, &p) {
		return p.phase
	}
	return ""
}

// causeIn is the cause that the error names.
func causeIn(err error) shared.Cause {
	var e *shared.Error
	if errors.As(err, &e) {
		return e.Cause
	}
	return ""
}

// codeOf is the code that the error names.
func codeOf(err error) shared.Code {
	var e *shared.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return shared.CodeUnspecified
}

// causeOf is the cause that the error names, or the one that follows from its code and the phase it ended.
func causeOf(err error) shared.Cause {
	if cause := causeIn(err); cause != "" {
		return cause
	}
	switch codeOf(err) {
	case shared.CodeUnauthenticated:
		return shared.CauseAuth
	case shared.CodeExhausted:
		return shared.CauseQuota
	}
	switch phaseOf(err) {
	case shared.PhaseProvision:
		return shared.CauseProvision
	case shared.PhaseSetup:
		return shared.CauseSetup
	case shared.PhaseCollect:
		return shared.CauseCollect
	case shared.PhaseVerify:
		return shared.CauseVerify
	}
	if futile(codeOf(err)) {
		return shared.CauseProvision // the command was refused, so it has not run
	}
	return shared.CauseAmbiguous
}

// futile tells whether the same request would meet the same failure.
func futile(c shared.Code) bool {
	switch c {
	case shared.CodeInvalid, shared.CodeUnsupported, shared.CodePrecondition, shared.CodeNotImplemented,
		shared.CodeUnauthenticated:
		return true
	}
	return false
}

// retryable tells whether a fresh attempt may end differently without the measured command being to blame. A setup,
// collect or verify that failed is told apart from it: the command may have run, and is not run twice in silence.
func retryable(err error) bool {
	var bug *panicError
	if futile(codeOf(err)) || errors.As(err, &bug) {
		return false
	}
	switch causeOf(err) {
	case shared.CauseProvision, shared.CauseAdapterCrashed, shared.CauseAdapterHung, shared.CauseQuota,
		shared.CauseRemote, shared.CauseRepo:
		return true
	}
	return false
}

// maxWait bounds the wait before another attempt, whatever an adapter asks for: rate limits are told in seconds or
// minutes, and the cell holds its slot meanwhile.
const maxWait = 15 * time.Minute

// backoff is the wait before attempt number+1: the definition's, doubled each time, or what the adapter asks for. It is
// at most maxWait, or the definition's where that is more.
func backoff(base time.Duration, number int, err error) time.Duration {
	wait := base
	for range number - 1 {
		if wait >= maxWait {
			break
		}
		wait *= 2
	}
	var e *shared.Error
	if errors.As(err, &e) {
		wait = max(wait, e.RetryAfter)
	}
	return min(wait, max(base, maxWait))
}
