package shared

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestError_Is(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("provision x: %w", &Error{Code: CodeExhausted, Cause: CauseQuota, Message: "full", Err: io.EOF})
	for name, c := range map[string]struct {
		target error
		want   bool
	}{
		"its code":          {ErrExhausted, true},
		"its cause":         {OfCause(CauseQuota), true},
		"both":              {&Error{Code: CodeExhausted, Cause: CauseQuota}, true},
		"another code":      {ErrInvalid, false},
		"another cause":     {OfCause(CauseAuth), false},
		"code, other cause": {&Error{Code: CodeExhausted, Cause: CauseAuth}, false},
		"nothing":           {&Error{}, false},
		"what it wraps":     {io.EOF, true},
	} {
		if got := errors.Is(err, c.target); got != c.want {
			t.Errorf("errors.Is with %s = %v, want %v", name, got, c.want)
		}
	}
}

func TestError_Text(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *Error
		want string
	}{
		{&Error{Code: CodeInvalid, Message: "no", Violations: []Violation{{"a", "x"}, {"b.c", "y"}}}, "no (a: x; b.c: y)"},
		{&Error{Code: CodeTimeout, Err: io.EOF}, "timed out: EOF"},
		{&Error{Code: 200}, "unspecified"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("Error() = %q, want %q", got, c.want)
		}
	}
}
