package adaptertest

import (
	"context"

	"cellharness/shared"
)

// call is a call of one method, as faults see it.
type call struct {
	at    []string // the moments
	who   caller
	lease string
}

func (f *Fake) callFor(h shared.Handle, at ...string) call {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := call{at: at, lease: h.Lease}
	if known := f.workspaces[h.Lease]; known != nil {
		c.who = known.who
		return c
	}
	if f.config == nil || !isLease(h.Lease) {
		return c
	}
	// A workspace of an earlier process, or none at all: the call itself says so where it matters.
	if w, err := openWorkspace(f.config.settings.root, h.Lease); err == nil {
		c.who = caller{key: w.Labels.Cell, attempt: w.Labels.Attempt}
	}
	return c
}

// act does the work of one call between the faults before it and the faults after it.
func act[T any](ctx context.Context, f *Fake, c call, work func(bent) (T, error)) (T, error) {
	var none T
	b, err := f.meet(ctx, c, "")
	if err != nil {
		return none, err
	}
	answer, err := work(b)
	if err != nil {
		return none, err
	}
	if _, err := f.meet(ctx, c, ".end"); err != nil {
		return none, err
	}
	return answer, nil
}

// meet lets the faults of this moment happen.
func (f *Fake) meet(ctx context.Context, c call, suffix string) (bent, error) {
	f.mu.Lock()
	plans := []*faultPlan{f.own}
	if f.config != nil {
		plans = append(plans, f.config.faults)
	}
	if known := f.workspaces[c.lease]; known != nil {
		plans = append(plans, known.faults)
	}
	f.mu.Unlock()
	var due []Fault
	for _, p := range plans {
		for _, at := range c.at {
			due = append(due, p.due(at+suffix, c.who)...)
		}
	}
	return strike(ctx, due)
}

func precondition(message string) error {
	return &shared.Error{Code: shared.CodePrecondition, Message: message}
}

func invalid(cause shared.Cause, message string) error {
	return &shared.Error{Code: shared.CodeInvalid, Cause: cause, Message: message}
}
