package runner_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/state"
	"cellharness/shared"
)

func TestLease_IsInJournalAndIndexBeforeProvisionAndUntilTeardownIsComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a"))
	var seen []string
	w.adapters.instances[here].hook = func(c call) error {
		if c.at != "provision" && c.at != "teardown" {
			return nil
		}
		journal, index := w.openLeases()
		if !slices.Contains(journal, c.lease) || !slices.Contains(index, c.lease) {
			t.Errorf("%s (after %t): journal %v, index %v, want both to hold %s", c.at, c.after, journal, index, c.lease)
		}
		seen = append(seen, fmt.Sprint(c.at, c.after))
		return nil
	}
	wantStatus(t, w.one(), "completed passed=true")
	want := []string{"provisionfalse", "provisiontrue", "teardownfalse", "teardowntrue"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	w.wantClean()
}

func TestLease_SaysWhereMoreIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a"))
	var leases []state.Lease
	w.adapters.instances[here].hook = func(c call) error {
		if c.at == "cell" && !c.after {
			var err error
			leases, err = w.state.Leases()
			return err
		}
		return nil
	}
	w.one()
	if len(leases) != 1 {
		t.Fatalf("%d leases, want 1", len(leases))
	}
	got := leases[0]
	want := state.Lease{
		Lease: got.Lease, Owner: "owner", Run: w.cfg.Folder.ID(), Folder: w.cfg.Folder.Dir(), Instance: here,
		Cell: "t/a", Key: "a", Attempt: 1, Opened: got.Opened,
	}
	if diff := cmp.Diff(want, got); diff != "" || got.Opened.IsZero() {
		t.Errorf("lease (-want +got):\n%s", diff)
	}
}

// refusing is an index that cannot be written.
type refusing struct{ leasesOf }

type leasesOf interface {
	Add(l state.Lease) error
	Remove(lease string) error
}

func (refusing) Add(state.Lease) error { return errors.New("no space left on device") }

func TestLease_ThatCannotBeRecordedAsksForNoWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a"))
	w.cfg.Leases = refusing{w.state}
	w.adapters.instances[here].hook = func(c call) error {
		t.Errorf("the adapter was asked for %s", c.at)
		return nil
	}
	if _, err := w.tryRun(t.Context()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("Run: %v, want the error of the index", err)
	}
}

// TestTeardown_ThatIsNotClean holds that it never changes a result and is never hidden.
func TestTeardown_ThatIsNotClean(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		faults []string
		hook   func(call) error
		want   record.Cleanup
	}{
		"leaks":      {faults: []string{"teardown leak"}, want: record.CleanupLeaked},
		"fails":      {faults: []string{"teardown error:remote"}, want: record.CleanupUnknown},
		"panics":     {faults: []string{"teardown panic"}, want: record.CleanupUnknown},
		"dies twice": {hook: dieAt("teardown", false, 1, 2), want: record.CleanupUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cell("a", "fake:exit", "3"))
			w.adapters.instances[here].faults, w.adapters.instances[here].hook = test.faults, test.hook
			r := w.one()
			wantStatus(t, r, "completed passed=false")
			if r.Cleanup != test.want || len(r.Left) == 0 || r.Attempt != 1 {
				t.Errorf("attempt %d, cleanup %s, left %v; want attempt 1, %s and what is left", r.Attempt, r.Cleanup, r.Left, test.want)
			}
			journal, index := w.openLeases()
			if len(journal) != 1 || !cmp.Equal(journal, index) {
				t.Errorf("open leases: journal %v, index %v; want the same one", journal, index)
			}
			closed := eventsOf[*event.LeaseClosed](w)
			if len(closed) != 1 || closed[0].Cleanup != test.want || len(closed[0].Left) == 0 {
				t.Errorf("events: %+v, want one that tells of %s", closed, test.want)
			}
		})
	}
}

// dieAt makes the given generations die before or after the work of a call.
func dieAt(at string, after bool, generations ...int) func(call) error {
	return func(c call) error {
		if c.at == at && c.after == after && slices.Contains(generations, c.generation.number) {
			return errDie
		}
		return nil
	}
}

func TestProvision_ThatFailedWithoutAnAnswerIsLookedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a"))
	in := w.adapters.instances[here]
	var mu sync.Mutex
	var calls []string
	in.hook = func(c call) error {
		mu.Lock()
		defer mu.Unlock()
		if !c.after {
			calls = append(calls, c.at)
		}
		if c.at == "provision" && c.after && len(calls) == 1 {
			return &shared.Error{Code: shared.CodeInternal, Message: "the answer was lost"}
		}
		return nil
	}
	r := w.one()
	wantStatus(t, r, "completed passed=true")
	want := []string{"provision", "teardown", "find", "provision", "cell", "teardown"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	wantStatus(t, w.recorded()[0], "error passed=null cause=provision")
	w.wantClean()
}

func TestKeepWorkspaces(t *testing.T) {
	t.Parallel()
	type test struct {
		keep, exit string
		kept       bool
	}
	for _, test := range []test{
		{shared.KeepNever, "0", false},
		{shared.KeepNever, "1", false},
		{"", "1", false},
		{shared.KeepOnFailure, "0", false},
		{shared.KeepOnFailure, "1", true},
		{shared.KeepAlways, "0", true},
		{shared.KeepAlways, "1", true},
	} {
		t.Run(test.keep+test.exit, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cell("a", "fake:exit", test.exit))
			w.plan.Adapters[0].Keep = test.keep
			r := w.one()
			if !test.kept {
				if r.Cleanup != record.CleanupClean {
					t.Errorf("cleanup %s, want clean", r.Cleanup)
				}
				w.wantClean()
				return
			}
			left := w.adapters.instances[here].workspaces(t)
			journal, index := w.openLeases()
			if r.Cleanup != record.CleanupKept || len(r.Left) != 1 || len(left) != 1 || len(journal) != 1 || len(index) != 1 {
				t.Errorf("cleanup %s, left %v, workspaces %v, journal %v, index %v; want one of each, kept", r.Cleanup, r.Left, left, journal, index)
			}
		})
	}
}

func TestKeepWorkspaces_LooksForWhatProvisionMayHaveLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a"))
	w.plan.Adapters[0].Keep = shared.KeepAlways
	w.plan.Cells[0].Attempts = 1
	w.adapters.instances[here].hook = dieAt("provision", true, 1)
	wantStatus(t, w.one(), "error passed=null cause=adapter_crashed")
	w.wantClean()
}

// TestCalls_HaveABound holds that nothing is asked of an adapter without a deadline.
func TestCalls_HaveABound(t *testing.T) {
	t.Parallel()
	c := cell("a", "fake:write", "x=1")
	setup := step("fake:exit", "0")
	c.Setup, c.Diff, c.Verify = &setup, true, verify("fake:exit", "0")
	c.Verify.Fresh = true
	w := newWorld(t, c)
	seen := map[string]time.Duration{}
	w.adapters.instances[here].hook = func(c call) error {
		deadline, ok := c.ctx.Deadline()
		if !ok {
			t.Errorf("%s has no deadline", c.at)
		}
		seen[c.at] = time.Until(deadline)
		if phase := seen[c.at]; phase > time.Hour {
			t.Errorf("%s may take %s", c.at, phase)
		}
		return nil
	}
	wantStatus(t, w.one(), "completed passed=true")
	for _, at := range []string{"provision", "setup", "cell", "collect", "verify", "teardown"} {
		if seen[at] == 0 {
			t.Errorf("%s was not called", at)
		}
	}
	if got := seen["cell"]; got > 3*time.Minute {
		t.Errorf("a command of a minute may take %s", got)
	}
}

func TestProvision_ThatAnswersSomethingElseIsABreach(t *testing.T) {
	t.Parallel()
	for name, bend := range map[string]func(*shared.Provisioned){
		"another commit": func(p *shared.Provisioned) { p.BaseSHA = "another" },
		"another lease":  func(p *shared.Provisioned) { p.Handle.Lease = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cell("a")
			c.Base = "0123456789012345678901234567890123456789"
			w := newWorld(t, c)
			w.adapters.instances[here].bend = bend
			r := w.one()
			wantStatus(t, r, "error passed=null cause=protocol")
			if r.Attempt != 1 || r.BaseSHA != c.Base {
				t.Errorf("attempt %d, base %s", r.Attempt, r.BaseSHA)
			}
			w.wantClean()
		})
	}
}

func TestProvision_NoticesAreInTheIntegrity(t *testing.T) {
	t.Parallel()
	c := cell("a", "fake:write", "x=1")
	c.Verify = verify("fake:exit", "0")
	c.Verify.Fresh = true
	w := newWorld(t, c)
	w.adapters.instances[here].bend = func(p *shared.Provisioned) {
		p.Notices = []shared.Notice{{Kind: shared.NoticeHistory, Detail: "one commit \xff"}}
	}
	want := []plan.Notice{{Kind: string(shared.NoticeHistory), Detail: `one commit \xff`}}
	if diff := cmp.Diff(want, w.one().Integrity); diff != "" {
		t.Errorf("integrity (-want +got):\n%s", diff)
	}
}

func TestLease_ThatCannotBeBoundEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, many(3)...)
	w.adapters.instances[here].hook = func(c call) error {
		if c.at == "provision" && c.after {
			return w.cfg.Folder.Close()
		}
		return nil
	}
	if report, err := w.tryRun(t.Context()); err == nil || len(report.Results) != 1 {
		t.Errorf("%d results, %v; want 1 and an error of the journal", len(report.Results), err)
	}
	if left := w.adapters.instances[here].workspaces(t); len(left) > 0 {
		t.Errorf("workspaces left: %v", left)
	}
	if _, index := w.openLeases(); len(index) != 0 {
		t.Errorf("index %v, though the workspace is seen gone", index)
	}
}

func TestSucceeded_IsToldOfMeasuredCellsAlone(t *testing.T) {
	t.Parallel()
	cells := many(3)
	cells[1].Cell = step("fake:exit", "1")
	w := newWorld(t, cells...)
	w.adapters.instances[here].faults = []string{"cell error:seed when cell:t/c2"}
	w.run(t.Context())
	if got := w.adapters.instances[here].live.succeeded; got != 2 {
		t.Errorf("told %d times, want 2", got)
	}
}
