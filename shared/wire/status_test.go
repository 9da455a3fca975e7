package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"cellharness/shared"
)

// arrived returns err as the other side gets it: the status alone, over bytes.
func arrived(t *testing.T, err error) error {
	t.Helper()
	st, ok := status.FromError(ToStatus(err))
	if !ok {
		t.Fatalf("ToStatus(%v) is no status", err)
	}
	return status.ErrorProto(reparsed(t, st.Proto()))
}

func TestStatus_EveryCodeAndCause(t *testing.T) {
	t.Parallel()
	for code := shared.CodeInvalid; code <= shared.CodeInternal; code++ {
		for _, cause := range append(shared.Causes(), "") {
			want := &shared.Error{Code: code, Cause: cause, Message: "what happened"}
			err := arrived(t, want)
			got := FromStatus(err)
			if diff := cmp.Diff(error(want), got); diff != "" {
				t.Errorf("%v, %q: -want +got:\n%s", code, cause, diff)
			}
			if !Spoken(err) || !Spoken(got) {
				t.Errorf("%v, %q: not recognised as the adapter's word", code, cause)
			}
			if !errors.Is(got, &shared.Error{Code: code}) {
				t.Errorf("%v does not match its sentinel", got)
			}
		}
	}
}

func TestStatus_GRPCCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[shared.Code]codes.Code{
		shared.CodeInvalid: codes.InvalidArgument, shared.CodePrecondition: codes.FailedPrecondition,
		shared.CodeExhausted: codes.ResourceExhausted, shared.CodeNotImplemented: codes.Unimplemented,
	} {
		if got := status.Code(ToStatus(&shared.Error{Code: code})); got != want {
			t.Errorf("%v travels as %v, want %v", code, got, want)
		}
	}
}

func TestStatus_Details(t *testing.T) {
	t.Parallel()
	want := &shared.Error{
		Code: shared.CodeInvalid, Cause: shared.CauseQuota, Message: "two settings are wrong",
		Violations: []shared.Violation{{Field: "base", Message: "there is no such ref"}, {Field: `ref["x"]`, Message: "nor this"}},
		RetryAfter: 1500 * time.Millisecond,
	}
	if diff := cmp.Diff(error(want), FromStatus(arrived(t, want))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatus_Wrapped(t *testing.T) {
	t.Parallel()
	inner := &shared.Error{
		Code: shared.CodeInvalid, Message: "bad settings", Violations: []shared.Violation{{Field: "a", Message: "b"}},
	}
	got := FromStatus(arrived(t, fmt.Errorf("configure: %w", inner)))
	want := &shared.Error{Code: shared.CodeInvalid, Message: "configure: bad settings", Violations: inner.Violations}
	if diff := cmp.Diff(error(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatus_ForeignErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want shared.Code
	}{
		"plain":            {errors.New("boom"), shared.CodeInternal},
		"cancelled":        {fmt.Errorf("run: %w", context.Canceled), shared.CodeCancelled},
		"timed out":        {context.DeadlineExceeded, shared.CodeTimeout},
		"unspecified":      {&shared.Error{Message: "boom"}, shared.CodeInternal},
		"no such code":     {&shared.Error{Code: 200, Message: "boom"}, shared.CodeInternal},
		"wraps a sentinel": {fmt.Errorf("gone: %w", shared.ErrNotFound), shared.CodeNotFound},
	} {
		got := FromStatus(arrived(t, tc.err))
		if !errors.Is(got, &shared.Error{Code: tc.want}) || !Spoken(got) {
			t.Errorf("%s: arrived as %#v (spoken %t), want the code %v", name, got, Spoken(got), tc.want)
		}
	}
	if ToStatus(nil) != nil || FromStatus(nil) != nil {
		t.Error("no error became one")
	}
}

func TestFromStatus_Unspoken(t *testing.T) {
	t.Parallel()
	foreign, err := status.New(codes.Unavailable, "busy").WithDetails(&errdetails.ErrorInfo{Domain: "example.org"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		err  error
		want shared.Error
	}{
		"crash":          {status.Error(codes.Unavailable, "error reading from server: EOF"), shared.Error{Code: shared.CodeUnavailable}},
		"end of file":    {io.EOF, shared.Error{Code: shared.CodeUnavailable}},
		"other domain":   {foreign.Err(), shared.Error{Code: shared.CodeUnavailable}},
		"deadline":       {status.Error(codes.DeadlineExceeded, "x"), shared.Error{Code: shared.CodeTimeout}},
		"own deadline":   {context.DeadlineExceeded, shared.Error{Code: shared.CodeTimeout}},
		"cancel":         {status.Error(codes.Canceled, "x"), shared.Error{Code: shared.CodeCancelled}},
		"own cancel":     {context.Canceled, shared.Error{Code: shared.CodeCancelled}},
		"unknown method": {status.Error(codes.Unimplemented, "x"), shared.Error{Code: shared.CodeNotImplemented, Cause: shared.CauseProtocol}},
		"too large":      {status.Error(codes.ResourceExhausted, "x"), shared.Error{Code: shared.CodeInternal, Cause: shared.CauseProtocol}},
		"not UTF-8":      {status.Error(codes.Internal, "x"), shared.Error{Code: shared.CodeInternal, Cause: shared.CauseProtocol}},
	} {
		got := FromStatus(tc.err)
		if !errors.Is(got, &tc.want) {
			t.Errorf("%s: %#v, want code %v and cause %q", name, got, tc.want.Code, tc.want.Cause)
		}
		if Spoken(tc.err) || Spoken(got) || Spoken(fmt.Errorf("provision: %w", got)) {
			t.Errorf("%s: taken for the adapter's word", name)
		}
		if !errors.Is(got, tc.err) {
			t.Errorf("%s: the transport's error is lost", name)
		}
	}
}

func TestFromStatus_Unknown(t *testing.T) {
	t.Parallel()
	for name, info := range map[string]*errdetails.ErrorInfo{
		"code":    {Domain: errorDomain, Metadata: map[string]string{metadataCode: "CODE_OF_TOMORROW"}},
		"no code": {Domain: errorDomain},
		"cause":   {Domain: errorDomain, Reason: "solar_flare", Metadata: map[string]string{metadataCode: "CODE_INVALID"}},
	} {
		st, err := status.New(codes.NotFound, "the text").WithDetails(info)
		if err != nil {
			t.Fatal(err)
		}
		got := FromStatus(st.Err())
		want := &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseProtocol, Message: "the text"}
		if diff := cmp.Diff(error(want), got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if !Spoken(got) {
			t.Errorf("%s: not taken for the adapter's word", name)
		}
	}
}

func TestToStatus_Bounds(t *testing.T) {
	t.Parallel()
	huge := &shared.Error{Code: shared.CodeInvalid, Message: strings.Repeat("é\xff", 1<<20)}
	for range 10_000 {
		huge.Violations = append(huge.Violations, shared.Violation{Field: "f", Message: strings.Repeat("ü", 5000)})
	}
	st, _ := status.FromError(ToStatus(huge))
	if n := len(st.Message()); n > maxStatusText || n < maxStatusText/2 {
		t.Errorf("the message has %d bytes, want at most %d and not much less", n, maxStatusText)
	}
	if !utf8.ValidString(st.Message()) || !strings.Contains(st.Message(), "left out") {
		t.Errorf("the message ends in %q", st.Message()[len(st.Message())-60:])
	}
	if n := proto.Size(st.Proto()) - len(st.Message()); n > maxStatusDetails {
		t.Errorf("the details have %d bytes, want at most %d", n, maxStatusDetails)
	}
	var got *shared.Error
	if !errors.As(FromStatus(st.Err()), &got) || len(got.Violations) < 10 {
		t.Fatalf("%d violations arrived", len(got.Violations))
	}
	if last := got.Violations[len(got.Violations)-1].Message; !strings.Contains(last, "more are not shown") {
		t.Errorf("the last violation is %q", last)
	}
}

func FuzzFromStatus(f *testing.F) {
	f.Add(uint32(3), "text", "cause", "CODE_INVALID")
	f.Add(uint32(99), "\xff", "", "")
	f.Fuzz(func(t *testing.T, code uint32, message, reason, name string) {
		st, err := status.New(codes.Code(code), message).WithDetails(&errdetails.ErrorInfo{
			Domain: errorDomain, Reason: reason, Metadata: map[string]string{metadataCode: name},
		})
		if err != nil {
			t.Skip("not a status that can be sent")
		}
		var e *shared.Error
		if !errors.As(FromStatus(st.Err()), &e) || e.Code == shared.CodeUnspecified || e.Message != st.Message() {
			t.Errorf("FromStatus(%v) = %#v", st, e)
		}
	})
}
