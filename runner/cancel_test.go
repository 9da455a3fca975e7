package runner_test

import (
	"context"
	"testing"

	"cellharness/shared"
)

// TestCancel_InEveryPhase holds that the running cell is cancelled and its workspace removed, and that the cells that
// were not started are recorded.
func TestCancel_InEveryPhase(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"provision", "setup", "cell", "collect", "verify"} {
		for _, after := range []bool{false, true} {
			if at == "verify" && after {
				continue // it was measured then
			}
			name := at + " before its work"
			if after {
				name = at + " after its work"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				cells := many(3, "fake:exit", "0")
				setup := step("fake:exit", "0")
				cells[0].Setup, cells[0].Diff, cells[0].Verify = &setup, true, verify("fake:sleep", "1h")
				w := newWorld(t, cells...)
				w.plan.Adapters[0].Keep = shared.KeepOnFailure
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w.adapters.instances[here].hook = func(c call) error {
					if c.at == at && c.after == after {
						cancel()
					}
					return nil
				}
				report := w.run(ctx)
				if !report.Interrupted || len(report.Results) != 3 {
					t.Errorf("interrupted %t, %d results; want true and 3", report.Interrupted, len(report.Results))
				}
				wantCounts(t, w, map[shared.Status]int{shared.StatusCancelled: 3})
				for i, r := range w.recorded() {
					if want := map[bool]int{true: 1, false: 0}[i == 0]; r.Attempt != want || !r.Last || r.Message == "" {
						t.Errorf("record %d: attempt %d, last %t, message %q", i, r.Attempt, r.Last, r.Message)
					}
				}
				w.wantClean()
			})
		}
	}
}

func TestCancel_EndsTheCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a", "fake:out", "begun", "fake:sleep", "1h"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.adapters.instances[here].hook = func(c call) error {
		if c.at == "cell" && !c.after {
			go cancel()
		}
		return nil
	}
	wantStatus(t, w.run(ctx).Results[0], "cancelled passed=null")
	w.wantClean()
}

func TestCancel_AfterTheLastPhaseKeepsTheMeasurement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.adapters.instances[here].hook = func(c call) error {
		if c.at == "teardown" {
			cancel()
		}
		return nil
	}
	wantStatus(t, w.run(ctx).Results[0], "completed passed=true")
	w.wantClean()
}

func TestCancel_BeforeTheStartAsksForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, many(3)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.adapters.instances[here].hook = func(c call) error {
		t.Errorf("the adapter was asked for %s", c.at)
		return nil
	}
	if report := w.run(ctx); !report.Interrupted {
		t.Error("the report does not say that the run was interrupted")
	}
	wantCounts(t, w, map[shared.Status]int{shared.StatusCancelled: 3})
}
