package runner_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/shared"
	"cellharness/shared/adaptertest"
)

// gauge counts workspaces that exist at once, and measured commands that run at once. There may be more workspaces
// than slots: one that is disposed of does not keep its slot.
type gauge struct {
	mu               sync.Mutex
	now, most        int
	running, busiest int
	order            []string
}

func (g *gauge) watch(c call) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case c.at == "provision" && !c.after:
		g.now++
		g.most = max(g.most, g.now)
		g.order = append(g.order, c.key)
	case c.at == "cell" && !c.after:
		g.running++
		g.busiest = max(g.busiest, g.running)
	case c.at == "cell":
		g.running--
	case c.at == "teardown" && c.after:
		g.now--
	}
	return nil
}

// until waits for a condition on the gauge.
func (g *gauge) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience / 2)
	for {
		g.mu.Lock()
		met := ok()
		g.mu.Unlock()
		if met {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("it never came to be that %s", what)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func many(n int, words ...string) []plan.Cell {
	var cells []plan.Cell
	for i := range n {
		cells = append(cells, cell(fmt.Sprintf("c%d", i), words...))
	}
	return cells
}

func TestDispatch_ParallelismIsReachedAndNotExceeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, many(24)...)
	w.plan.Run.Parallelism = 5
	var g gauge
	w.adapters.instances[here].hook = func(c call) error {
		err := g.watch(c)
		if c.at == "cell" && !c.after {
			g.until(t, "five cells run at once", func() bool { return g.busiest >= 5 })
		}
		return err
	}
	report := w.run(t.Context())
	if len(report.Results) != 24 || g.busiest != 5 || g.most > 10 {
		t.Errorf("%d results, at most %d commands and %d workspaces at once; want 24, 5 and no more than 10",
			len(report.Results), g.busiest, g.most)
	}
	for _, e := range eventsOf[*event.CellStarted](w) {
		if e.Slot < 0 || e.Slot >= 5 {
			t.Errorf("slot %d", e.Slot)
		}
	}
	w.wantClean()
}

func TestDispatch_FullInstanceDoesNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	var cells []plan.Cell
	for i := range 6 {
		cells = append(cells, cell(fmt.Sprintf("h%d", i)))
	}
	for i := range 6 {
		c := cell(fmt.Sprintf("t%d", i))
		c.Adapter = "there"
		cells = append(cells, c)
	}
	w := newWorld(t, cells...)
	w.plan.Run.Parallelism = 4
	w.plan.Adapters[0].MaxConcurrent = 1
	w.plan.Adapters = append(w.plan.Adapters, plan.Adapter{Instance: "there", Kind: adaptertest.FakeName})
	w.adapters.instances["there"] = &instance{name: "there", root: t.TempDir()}
	var bounded, free gauge
	w.adapters.instances[here].hook = func(c call) error {
		if c.at == "cell" && !c.after {
			free.until(t, "the other instance is done", func() bool { return len(free.order) == 6 && free.now == 0 })
		}
		return bounded.watch(c)
	}
	w.adapters.instances["there"].hook = free.watch
	report := w.run(t.Context())
	if len(report.Results) != 12 || bounded.most != 1 || free.busiest > 3 {
		t.Errorf("%d results, at most %d and %d at once; want 12, 1 and no more than 3", len(report.Results), bounded.most, free.busiest)
	}
	w.wantClean()
}

func TestDispatch_OrderIsThatOfThePlan(t *testing.T) {
	t.Parallel()
	for _, order := range []plan.Order{plan.OrderInterleaved, plan.OrderRandom, plan.OrderSequential} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			var cells []plan.Cell
			for _, task := range []string{"x", "y", "z"} {
				for repeat := 1; repeat <= 3; repeat++ {
					c := cell(fmt.Sprintf("%s%d", task, repeat))
					c.Task, c.Repeat = task, repeat
					cells = append(cells, c)
				}
			}
			w := newWorld(t, cells...)
			w.plan.Run.Order, w.plan.Run.Seed = order, 7
			var g gauge
			w.adapters.instances[here].hook = g.watch
			w.run(t.Context())
			var want []string
			for _, i := range plan.Sequence(cells, order, 7) {
				want = append(want, cells[i].Key)
			}
			if diff := cmp.Diff(want, g.order); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDispatch_RefusedCellsAreRecordedAndNotStarted(t *testing.T) {
	t.Parallel()
	refused := cell("r")
	refused.Adapter, refused.Refused = "", "no adapter enforces memory"
	w := newWorld(t, refused, cell("a"))
	report := w.run(t.Context())
	if len(report.Results) != 2 {
		t.Fatalf("%d results, want 2", len(report.Results))
	}
	wantStatus(t, report.Results[0], "refused passed=null")
	wantStatus(t, report.Results[1], "completed passed=true")
	if r := w.recorded()[0]; r.Attempt != 0 || !r.Last || r.Message != refused.Refused {
		t.Errorf("recorded attempt %d, last %t, message %q", r.Attempt, r.Last, r.Message)
	}
}

func TestBudget_FailuresStopStartingCells(t *testing.T) {
	t.Parallel()
	w := newWorld(t, many(8)...)
	share := 0.25
	w.plan.Run.BudgetFailures = &share
	w.adapters.instances[here].faults = []string{"cell error:seed"}
	report := w.run(t.Context())
	wantCounts(t, w, map[shared.Status]int{shared.StatusError: 2, shared.StatusNotRun: 6})
	if report.Budget != "failures" || report.Interrupted {
		t.Errorf("report: budget %q, interrupted %t", report.Budget, report.Interrupted)
	}
	if told := eventsOf[*event.Budget](w); len(told) != 1 || told[0].Used != 0.25 || told[0].Limit != 0.25 {
		t.Errorf("events %+v, want one that tells of 0.25 of 0.25", told)
	}
	w.wantClean()
}

func TestBudget_FailingCellsAreData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, many(4, "fake:exit", "1")...)
	share := 0.5
	w.plan.Run.BudgetFailures = &share
	w.adapters.instances[here].faults = []string{"cell error:seed when cell:t/c2"}
	if report := w.run(t.Context()); report.Budget != "" {
		t.Errorf("the budget of %s is used up", report.Budget)
	}
	wantCounts(t, w, map[shared.Status]int{shared.StatusCompleted: 3, shared.StatusError: 1})
}

func TestBudget_WallStopsStartingCellsAndFailsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, many(50, "fake:sleep", "40ms")...)
	w.plan.Run.BudgetWall = 100 * time.Millisecond
	report := w.run(t.Context())
	done := 0
	for _, r := range report.Results {
		switch r.Status {
		case shared.StatusCompleted:
			done++
		case shared.StatusNotRun:
			if r.Passed != nil || r.Attempt != 0 {
				t.Errorf("%s: passed %v, attempt %d", r.Cell, r.Passed, r.Attempt)
			}
		default:
			t.Errorf("%s is %s", r.Cell, r.Status)
		}
	}
	if report.Budget != "wall" || done == 0 || done == 50 || len(w.recorded()) != 50 {
		t.Errorf("budget %q, %d done, %d recorded", report.Budget, done, len(w.recorded()))
	}
	w.wantClean()
}

func TestBudget_ThatIsUsedUpBeforeTheUserStopsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, many(3)...)
	share := 0.1
	w.plan.Run.BudgetFailures, w.plan.Run.Parallelism = &share, 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.plan.Cells[1].Cell = step("fake:sleep", "1h")
	w.adapters.instances[here].faults = []string{"cell error:seed when cell:t/c0"}
	w.onEvent = func(e event.Event) {
		if _, ok := e.(*event.Budget); ok {
			cancel()
		}
	}
	report := w.run(ctx)
	if report.Budget != "failures" || !report.Interrupted {
		t.Errorf("budget %q, interrupted %t", report.Budget, report.Interrupted)
	}
	wantCounts(t, w, map[shared.Status]int{shared.StatusError: 1, shared.StatusCancelled: 2})
}

func wantCounts(t *testing.T, w *world, want map[shared.Status]int) {
	t.Helper()
	got := map[shared.Status]int{}
	for _, r := range w.recorded() {
		if r.Last {
			got[r.Status]++
		}
		if !r.Status.Counts() && r.Passed != nil {
			t.Errorf("%s is %s and passed=%t", r.Cell, r.Status, *r.Passed)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recorded cells by status (-want +got):\n%s", diff)
	}
}

func TestFailFast(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		words  []string
		faults []string
		warmup bool
		want   map[shared.Status]int
	}{
		"a cell that failed": {
			words: []string{"fake:exit", "1"},
			want:  map[shared.Status]int{shared.StatusCompleted: 1, shared.StatusCancelled: 3},
		},
		"a cell that was not measured": {
			faults: []string{"cell error:seed when cell:c0"},
			want:   map[shared.Status]int{shared.StatusError: 1, shared.StatusCancelled: 3},
		},
		"a cell that was measured by its second attempt": {
			faults: []string{"provision error:remote when attempt:1"},
			want:   map[shared.Status]int{shared.StatusCompleted: 4},
		},
		"a warm-up that failed": {
			words: []string{"fake:exit", "1"}, warmup: true,
			want: map[shared.Status]int{shared.StatusCompleted: 2, shared.StatusCancelled: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cells := many(4, test.words...)
			cells[0].Warmup = test.warmup
			w := newWorld(t, cells...)
			w.cfg.FailFast = true
			w.adapters.instances[here].faults = test.faults
			w.run(t.Context())
			wantCounts(t, w, test.want)
			w.wantClean()
		})
	}
}

// TestRun_ThousandsOfCells holds that all are recorded, and that nothing stays behind in the process.
func TestRun_ThousandsOfCells(t *testing.T) {
	const n = 2000
	w := newWorld(t, many(n, "fake:out", "x", "fake:exit", "0")...)
	w.plan.Run.Parallelism = 64
	before := runtime.NumGoroutine()
	heap := heapInUse()
	began := time.Now()
	report := w.run(t.Context())
	if grown := heapInUse() - heap; grown > n*32<<10 {
		t.Errorf("%d bytes more are in use, which is more than 32 KiB for each cell", grown)
	}
	t.Logf("%d cells in %s", n, time.Since(began).Round(time.Millisecond))
	keys := map[string]bool{}
	for _, r := range w.recorded() {
		keys[r.Key] = true
		if r.Status != shared.StatusCompleted {
			t.Fatalf("%s is %s: %s", r.Cell, r.Status, r.Message)
		}
	}
	if len(keys) != n || len(report.Results) != n {
		t.Errorf("%d cells are recorded and %d reported, want %d", len(keys), len(report.Results), n)
	}
	w.wantClean()
	wantGoroutines(t, before)
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// wantGoroutines waits until no more goroutines run than before. Tests that use it run alone.
func wantGoroutines(t *testing.T, before int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(5 * time.Millisecond)
	}
}
