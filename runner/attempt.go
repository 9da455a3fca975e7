package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/redact"
	"cellharness/shared"
)

// Bounds of the phases that have no limit in the definition. They are there so that nothing waits for ever; an
// adapter has tighter bounds of its own.
const (
	// provisionBound leaves room for cutting a mirror of a large repository, or for a remote queue.
	provisionBound = 30 * time.Minute
	// collectBound leaves room for a patch of gigabytes.
	collectBound = 30 * time.Minute
	// teardownBound covers the removal of some hundred thousand files, or a slow remote delete, in one try.
	teardownBound = 2 * time.Minute
	// commandSlack is what a command's phase may take beyond its own timeout and grace: seeds, start, sweep.
	commandSlack = 75 * time.Second
)

// grace is the time between SIGTERM and SIGKILL for a command that has to end. Ten seconds is what service managers
// and container engines give by default; agents write their session files in it.
const grace = 10 * time.Second

// attempt is one try of a cell.
type attempt struct {
	*engine
	cell   *plan.Cell
	number int
	slot   int

	dir        *record.Attempt
	result     record.Result
	adapter    Adapter // that made the workspace of the measured command
	workspaces []*workspace
	secrets    []shared.Secret // in the environment of its commands
	masker     *redact.Masker  // of the secrets, for whatever is stored
	lost       error           // the records could not be kept
	wait       time.Duration   // before the next attempt
}

// workspace is what an attempt has asked an adapter for.
type workspace struct {
	lease      string
	labels     shared.Labels
	generation int            // of the adapter process that was asked for it, the only one that runs commands in it
	handle     *shared.Handle // nil until Provision has answered
}

// run measures the cell once and records the outcome. What it used is disposed of by end, which always follows. The
// error means that the records could not be kept.
func (a *attempt) run(ctx context.Context) error {
	a.result = a.blank(a.cell, a.number)
	dir, err := a.cfg.Folder.Attempt(a.cell.Key, a.number)
	if err != nil {
		return err
	}
	a.dir = dir
	if err := a.begin(); err != nil {
		return err
	}
	a.settle(ctx, guard(func() error { return a.measure(ctx) }))
	a.metrics()
	if a.lost == nil {
		a.lose(a.cfg.Folder.Measured(a.result))
	}
	return a.lost
}

// end disposes of what the attempt used and records its end.
func (a *attempt) end(ctx context.Context) error {
	a.dispose(ctx)
	if a.lost != nil {
		return a.lost
	}
	return a.cfg.Folder.End(a.result)
}

// begin records that the attempt exists, before anything is asked of an adapter.
func (a *attempt) begin() error {
	err := a.cfg.Folder.AttemptStarted(record.AttemptStarted{
		Cell: a.cell.Address, Key: a.cell.Key, Attempt: a.number, Adapter: a.cell.Adapter,
	})
	if err != nil {
		return err
	}
	a.cfg.Events.Emit(&event.CellStarted{
		Cell: a.cell.Address, Key: a.cell.Key, Attempt: a.number, Slot: a.slot, Adapter: a.cell.Adapter,
	})
	return nil
}

// blank is the record of an attempt of which nothing is known yet.
func (e *engine) blank(cell *plan.Cell, number int) record.Result {
	r := record.Result{
		Schema: record.Schema, Run: e.cfg.Folder.ID(), Cell: cell.Address, Key: cell.Key, Trial: cell.Trial,
		Task: cell.Task, Variant: cell.Variant, Axes: map[string]string{}, Repeat: cell.Repeat, Warmup: cell.Warmup,
		Labels: cell.Labels, Adapter: cell.Adapter, Attempt: number, BaseSHA: cell.Base,
		Phases: map[string]record.Phase{}, Metrics: map[string]*json.Number{}, Artifacts: []record.Artifact{},
		Integrity: []plan.Notice{}, Cleanup: record.CleanupClean,
	}
	for _, axis := range cell.Axes {
		r.Axes[axis.Name] = axis.Value
	}
	for _, ad := range e.cfg.Plan.Adapters {
		if ad.Instance == cell.Adapter {
			r.AdapterVersion, r.Profile = ad.Version, ad.Profile
			r.Environment = environment(ad, cell)
		}
	}
	return r
}

// environment lists the variables that the cell's command gets, by name.
func environment(ad plan.Adapter, cell *plan.Cell) record.Environment {
	names := slices.Clone(ad.Environment)
	for name := range cell.Cell.Env {
		names = append(names, name)
	}
	for _, s := range cell.Cell.SecretEnv {
		names = append(names, s.Name)
	}
	sort.Strings(names)
	return record.Environment{Variables: slices.Compact(names)}
}

// measure takes the cell through its phases. What is known when a phase fails stays in the result.
func (a *attempt) measure(ctx context.Context) error {
	ws, err := a.provision(ctx, nil)
	if err != nil {
		return err
	}
	if a.cell.Setup != nil {
		if err := a.setup(ctx, ws); err != nil {
			return err
		}
	}
	if err := a.command(ctx, ws); err != nil {
		return err
	}
	if err := a.collect(ctx, ws); err != nil {
		return err
	}
	return a.judge(ctx, ws)
}

// phase runs fn under its bound, timed and told. Once ctx is cancelled no further one is begun.
func (a *attempt) phase(ctx context.Context, name shared.Phase, bound time.Duration, fn func(context.Context) error) error {
	if ctx.Err() != nil {
		return &phaseError{name, ctx.Err()}
	}
	a.cfg.Events.Emit(&event.CellPhase{Cell: a.cell.Address, Attempt: a.number, Phase: name})
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	start := a.cfg.Clock()
	err := guard(func() error { return fn(ctx) })
	a.result.Phases[string(name)] = record.Phase{Start: start.UTC(), Seconds: a.cfg.Clock().Sub(start).Seconds()}
	if err == nil {
		return nil
	}
	if causeIn(err) == "" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = &shared.Error{
			Code: shared.CodeTimeout, Cause: shared.CauseAdapterHung, Err: err,
			Message: fmt.Sprintf("the adapter did not answer within %s", bound),
		}
	}
	return &phaseError{name, err}
}

// settle turns what ended the attempt into status, cause and message, and decides whether another one follows.
func (a *attempt) settle(ctx context.Context, err error) {
	a.result.Last = true
	switch {
	case err == nil:
		// Earlier deaths of the instance are forgiven.
		a.adapter.Succeeded()
		return
	case ctx.Err() != nil:
		a.result.Status, a.result.Passed = shared.StatusCancelled, nil
		a.result.Message = "the run was interrupted while it ran"
		return
	}
	a.result.Status, a.result.Passed = shared.StatusError, nil
	a.result.Cause = causeOf(err)
	a.result.Message = a.text(err.Error())
	a.keepStack(err)
	a.cfg.Events.Emit(&event.CellError{
		Cell: a.cell.Address, Attempt: a.number, Phase: phaseOf(err), Cause: a.result.Cause, Message: a.result.Message,
	})
	if retryable(err) && a.number < a.cell.Attempts {
		a.result.Last = false
		a.wait = backoff(a.cell.Backoff, a.number, err)
	}
}

// keepStack stores where a panic came from beside the attempt's outputs. It is for whoever mends the harness, and no
// part of the result.
func (a *attempt) keepStack(err error) {
	var p *panicError
	if !errors.As(err, &p) {
		return
	}
	f, err := a.dir.Create(stackFile)
	if err == nil {
		_, err = f.WriteString(a.text(string(p.stack)))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		a.notice(shared.Notice{Kind: "panic", Detail: fmt.Sprintf("the stack could not be stored: %v", err)})
	}
}

// metrics computes the numbers of an attempt that is counted.
func (a *attempt) metrics() {
	if !a.result.Status.Counts() {
		return
	}
	for _, m := range a.cfg.Plan.Metrics {
		value, err := a.metric(m)
		if err != nil {
			a.notice(shared.Notice{Kind: "metric", Detail: fmt.Sprintf("metric %s: %v", m.Name, err)})
		}
		a.result.Metrics[m.Name] = value
	}
}

func (a *attempt) metric(m plan.Metric) (value *json.Number, err error) {
	stdout, err := a.output(m.Value, "stdout", "stdout.log")
	if err != nil {
		return nil, err
	}
	stderr, err := a.output(m.Value, "stderr", "stderr.log")
	if err != nil {
		return nil, err
	}
	err = guard(func() (err error) {
		value, err = a.cfg.Judge.Metric(m.Value, a.result, stdout, stderr)
		return err
	})
	if err != nil || value == nil {
		return nil, err
	}
	if _, err := json.Marshal(*value); err != nil {
		return nil, fmt.Errorf("%s is no number that can be recorded: %s", m.Value.Source, *value)
	}
	return value, nil
}

// notice adds what an adapter or the harness noticed to the integrity of the result.
func (a *attempt) notice(notices ...shared.Notice) {
	for _, n := range plan.Notices(notices) {
		n.Detail = a.text(n.Detail)
		a.result.Integrity = append(a.result.Integrity, n)
	}
}

// text makes text of an adapter or a command fit for the record: valid, and without the secrets of the commands.
func (a *attempt) text(s string) string { return record.Printable(a.masker.Mask(s)) }

// lose remembers that a record could not be kept; the attempt still disposes of what it holds.
func (a *attempt) lose(err error) {
	if err != nil && a.lost == nil {
		a.lost = err
	}
}

// acquire returns the adapter of the cell. Once there is a workspace it can only be missing because it has died.
func (a *attempt) acquire(ctx context.Context) (Adapter, error) {
	adapter, err := a.cfg.Adapters.Acquire(ctx, a.cell.Adapter)
	if err != nil && causeIn(err) == "" && len(a.workspaces) > 0 {
		err = &shared.Error{Code: shared.CodeUnavailable, Cause: shared.CauseAdapterCrashed, Err: err, Message: err.Error()}
	}
	return adapter, err
}
