package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/shared"
)

func TestBackoff_DoublesAndHasABound(t *testing.T) {
	t.Parallel()
	asked := func(d time.Duration) error { return &phaseError{shared.PhaseProvision, &shared.Error{RetryAfter: d}} }
	for name, test := range map[string]struct {
		base   time.Duration
		number int
		err    error
		want   time.Duration
	}{
		"first":                      {10 * time.Second, 1, errors.New("x"), 10 * time.Second},
		"third":                      {10 * time.Second, 3, errors.New("x"), 40 * time.Second},
		"hundredth":                  {10 * time.Second, 100, errors.New("x"), maxWait},
		"longer by definition":       {time.Hour, 5, errors.New("x"), time.Hour},
		"none":                       {0, 70, errors.New("x"), 0},
		"the adapter asks for more":  {time.Second, 1, asked(time.Minute), time.Minute},
		"the adapter asks for less":  {time.Minute, 1, asked(time.Second), time.Minute},
		"the adapter asks for years": {time.Second, 1, asked(1 << 62), maxWait},
	} {
		if got := backoff(test.base, test.number, test.err); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func newAttempt() *attempt {
	e := &engine{cfg: Config{Clock: time.Now, Events: event.NewStream("", time.Now), Plan: &plan.Plan{}}}
	return &attempt{engine: e, cell: &plan.Cell{}, number: 1, result: record.Result{Phases: map[string]record.Phase{}}}
}

// TestPhase_ThatPassesItsBound holds that an adapter which does not answer in time has hung, and that one which says
// itself what went wrong is believed.
func TestPhase_ThatPassesItsBound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want shared.Cause
	}{
		"the bare end of the context": {context.DeadlineExceeded, shared.CauseAdapterHung},
		"a timeout without a cause":   {&shared.Error{Code: shared.CodeTimeout}, shared.CauseAdapterHung},
		"a cause of its own":          {&shared.Error{Code: shared.CodeTimeout, Cause: shared.CauseRemote}, shared.CauseRemote},
	} {
		a := newAttempt()
		err := a.phase(t.Context(), shared.PhaseCollect, time.Millisecond, func(ctx context.Context) error {
			<-ctx.Done()
			return test.err
		})
		if got := causeOf(err); got != test.want || !retryable(err) || phaseOf(err) != shared.PhaseCollect {
			t.Errorf("%s: cause %s in phase %s of %v, want %s", name, got, phaseOf(err), err, test.want)
		}
		if p := a.result.Phases["collect"]; p.Seconds <= 0 {
			t.Errorf("%s: the phase took %v s", name, p.Seconds)
		}
	}
}

func TestPhase_IsNotBegunOnceTheRunIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := newAttempt()
	err := a.phase(ctx, shared.PhaseVerify, time.Hour, func(context.Context) error {
		t.Error("it was begun")
		return nil
	})
	if !errors.Is(err, context.Canceled) || len(a.result.Phases) != 0 {
		t.Errorf("%v, phases %v", err, a.result.Phases)
	}
}

func TestCheck_KnowsTheEndOfACommand(t *testing.T) {
	t.Parallel()
	zero := int64(0)
	for name, test := range map[string]struct {
		result shared.Result
		ok     bool
	}{
		"exited":             {shared.Result{Status: shared.StatusCompleted, ExitCode: &zero}, true},
		"ended by a signal":  {shared.Result{Status: shared.StatusCompleted, Signal: "KILL"}, true},
		"timed out":          {shared.Result{Status: shared.StatusTimedOut}, true},
		"no end at all":      {shared.Result{Status: shared.StatusCompleted}, false},
		"no status":          {shared.Result{ExitCode: &zero}, false},
		"a status of others": {shared.Result{Status: shared.StatusCancelled, ExitCode: &zero}, false},
	} {
		dir := newDir(t)
		out := &output{result: test.result}
		var err error
		if out.stdout, err = newCapture(dir, "stdout", nil); err != nil {
			t.Fatal(err)
		}
		if out.stderr, err = newCapture(dir, "stderr", nil); err != nil {
			t.Fatal(err)
		}
		if err := out.close(); err != nil {
			t.Fatal(err)
		}
		if err := out.check(); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
