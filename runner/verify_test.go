package runner_test

import (
	"errors"
	"testing"
	"time"

	"cellharness/runner"
	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/shared"
)

func TestOutcome_WithoutVerifyIsTheExitCode(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		words []string
		want  string
	}{
		"exit 0":  {[]string{"fake:exit", "0"}, "completed passed=true"},
		"exit 3":  {[]string{"fake:exit", "3"}, "completed passed=false"},
		"signal":  {[]string{"fake:signal", "SEGV"}, "completed passed=false"},
		"timeout": {[]string{"fake:sleep", "1h"}, "timed_out passed=false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cell("a", test.words...)
			c.Cell.Timeout = 50 * time.Millisecond
			w := newWorld(t, c)
			r := w.one()
			wantStatus(t, r, test.want)
			if (r.ExitCode == nil) == (r.Signal == "") {
				t.Errorf("exit code %v and signal %q, want one of them", r.ExitCode, r.Signal)
			}
			w.wantClean()
		})
	}
}

func TestVerify_Same(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cell   []string
		verify []string
		want   string
	}{
		"sees the workspace":         {[]string{"fake:write", "x=1", "fake:exit", "9"}, []string{"fake:cat", "x"}, "completed passed=true"},
		"fails":                      {[]string{"fake:exit", "0"}, []string{"fake:cat", "x"}, "completed passed=false"},
		"ends by a signal":           {[]string{"fake:exit", "0"}, []string{"fake:signal", "KILL"}, "completed passed=false"},
		"of a cell that timed out":   {[]string{"fake:write", "x=1", "fake:sleep", "1h"}, []string{"fake:cat", "x"}, "timed_out passed=true"},
		"that times out is an error": {[]string{"fake:exit", "0"}, []string{"fake:err", "stuck", "fake:sleep", "1h"}, "error passed=null cause=verify"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cell("a", test.cell...)
			c.Verify = verify(test.verify...)
			c.Cell.Timeout, c.Verify.Timeout = 50*time.Millisecond, 50*time.Millisecond
			w := newWorld(t, c)
			r := w.one()
			wantStatus(t, r, test.want)
			if r.Verify == nil || r.Verify.Stdout == nil || r.Attempt != 1 {
				t.Errorf("verify %+v, attempt %d", r.Verify, r.Attempt)
			}
			w.wantClean()
		})
	}
}

func TestVerify_SeedsArriveAfterTheCell(t *testing.T) {
	t.Parallel()
	c := cell("a", "fake:cat", "hidden")
	c.Verify = verify("fake:cat", "hidden")
	w := newWorld(t, c)
	blob := w.blob("the tests")
	w.plan.Cells[0].Verify.Seeds = []plan.Seed{{Path: "hidden", Blob: blob}}
	r := w.one()
	wantStatus(t, r, "completed passed=true")
	if *r.ExitCode != 1 {
		t.Errorf("the cell has read the seeds of verify: exit code %d", *r.ExitCode)
	}
	if got := w.stored("a", "verify/stdout.log"); got != "the tests" {
		t.Errorf("verify has read %q", got)
	}
}

func TestVerify_FreshStartsFromThePatchAlone(t *testing.T) {
	t.Parallel()
	c := cell("a", "fake:write", "x=from the cell")
	c.Verify = verify("fake:cat", "x")
	c.Verify.Fresh = true
	w := newWorld(t, c)
	r := w.one()
	wantStatus(t, r, "completed passed=true")
	if got := w.stored("a", "verify/stdout.log"); got != "from the cell" {
		t.Errorf("verify has read %q", got)
	}
	opened := eventsOf[*event.LeaseOpened](w)
	if len(opened) != 2 || opened[0].Lease == opened[1].Lease {
		t.Errorf("leases %+v, want two", opened)
	}
	if r.DiffFromBase == nil || r.Diff != nil {
		t.Errorf("diff %v, diff from base %v; want only what was needed", r.Diff, r.DiffFromBase)
	}
	w.wantClean()
}

func TestVerify_FreshThatCannotBeMade(t *testing.T) {
	t.Parallel()
	c := cell("a", "fake:write", "x=1")
	c.Verify = verify("fake:exit", "0")
	c.Verify.Fresh = true
	w := newWorld(t, c)
	provisions := 0
	w.adapters.instances[here].hook = func(c call) error {
		if c.at == "provision" && !c.after {
			if provisions++; provisions == 2 {
				return &shared.Error{Code: shared.CodeInvalid, Message: "the patch does not apply"}
			}
		}
		return nil
	}
	r := w.one()
	wantStatus(t, r, "error passed=null cause=verify")
	if r.ExitCode == nil {
		t.Error("the exit code of the cell is lost")
	}
	w.wantClean()
}

func TestVerify_PassExpression(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pass func(runner.CommandOutcome) (bool, error)
		want string
	}{
		"sees the outcome": {func(o runner.CommandOutcome) (bool, error) {
			return *o.ExitCode == 3 && string(o.Stdout) == "2 of 3" && o.Status == shared.StatusCompleted, nil
		}, "completed passed=true"},
		"says no":             {func(runner.CommandOutcome) (bool, error) { return false, nil }, "completed passed=false"},
		"cannot be evaluated": {func(runner.CommandOutcome) (bool, error) { return false, errors.New("no such name") }, "error passed=null cause=verify"},
		"panics":              {func(runner.CommandOutcome) (bool, error) { panic("oh") }, "error passed=null cause=verify"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cell("a")
			c.Verify = verify("fake:out", "2 of 3", "fake:exit", "3")
			c.Verify.Pass = plan.Expr{Source: `result.stdout == "2 of 3"`}
			w := newWorld(t, c)
			w.judge.pass = test.pass
			wantStatus(t, w.one(), test.want)
			w.wantClean()
		})
	}
}

func TestVerify_PassGetsNoOutputThatItDoesNotMention(t *testing.T) {
	t.Parallel()
	c := cell("a")
	c.Verify = verify("fake:out", "much")
	c.Verify.Pass = plan.Expr{Source: "result.exit_code == 0"}
	w := newWorld(t, c)
	w.judge.pass = func(o runner.CommandOutcome) (bool, error) { return o.Stdout == nil && o.Stderr == nil, nil }
	wantStatus(t, w.one(), "completed passed=true")
}

// TestPhases_TimesOfCommandsAreTheAdapters holds that what an engine does around a command is not in its time.
func TestPhases_TimesOfCommandsAreTheAdapters(t *testing.T) {
	t.Parallel()
	const delay = 250 * time.Millisecond
	c := cell("a", "fake:sleep", "10ms")
	setup := step("fake:exit", "0")
	c.Setup, c.Diff, c.Verify = &setup, true, verify("fake:exit", "0")
	w := newWorld(t, c)
	w.adapters.instances[here].hook = func(c call) error {
		if !c.after {
			time.Sleep(delay)
		}
		return nil
	}
	r := w.one()
	wantStatus(t, r, "completed passed=true")
	for name, engine := range map[string]bool{
		"provision": true, "setup": false, "cell": false, "collect": true, "verify": false, "teardown": true,
	} {
		p, ok := r.Phases[name]
		if !ok || p.Start.IsZero() || (p.Seconds >= delay.Seconds()) != engine {
			t.Errorf("phase %s: %+v, want it to hold the delay before the work: %t", name, p, engine)
		}
	}
	if r.Phases["cell"].Seconds < 0.01 {
		t.Errorf("the cell took %v s, less than it slept", r.Phases["cell"].Seconds)
	}
}
