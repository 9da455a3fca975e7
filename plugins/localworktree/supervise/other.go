//go:build !linux

package supervise

import (
	"context"
	"runtime"

	"cellharness/shared"
)

// Runner runs commands. It needs Linux; elsewhere New fails.
type Runner struct{}

func unsupported() error {
	return &shared.Error{
		Code:    shared.CodeUnsupported,
		Message: "commands can be supervised on Linux only, this is " + runtime.GOOS + "; use an adapter that runs them elsewhere",
	}
}

// Main tells that this process was not started as a supervisor.
func Main() (code int, ok bool) { return 0, false }

// BecomeSubreaper fails with CodeUnsupported.
func BecomeSubreaper() error { return unsupported() }

// New fails with CodeUnsupported.
func New(Options) (*Runner, error) { return nil, unsupported() }

// Run fails with CodeUnsupported.
func (*Runner) Run(context.Context, Command, shared.EventSink) (shared.Result, error) {
	return shared.Result{}, unsupported()
}

// Close has nothing to end.
func (*Runner) Close(context.Context) error { return nil }

// Probe says that nothing can be limited here.
func Probe(context.Context) map[shared.Dimension]shared.Support {
	levels := map[shared.Dimension]shared.Support{}
	for _, d := range shared.Dimensions() {
		levels[d] = shared.Support{Level: shared.LevelNone, Reason: unsupported().Error()}
	}
	return levels
}
