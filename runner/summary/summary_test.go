package summary

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/shared"
)

// closely compares floating point numbers to six digits.
var closely = cmpopts.EquateApprox(0, 1e-6)

// bench builds a plan and its results cell by cell.
type bench struct {
	plan    *plan.Plan
	results []record.Result
}

func newBench() *bench {
	return &bench{plan: &plan.Plan{
		Trials: []plan.Trial{{Name: "solve", Variants: []string{"base", "new"}}, {Name: "other", Variants: []string{"base"}}},
		Adapters: []plan.Adapter{
			{Instance: "here", Version: "0.1.0"}, {Instance: "cloud", Version: "0.1.0", Profile: "team"},
		},
	}}
}

// cell plans one more cell and returns it.
func (b *bench) cell(trial, variant, adapter string) *plan.Cell {
	n := len(b.plan.Cells) + 1
	b.plan.Cells = append(b.plan.Cells, plan.Cell{
		Address: fmt.Sprintf("%s/t/%s#%d", trial, variant, n), Key: fmt.Sprintf("key-number-%d", n), Trial: trial, Task: "t",
		Variant: variant, Adapter: adapter, Repeat: n,
	})
	return &b.plan.Cells[n-1]
}

// ended records the last attempt of a cell, changed by edit.
func (b *bench) ended(c *plan.Cell, edit func(*record.Result)) {
	passed := true
	r := record.Result{
		Cell: c.Address, Key: c.Key, Trial: c.Trial, Task: c.Task, Variant: c.Variant, Adapter: c.Adapter,
		AdapterVersion: "0.1.0", Attempt: 1, Last: true, Status: shared.StatusCompleted, Passed: &passed,
		Phases: map[string]record.Phase{"cell": {Seconds: 1}}, Cleanup: record.CleanupClean, Warmup: c.Warmup,
	}
	for _, a := range b.plan.Adapters {
		if a.Instance == c.Adapter {
			r.Profile = a.Profile
		}
	}
	if edit != nil {
		edit(&r)
	}
	b.results = append(b.results, r)
}

func failed(r *record.Result) {
	passed := false
	r.Passed = &passed
}

func wall(seconds float64) func(*record.Result) {
	return func(r *record.Result) { r.Phases = map[string]record.Phase{"cell": {Seconds: seconds}} }
}

func timedOut(seconds float64) func(*record.Result) {
	return func(r *record.Result) {
		wall(seconds)(r)
		r.Status = shared.StatusTimedOut
		failed(r)
	}
}

func broken(cause shared.Cause, message string) func(*record.Result) {
	return func(r *record.Result) {
		r.Status, r.Cause, r.Message, r.Passed, r.Phases = shared.StatusError, cause, message, nil, nil
	}
}

func status(s shared.Status) func(*record.Result) {
	return func(r *record.Result) { r.Status, r.Passed, r.Attempt, r.Phases = s, nil, 0, nil }
}

func TestGroup(t *testing.T) {
	t.Parallel()
	b := newBench()
	for i := range 20 {
		c := b.cell("solve", "base", "here")
		switch {
		case i < 12:
			b.ended(c, wall(float64(i+1)))
		case i < 17:
			b.ended(c, func(r *record.Result) { wall(float64(i + 1))(r); failed(r) })
		case i == 17:
			b.ended(c, timedOut(5))
		case i == 18:
			b.ended(c, func(r *record.Result) { wall(19)(r); r.Attempt = 2 })
		default:
			b.ended(c, broken(shared.CauseProvision, "no"))
		}
	}
	got := Summarize(b.plan, b.results)
	want := []Group{{
		Trial: "solve", Variant: "base", Adapter: "here", AdapterVersion: "0.1.0",
		Planned: 20, Measured: 19, Passed: 13, Failed: 6, Retried: 1, Coverage: 0.95,
		Statuses: map[shared.Status]int{shared.StatusCompleted: 18, shared.StatusTimedOut: 1, shared.StatusError: 1},
		Errors:   map[shared.Cause]int{shared.CauseProvision: 1},
		// 13 of 19, and 13 and 14 of 20.
		Rate: &Rate{Value: 13.0 / 19, Low: 0.460104, High: 0.846356, WorstCase: 0.65, BestCase: 0.7},
		// Sorted: 1 to 17, 19, and the one that was ended at 5 behind all others. Ranks 5 and 15 of 19.
		Wall: &Times{N: 19, Median: Seconds{Value: 10}, Low: &Seconds{Value: 5}, High: &Seconds{Value: 15}},
	}}
	if diff := cmp.Diff(want, got.Groups, closely); diff != "" {
		t.Error(diff)
	}
}

func TestNothingIsPooled(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.ended(b.cell("other", "base", "here"), nil)
	b.ended(b.cell("solve", "new", "here"), nil)
	b.ended(b.cell("solve", "base", "here"), nil)
	b.ended(b.cell("solve", "base", "cloud"), nil)
	b.ended(b.cell("solve", "base", "cloud"), func(r *record.Result) { r.Profile = "guest" })
	b.ended(b.cell("solve", "base", "here"), func(r *record.Result) { r.AdapterVersion = "0.2.0" })
	b.cell("solve", "base", "here") // no result: the plan's adapter version and profile
	b.cell("solve", "base", "cloud")
	type row struct {
		trial, variant, adapter, version, profile string
		planned, measured                         int
	}
	var got []row
	for _, g := range Summarize(b.plan, b.results).Groups {
		got = append(got, row{g.Trial, g.Variant, g.Adapter, g.AdapterVersion, g.Profile, g.Planned, g.Measured})
	}
	want := []row{
		{"solve", "base", "here", "0.1.0", "", 2, 1},
		{"solve", "base", "cloud", "0.1.0", "team", 2, 1},
		{"solve", "base", "cloud", "0.1.0", "guest", 1, 1},
		{"solve", "base", "here", "0.2.0", "", 1, 1},
		{"solve", "new", "here", "0.1.0", "", 1, 1},
		{"other", "base", "here", "0.1.0", "", 1, 1},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Error(diff)
	}
}

func TestCoverageDecidesOverTheRate(t *testing.T) {
	t.Parallel()
	for missing, rated := range map[int]bool{0: true, 1: true, 2: false, 9: false, 10: false} {
		b := newBench()
		for i := range 10 {
			c := b.cell("solve", "base", "here")
			if i < missing {
				b.ended(c, broken(shared.CauseSetup, "no"))
			} else {
				b.ended(c, nil)
			}
		}
		g := Summarize(b.plan, b.results).Groups[0]
		if (g.Rate != nil) != rated || math.Abs(g.Coverage-float64(10-missing)/10) > 1e-9 {
			t.Errorf("%d of 10 missing: coverage %v, rate %v", missing, g.Coverage, g.Rate)
		}
	}
}

func TestLastAttemptCounts(t *testing.T) {
	t.Parallel()
	b := newBench()
	retried := b.cell("solve", "base", "here")
	b.ended(retried, func(r *record.Result) { broken(shared.CauseProvision, "no")(r); r.Last = false })
	b.ended(retried, func(r *record.Result) { r.Attempt = 2 })
	waiting := b.cell("solve", "base", "here")
	b.ended(waiting, func(r *record.Result) { broken(shared.CauseProvision, "no")(r); r.Last = false })
	resumed := b.cell("solve", "base", "here")
	b.ended(resumed, status(shared.StatusNotRun))
	b.ended(resumed, failed)
	b.results = append(b.results, record.Result{Key: "of another plan", Status: shared.StatusCompleted, Last: true})

	g := Summarize(b.plan, b.results).Groups[0]
	want := map[shared.Status]int{shared.StatusCompleted: 2, Pending: 1}
	if diff := cmp.Diff(want, g.Statuses); diff != "" {
		t.Error(diff)
	}
	if g.Passed != 1 || g.Failed != 1 || g.Retried != 1 || g.Planned != 3 || len(g.Errors) != 0 {
		t.Errorf("got %+v", g)
	}
}

func TestWarmupCountsInNothing(t *testing.T) {
	t.Parallel()
	b := newBench()
	warm := b.cell("solve", "base", "here")
	warm.Warmup = true
	b.ended(warm, func(r *record.Result) { broken(shared.CauseSetup, "no")(r); r.Cleanup = record.CleanupLeaked })
	b.ended(b.cell("solve", "base", "here"), nil)
	s := Summarize(b.plan, b.results)
	if g := s.Groups[0]; g.Planned != 1 || g.Measured != 1 || len(s.Unmeasured) != 0 {
		t.Errorf("got %+v, unmeasured %v", g, s.Unmeasured)
	}
	if len(s.Leaked) != 1 || s.Leaked[0].Cell != warm.Address {
		t.Errorf("what a warmup leaks is leaked: %v", s.Leaked)
	}
	if n := Statistic(b.plan, b.results, "attempts", nil).N; n != 1 {
		t.Errorf("a statistic counts %d cells", n)
	}
}

func TestOneReasonIsToldOnce(t *testing.T) {
	t.Parallel()
	b := newBench()
	for i := range 100 {
		c := b.cell("solve", "base", "here")
		b.ended(c, broken(shared.CauseSetup, fmt.Sprintf(
			"setup of %s (workspace 01JDA0B1C2D3E4F5G6H7J8K9M%c, process %d) ended with status 9: tool missing", c.Address, 'A'+i%6, 10_000+i)))
	}
	other := b.cell("solve", "new", "here")
	b.ended(other, broken(shared.CauseSetup, "setup of it ended with status 8: tool missing"))
	skipped := b.cell("solve", "new", "here")
	b.ended(skipped, status(shared.StatusNotRun))
	open := b.cell("solve", "new", "here")

	got := Summarize(b.plan, b.results).Unmeasured
	if len(got) != 4 {
		t.Fatalf("%d reasons: %+v", len(got), got)
	}
	if len(got[0].Cells) != 100 || got[0].Message != b.results[0].Message || got[0].Cause != shared.CauseSetup {
		t.Errorf("the first reason has %d cells, %q", len(got[0].Cells), got[0].Message)
	}
	for i, want := range map[int]struct {
		status shared.Status
		cell   string
	}{1: {shared.StatusError, other.Address}, 2: {shared.StatusNotRun, skipped.Address}, 3: {Pending, open.Address}} {
		if got[i].Status != want.status || len(got[i].Cells) != 1 || got[i].Cells[0] != want.cell {
			t.Errorf("reason %d is %+v, wanted %+v", i, got[i], want)
		}
	}
}

func TestLeaked(t *testing.T) {
	t.Parallel()
	b := newBench()
	left := []record.Left{{Kind: "workspace", Name: "/w"}}
	c := b.cell("solve", "base", "here")
	b.ended(c, func(r *record.Result) { r.Cleanup, r.Left, r.Last = record.CleanupLeaked, left, false })
	b.ended(c, func(r *record.Result) { r.Attempt, r.Cleanup = 2, record.CleanupUnknown })
	b.ended(b.cell("solve", "base", "here"), func(r *record.Result) { r.Cleanup = record.CleanupKept })
	want := []Leaked{
		{Cell: c.Address, Attempt: 1, Cleanup: record.CleanupLeaked, Left: left},
		{Cell: c.Address, Attempt: 2, Cleanup: record.CleanupUnknown},
	}
	if diff := cmp.Diff(want, Summarize(b.plan, b.results).Leaked); diff != "" {
		t.Error(diff)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.ended(b.cell("solve", "base", "here"), nil)
	b.ended(b.cell("solve", "new", "here"), failed)
	b.ended(b.cell("solve", "base", "here"), timedOut(1))
	b.ended(b.cell("other", "base", "cloud"), broken(shared.CauseAuth, "no"))
	b.ended(b.cell("other", "base", ""), status(shared.StatusRefused))
	b.ended(b.cell("other", "base", "here"), status(shared.StatusCancelled))
	b.cell("other", "base", "here")
	want := map[string]int{
		"completed": 2, "timed_out": 1, "limit_exceeded": 0, "error": 1, "refused": 1, "cancelled": 1, "not_run": 0,
		"pending": 1, "passed": 1, "failed": 2,
	}
	if diff := cmp.Diff(want, Summarize(b.plan, b.results).Counts()); diff != "" {
		t.Error(diff)
	}
}

func TestMedianThatIsATimeout(t *testing.T) {
	t.Parallel()
	b := newBench()
	for _, s := range []float64{10, 20} {
		b.ended(b.cell("solve", "base", "here"), wall(s))
	}
	for range 4 {
		b.ended(b.cell("solve", "base", "here"), timedOut(5)) // ended early, and still longer than all others
	}
	got := Summarize(b.plan, b.results).Groups[0].Wall
	want := &Times{
		N: 6, Median: Seconds{Value: 5, AtLeast: true}, Low: &Seconds{Value: 10}, High: &Seconds{Value: 5, AtLeast: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSummaryOfNothingIsJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Summarize(&plan.Plan{}, nil))
	if want := `{"groups":[],"unmeasured":[],"leaked":[]}`; err != nil || string(data) != want {
		t.Errorf("got %s, %v", data, err)
	}
	b := newBench()
	b.cell("solve", "base", "here")
	if _, err := json.Marshal(Summarize(b.plan, nil)); err != nil {
		t.Errorf("without results: %v", err)
	}
}

// TestCountsAddUp holds for any mixture of outcomes: every planned cell is in exactly one place.
func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	edits := []func(*record.Result){
		nil, failed, timedOut(3), broken(shared.CauseRemote, "no"), status(shared.StatusRefused),
		status(shared.StatusCancelled), status(shared.StatusNotRun), func(r *record.Result) { r.Last = false },
	}
	for mixture := range 1 << len(edits) {
		b := newBench()
		for i, edit := range edits {
			c := b.cell("solve", []string{"base", "new"}[i%2], "here")
			if mixture&(1<<i) != 0 {
				b.ended(c, edit)
			}
		}
		s := Summarize(b.plan, b.results)
		planned, measured, missing := 0, 0, 0
		for _, g := range s.Groups {
			planned += g.Planned
			measured += g.Measured
			inStatuses := 0
			for _, n := range g.Statuses {
				inStatuses += n
			}
			if inStatuses != g.Planned || g.Passed+g.Failed != g.Measured {
				t.Errorf("mixture %b: %+v", mixture, g)
			}
		}
		for _, u := range s.Unmeasured {
			missing += len(u.Cells)
		}
		if planned != len(edits) || measured+missing != planned {
			t.Errorf("mixture %b: %d planned, %d measured, %d not", mixture, planned, measured, missing)
		}
	}
}
