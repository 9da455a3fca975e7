package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/shared"
)

// queue holds the cells that wait, in order of dispatch, and how much room each adapter instance has.
type queue struct {
	pending []*plan.Cell
	refused []*plan.Cell   // no adapter takes them
	room    map[string]int // workspaces that an instance may still hold; absent: no bound of its own
}

func newQueue(p *plan.Plan) *queue {
	q := &queue{room: map[string]int{}}
	for _, i := range plan.Sequence(p.Cells, p.Run.Order, p.Run.Seed) {
		if cell := &p.Cells[i]; cell.Refused == "" {
			q.pending = append(q.pending, cell)
		} else {
			q.refused = append(q.refused, cell)
		}
	}
	for _, a := range p.Adapters {
		if a.MaxConcurrent > 0 {
			q.room[a.Instance] = a.MaxConcurrent
		}
	}
	return q
}

// next takes the first cell whose adapter has room. A full adapter does not hold up the cells of another.
func (q *queue) next() (*plan.Cell, bool) {
	for at, cell := range q.pending {
		room, bounded := q.room[cell.Adapter]
		if bounded && room == 0 {
			continue
		}
		if bounded {
			q.room[cell.Adapter] = room - 1
		}
		q.pending = slices.Delete(q.pending, at, at+1)
		return cell, true
	}
	return nil, false
}

func (q *queue) release(cell *plan.Cell) {
	if room, bounded := q.room[cell.Adapter]; bounded {
		q.room[cell.Adapter] = room + 1
	}
}

// progress is what becomes of a cell, in two steps: first its outcome is known and its slot free, then its workspace is
// disposed of and its record complete.
type progress struct {
	cell     *plan.Cell
	slot     int
	result   record.Result
	earlier  []record.Result // of the attempts before the last; with disposed
	disposed bool
	err      error // the records could not be kept
}

// dispatch gives every cell of the plan its record: refused, run, or never started.
func (e *engine) dispatch(ctx context.Context) error {
	q := newQueue(e.cfg.Plan)
	if err := e.refuse(q.refused); err != nil {
		return err
	}
	stop, err := e.runCells(ctx, q)
	if err != nil {
		return fmt.Errorf("keep the records of the run: %w", err)
	}
	if ctx.Err() != nil {
		stop = stopInterrupted
	}
	return e.neverStarted(q.pending, stop)
}

// runCells runs cells until none is left, ctx is cancelled, a budget is used up or the records cannot be kept; then the
// cells that run are ended, since nothing of them could be kept either. It always waits for the cells that run.
func (e *engine) runCells(ctx context.Context, q *queue) (stop stopReason, broken error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wall := e.wallBudget()
	defer wall.Stop()
	slots := newSlots(e.cfg.Plan.Run.Parallelism)
	steps := make(chan progress)
	alive := 0
	for {
		for stop == stopNone && ctx.Err() == nil && len(slots) > 0 && alive < disposalRoom*e.cfg.Plan.Run.Parallelism {
			cell, ok := q.next()
			if !ok {
				break
			}
			slot := slots.take()
			alive++
			go func() { e.cell(ctx, cell, slot, steps) }()
		}
		if alive == 0 {
			return stop, broken
		}
		select {
		case p := <-steps:
			if p.disposed {
				alive--
				q.release(p.cell)
				e.results = append(append(e.results, p.earlier...), p.result)
			} else {
				slots.give(p.slot)
				stop = max(stop, e.took(p.result))
			}
			if broken == nil && p.err != nil {
				broken = p.err
				cancel()
			}
		case <-wall.C:
			used := e.cfg.Clock().Sub(e.started)
			stop = max(stop, e.spent("wall", used.Seconds(), e.cfg.Plan.Run.BudgetWall.Seconds()))
		}
	}
}

// disposalRoom is how many cells there may be for each slot, those included whose workspaces are being disposed of. A
// slow disposal does not keep a slot from the next cell, and cannot pile up workspaces without end.
const disposalRoom = 2

// slots are the numbers of the places in which no cell runs, the lowest last.
type slots []int

func newSlots(n int) slots {
	s := make(slots, n)
	for i := range s {
		s[i] = n - 1 - i
	}
	return s
}

func (s *slots) take() int {
	last := len(*s) - 1
	slot := (*s)[last]
	*s = (*s)[:last]
	return slot
}

func (s *slots) give(slot int) { *s = append(*s, slot) }

// stopReason says why no further cell is started. A greater one wins.
type stopReason int

const (
	stopNone stopReason = iota
	stopBudget
	stopFailFast
	stopInterrupted
)

// took looks at the outcome of a cell and tells whether the run goes on after it.
func (e *engine) took(r record.Result) stopReason {
	if r.Status == shared.StatusError {
		e.unmeasured++
	}
	if r.Status == shared.StatusCancelled {
		return stopNone
	}
	if e.cfg.FailFast && (r.Passed == nil || !*r.Passed) && !r.Warmup {
		return stopFailFast
	}
	limit := e.cfg.Plan.Run.BudgetFailures
	if limit == nil || r.Status != shared.StatusError {
		return stopNone
	}
	share := float64(e.unmeasured) / float64(len(e.cfg.Plan.Cells))
	if share < *limit {
		return stopNone
	}
	return e.spent("failures", share, *limit)
}

func (e *engine) spent(budget string, used, limit float64) stopReason {
	if e.budget == "" {
		e.budget = budget
		e.cfg.Events.Emit(&event.Budget{Budget: budget, Used: used, Limit: limit})
	}
	return stopBudget
}

// wallBudget fires when the budget of wall time is used up; never where there is none.
func (e *engine) wallBudget() *time.Timer {
	if e.cfg.Plan.Run.BudgetWall > 0 {
		return time.NewTimer(e.cfg.Plan.Run.BudgetWall)
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// refuse records the cells that no adapter takes.
func (e *engine) refuse(cells []*plan.Cell) error {
	var results []record.Result
	for _, cell := range cells {
		results = append(results, e.unstarted(cell, shared.StatusRefused, record.Printable(cell.Refused)))
	}
	return e.keep(results)
}

// neverStarted records the cells that the run did not come to.
func (e *engine) neverStarted(cells []*plan.Cell, stop stopReason) error {
	status, message := shared.StatusCancelled, "the run was interrupted before it started"
	switch stop {
	case stopBudget:
		status, message = shared.StatusNotRun, "the run's budget of "+e.budget+" was used up before it started"
	case stopFailFast:
		message = "an earlier cell failed, and --fail-fast was asked for"
	}
	var results []record.Result
	for _, cell := range cells {
		results = append(results, e.unstarted(cell, status, message))
	}
	return e.keep(results)
}

// unstarted is the record of a cell of which no attempt was made.
func (e *engine) unstarted(cell *plan.Cell, status shared.Status, message string) record.Result {
	r := e.blank(cell, 0)
	r.Status, r.Message, r.Last = status, message, true
	return r
}

// unstartedWriters bounds how many records of cells that never started are written at once; more of them share one
// fsync of the journal.
const unstartedWriters = 32

// keep records cells that were not started.
func (e *engine) keep(results []record.Result) error {
	e.results = append(e.results, results...)
	var group sync.WaitGroup
	free := make(chan struct{}, unstartedWriters)
	errs := make(chan error, len(results))
	for _, r := range results {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			errs <- e.cfg.Folder.End(r)
		})
	}
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return fmt.Errorf("record a cell that was not started: %w", err)
		}
	}
	return nil
}

// cell gives one cell its attempts, and says when its outcome is known and when it is disposed of: always both.
func (e *engine) cell(ctx context.Context, cell *plan.Cell, slot int, steps chan<- progress) {
	last, earlier, err := e.attempts(ctx, cell, slot)
	steps <- progress{cell: cell, slot: slot, result: last.result, err: err}
	err = errors.Join(err, guarded(cell, func() error { return last.end(ctx) }))
	if err == nil {
		e.cfg.Events.Emit(&event.CellFinished{Result: last.result})
	}
	steps <- progress{cell: cell, slot: slot, result: last.result, earlier: earlier, disposed: true, err: err}
}

// attempts makes attempts until one is the last, which is returned before its end, with the results of those before it.
func (e *engine) attempts(ctx context.Context, cell *plan.Cell, slot int) (last *attempt, earlier []record.Result, err error) {
	for n := 1; ; n++ {
		a := &attempt{engine: e, cell: cell, number: n, slot: slot}
		if err := guarded(cell, func() error { return a.run(ctx) }); err != nil {
			a.lose(err)
			return a, earlier, err
		}
		if a.result.Last {
			return a, earlier, nil
		}
		// Two attempts of a cell never overlap, so this one is disposed of before the next.
		if err := guarded(cell, func() error { return a.end(ctx) }); err != nil {
			return &attempt{engine: e, cell: cell, result: a.result, lost: err}, earlier, err
		}
		earlier = append(earlier, a.result)
		e.cfg.Events.Emit(&event.CellRetried{
			Cell: cell.Address, Attempt: n + 1, Of: cell.Attempts, Cause: a.result.Cause, Message: a.result.Message,
			Wait: a.wait.Seconds(),
		})
		sleep(ctx, a.wait)
	}
}

// guarded makes an error of a panic outside of what an attempt guards itself. It ends the run in an orderly way, rather
// than the process with the workspaces of all cells.
func guarded(cell *plan.Cell, fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in cell %s: %v\n%s", cell.Address, v, debug.Stack())
		}
	}()
	return fn()
}

// sleep waits for d, or until ctx is cancelled: the next attempt then records that it was cancelled.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
