package shared

import (
	"strings"
	"time"
)

// Cause is why there is no measurement. It is part of the record of an attempt.
type Cause string

// The causes.
const (
	CauseProvision      Cause = "provision"
	CauseSetup          Cause = "setup"
	CauseSeed           Cause = "seed"
	CauseAdapterCrashed Cause = "adapter_crashed"
	CauseAdapterHung    Cause = "adapter_hung"
	CauseAmbiguous      Cause = "ambiguous"
	CauseProtocol       Cause = "protocol"
	CauseCollect        Cause = "collect"
	CauseVerify         Cause = "verify"
	CauseQuota          Cause = "quota"
	CauseAuth           Cause = "auth"
	CauseRemote         Cause = "remote"
	CauseStorage        Cause = "storage"
	CauseRepo           Cause = "repo"
)

// Causes lists every cause.
func Causes() []Cause {
	return []Cause{
		CauseProvision, CauseSetup, CauseSeed, CauseAdapterCrashed, CauseAdapterHung, CauseAmbiguous, CauseProtocol,
		CauseCollect, CauseVerify, CauseQuota, CauseAuth, CauseRemote, CauseStorage, CauseRepo,
	}
}

// Code is what kind of failure an operation met; it decides what the caller does next.
type Code uint8

// The codes. The zero value is not a legal code.
const (
	CodeUnspecified     Code = iota
	CodeInvalid              // the request is wrong; asking again will not help
	CodeUnsupported          // this adapter cannot do it; reaching it at run time is a bug of the plan
	CodeNotFound             // what the request speaks of does not exist
	CodeExists               // what the request would make is there already
	CodeUnauthenticated      // credentials are missing or were rejected
	CodeExhausted            // a quota or a rate limit; RetryAfter may say when to ask again
	CodeUnavailable          // the far side cannot be reached now
	CodeTimeout              // a bound passed
	CodeCancelled            // the caller cancelled
	CodePrecondition         // the state does not allow it; Message says which state would
	CodeNotImplemented       // this build does not have it
	CodeInternal             // a bug, or a tool that misbehaved
)

// Sentinels for errors.Is: each matches every *Error of its code.
var (
	ErrInvalid         = &Error{Code: CodeInvalid}
	ErrUnsupported     = &Error{Code: CodeUnsupported}
	ErrNotFound        = &Error{Code: CodeNotFound}
	ErrExists          = &Error{Code: CodeExists}
	ErrUnauthenticated = &Error{Code: CodeUnauthenticated}
	ErrExhausted       = &Error{Code: CodeExhausted}
	ErrUnavailable     = &Error{Code: CodeUnavailable}
	ErrTimeout         = &Error{Code: CodeTimeout}
	ErrCancelled       = &Error{Code: CodeCancelled}
	ErrPrecondition    = &Error{Code: CodePrecondition}
	ErrNotImplemented  = &Error{Code: CodeNotImplemented}
	ErrInternal        = &Error{Code: CodeInternal}
)

// Error is a failed operation. It crosses the wire whole, except for the error it wraps.
type Error struct {
	Code       Code
	Cause      Cause         // empty where the caller decides by the phase it was in
	Message    string        // for a person: what happened, and what to do next
	Violations []Violation   // CodeInvalid only
	RetryAfter time.Duration // zero: not said
	Err        error         // what was met underneath, on this side of the wire only
}

// Violation is one field that cannot be accepted.
type Violation struct {
	Field   string // path into the settings, such as "base" or "resources.cpu"; "ref[\"x\"]" for a ref of a task
	Message string
}

// Error returns the message, and the violations where there are some.
func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = e.Code.String()
	}
	if len(e.Violations) > 0 {
		fields := make([]string, len(e.Violations))
		for i, v := range e.Violations {
			fields[i] = v.Field + ": " + v.Message
		}
		text += " (" + strings.Join(fields, "; ") + ")"
	}
	if e.Err != nil && e.Message == "" {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the error underneath.
func (e *Error) Unwrap() error { return e.Err }

// Is matches a target *Error whose non-zero Code and Cause are both equal, so that it works the same on both sides of
// the wire.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	if !ok || (t.Code == CodeUnspecified && t.Cause == "") {
		return false
	}
	return (t.Code == CodeUnspecified || t.Code == e.Code) && (t.Cause == "" || t.Cause == e.Cause)
}

// OfCause returns a target for errors.Is that matches every *Error of cause.
func OfCause(cause Cause) error { return &Error{Cause: cause} }

// String returns the code as a word.
func (c Code) String() string {
	names := [...]string{
		"unspecified", "invalid", "unsupported", "not found", "exists already", "unauthenticated", "exhausted",
		"unavailable", "timed out", "cancelled", "wrong state", "not implemented", "internal",
	}
	if int(c) >= len(names) {
		return names[0]
	}
	return names[c]
}
