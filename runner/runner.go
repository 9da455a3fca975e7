package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/state"
	"cellharness/runner/summary"
	"cellharness/shared"
)

// Adapter is a live adapter process of one instance.
type Adapter interface {
	shared.Adapter
	// Generation counts the processes of the instance in this run, from 1.
	Generation() int
	// Description is what the adapter said of itself when it was negotiated.
	Description() shared.Description
	// Succeeded tells that a cell was measured, so that earlier deaths of the instance are forgiven.
	Succeeded()
}

// Adapters hands out live adapters.
type Adapters interface {
	// Acquire returns the adapter of an instance, a fresh generation of it where the last one has died. An error
	// means that the instance cannot be had now.
	Acquire(ctx context.Context, instance string) (Adapter, error)
}

// CommandOutcome is what verify.pass may speak of.
type CommandOutcome struct {
	Status   shared.Status
	ExitCode *int64
	Signal   string
	Stdout   []byte
	Stderr   []byte
}

// Judge evaluates the late expressions of a plan.
type Judge interface {
	// Pass evaluates verify.pass.
	Pass(e plan.Expr, outcome CommandOutcome) (bool, error)
	// Metric evaluates the value of a metric; nil means that the cell has no such number.
	Metric(e plan.Expr, r record.Result, stdout, stderr []byte) (*json.Number, error)
	// Condition evaluates the condition of a threshold.
	Condition(e plan.Expr, stat summary.Stat, vs map[string]summary.Versus) (bool, error)
}

// Leases is the machine-wide index of workspaces that may exist, beside the run's own journal, so that they are found
// even when the run's folder is gone.
type Leases interface {
	Add(l state.Lease) error
	Remove(lease string) error
}

// Config is all that a run needs.
type Config struct {
	Plan     *plan.Plan
	Folder   *record.Folder
	Adapters Adapters
	Judge    Judge
	Leases   Leases
	Secret   func(ctx context.Context, ref plan.SecretRef) (shared.Secret, error)
	Events   *event.Stream
	Owner    string // mark of this installation
	Clock    func() time.Time
	NewID    func() string // ULIDs for leases
	FailFast bool          // start no cell after one that failed or could not be measured
}

// Report is how a run ended.
type Report struct {
	Results     []record.Result // of every attempt, those of a cell in their order; cells that never started included
	Thresholds  []ThresholdResult
	Interrupted bool
	Budget      string // "wall" or "failures" where a budget stopped the run
}

// ThresholdResult is the outcome of one threshold.
type ThresholdResult struct {
	Name   string
	Met    bool
	Value  string // what the condition saw
	Wanted string // the condition
	Err    error  // why it could not be evaluated
}

// Run gives every cell of the plan its attempts. Cancelling ctx stops starting cells, ends the running ones with
// their grace, disposes of their workspaces and returns a Report that says so. An error means that the run's own
// records could not be kept; what was acknowledged before it stays on disk.
func Run(ctx context.Context, cfg Config) (Report, error) {
	e := &engine{cfg: cfg, started: cfg.Clock()}
	if cfg.Plan.Run.Parallelism < 1 {
		return Report{}, fmt.Errorf("parallelism is %d; at least 1 is needed", cfg.Plan.Run.Parallelism)
	}
	if err := e.dispatch(ctx); err != nil {
		return Report{Results: e.results}, err
	}
	report := Report{Results: e.results, Interrupted: e.interrupted(ctx), Budget: e.budget}
	report.Thresholds = e.thresholds()
	return report, nil
}

// interrupted tells whether cancelling ctx has cost a cell. One that came when all were measured has not.
func (e *engine) interrupted(ctx context.Context) bool {
	return ctx.Err() != nil && slices.ContainsFunc(e.results, func(r record.Result) bool {
		return r.Status == shared.StatusCancelled
	})
}

// engine is the state of one Run. Only the dispatching goroutine touches it after the start.
type engine struct {
	cfg     Config
	started time.Time
	results []record.Result // as in Report

	unmeasured int    // results of status error
	budget     string // that is used up
}
