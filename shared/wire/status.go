package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

// A status travels in HTTP/2 headers. gRPC sets no bound of its own: a text of 17 MiB broke the connection, which looks
// like a crash of the adapter.
const (
	maxStatusText    = 8 << 10
	maxStatusDetails = 64 << 10
	maxViolation     = 2 << 10 // bytes of the text of one violation
)

const (
	errorDomain  = "cellharness"
	metadataCode = "code"
)

// ToStatus gives err the form in which it crosses the wire: a status with an ErrorInfo that holds code and cause, and
// with the violations and the time to wait where there are some. Texts that are too long are cut, and say so. An error
// that is a status already is returned as it is, one that is unknown becomes CodeInternal.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok && !isOurs(err) {
		return err
	}
	e := presentable(err)
	name, grpcCode := codeOnWire(e.Code)
	st := status.New(grpcCode, e.Message)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{
		Reason: string(e.Cause), Domain: errorDomain, Metadata: map[string]string{metadataCode: name},
	}}
	if len(e.Violations) > 0 {
		details = append(details, badRequest(e.Violations))
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	detailed, detailsErr := st.WithDetails(details...)
	if detailsErr != nil {
		return status.Errorf(codes.Internal, "describe the error %q: %v", e.Message, detailsErr)
	}
	return detailed.Err()
}

// FromStatus returns the *shared.Error that a status stands for. What the adapter did not say itself (Spoken) is told
// apart by its code: CodeUnavailable when the connection broke, CodeCancelled and CodeTimeout when the caller's context
// ended, and CodeInternal or CodeNotImplemented with CauseProtocol for everything else. A code or cause that is unknown
// here becomes CodeInternal with CauseProtocol and keeps the text.
func FromStatus(err error) error {
	if err == nil || isOurs(err) {
		return err
	}
	st, ok := status.FromError(err)
	if !ok {
		return unspokenError(err, plainCode(err))
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			return spokenError(st, info)
		}
	}
	return unspokenError(err, st.Code())
}

// Spoken tells whether the adapter, or this side before it asked, said what went wrong. It is false for an error that
// only the transport knows of: then the process has crashed or hangs, the context of the call has ended, or the message
// could not be carried.
func Spoken(err error) bool {
	if err == nil {
		return true
	}
	var silence *unspoken
	return !errors.As(FromStatus(err), &silence)
}

// unspoken marks an error that the transport made.
type unspoken struct{ err error }

// Error returns the transport's own text.
func (u *unspoken) Error() string { return u.err.Error() }

// Unwrap returns the transport's error.
func (u *unspoken) Unwrap() error { return u.err }

// isOurs tells whether err is, or wraps, an error of the contract.
func isOurs(err error) bool {
	var e *shared.Error
	return errors.As(err, &e)
}

// plainCode gives an error that is no status the code that gRPC would have given it.
func plainCode(err error) codes.Code {
	if errors.Is(err, context.Canceled) {
		return codes.Canceled
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return codes.DeadlineExceeded
	}
	return codes.Unavailable
}

func unspokenError(err error, code codes.Code) *shared.Error {
	e := &shared.Error{Err: &unspoken{err}}
	switch code {
	case codes.Canceled:
		e.Code, e.Message = shared.CodeCancelled, "the call was cancelled before the adapter answered"
	case codes.DeadlineExceeded:
		e.Code, e.Message = shared.CodeTimeout, "the adapter did not answer in time"
	case codes.Unavailable:
		e.Code, e.Message = shared.CodeUnavailable, "the connection to the adapter broke: "+err.Error()
	case codes.Unimplemented:
		e.Code, e.Cause = shared.CodeNotImplemented, shared.CauseProtocol
		e.Message = "the adapter does not know this call; build harness and adapter from the same source: " + err.Error()
	default:
		e.Code, e.Cause = shared.CodeInternal, shared.CauseProtocol
		e.Message = "the call could not be carried: " + err.Error()
	}
	return e
}

func spokenError(st *status.Status, info *errdetails.ErrorInfo) *shared.Error {
	e := &shared.Error{Cause: shared.Cause(info.GetReason()), Message: st.Message()}
	var b breach
	e.Code = fromEnum(&b, codeTable(), pb.Code(pb.Code_value[info.GetMetadata()[metadataCode]]))
	if e.Cause != "" {
		toEnum(&b, causeTable(), e.Cause)
	}
	if b.err != nil {
		e.Code, e.Cause = shared.CodeInternal, shared.CauseProtocol
	}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, shared.Violation{Field: v.GetField(), Message: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return e
}

// presentable returns err as an *Error without what cannot cross the wire, and within its bounds.
func presentable(err error) *shared.Error {
	e := &shared.Error{Code: shared.CodeInternal}
	text := err.Error()
	var inner *shared.Error
	switch {
	case errors.As(err, &inner):
		headline := &shared.Error{Code: inner.Code, Message: inner.Message, Err: inner.Err}
		// The violations travel apart; in the text they would be shown twice.
		text = strings.Replace(text, inner.Error(), headline.Error(), 1)
		e.Code, e.Cause, e.RetryAfter = inner.Code, inner.Cause, inner.RetryAfter
		e.Violations = clipViolations(inner.Violations)
	case errors.Is(err, context.Canceled):
		e.Code = shared.CodeCancelled
	case errors.Is(err, context.DeadlineExceeded):
		e.Code = shared.CodeTimeout
	}
	e.Message = clip(text, maxStatusText)
	if e.Code == shared.CodeUnspecified || e.Code > shared.CodeInternal {
		e.Code = shared.CodeInternal
	}
	if e.Cause != "" && !known(e.Cause) {
		e.Cause = shared.CauseProtocol
	}
	return e
}

func known(cause shared.Cause) bool {
	var b breach
	toEnum(&b, causeTable(), cause)
	return b.err == nil
}

// codeOnWire returns the name of a code in the metadata of an ErrorInfo, and its status code.
func codeOnWire(code shared.Code) (string, codes.Code) {
	byCode := map[shared.Code]codes.Code{
		shared.CodeInvalid:         codes.InvalidArgument,
		shared.CodeUnsupported:     codes.FailedPrecondition,
		shared.CodeNotFound:        codes.NotFound,
		shared.CodeExists:          codes.AlreadyExists,
		shared.CodeUnauthenticated: codes.Unauthenticated,
		shared.CodeExhausted:       codes.ResourceExhausted,
		shared.CodeUnavailable:     codes.Unavailable,
		shared.CodeTimeout:         codes.DeadlineExceeded,
		shared.CodeCancelled:       codes.Canceled,
		shared.CodePrecondition:    codes.FailedPrecondition,
		shared.CodeNotImplemented:  codes.Unimplemented,
		shared.CodeInternal:        codes.Internal,
	}
	var b breach
	return toEnum(&b, codeTable(), code).String(), byCode[code]
}

func badRequest(violations []shared.Violation) *errdetails.BadRequest {
	d := &errdetails.BadRequest{}
	for _, v := range violations {
		d.FieldViolations = append(d.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Message})
	}
	return d
}

// clipViolations keeps as many violations as fit, and says how many do not.
func clipViolations(violations []shared.Violation) []shared.Violation {
	const framing = 16 // bytes around one violation on the wire, at most
	budget := maxStatusDetails - maxViolation
	var kept []shared.Violation
	for i, v := range violations {
		v.Field, v.Message = clip(v.Field, maxViolation), clip(v.Message, maxViolation)
		budget -= len(v.Field) + len(v.Message) + framing
		if budget < 0 {
			return append(kept, shared.Violation{Message: fmt.Sprintf("%d more are not shown", len(violations)-i)})
		}
		kept = append(kept, v)
	}
	return kept
}

// clip returns s as valid UTF-8 of at most most bytes; where something is left out it says how much.
func clip(s string, most int) string {
	s = text(s)
	if len(s) <= most {
		return s
	}
	const reserve = 40 // bytes for the note, whatever the number in it
	cut := most - reserve
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s... (%d bytes left out)", s[:cut], len(s)-cut)
}
