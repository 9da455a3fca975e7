package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cellharness/shared"
)

// stop walks down the ladder: drain, a polite end, SIGKILL. Each step has its bound, and a process that is gone
// already skips the rest.
func (in *instance) stop(ctx context.Context) error {
	p := in.markStopping()
	if p == nil {
		return nil
	}
	if !p.alive() {
		p.wait(ctx, in.host.timing.end) // whether it is gone is looked at when the host ends
		return nil
	}
	err := p.drain(ctx)
	polite := make(chan struct{})
	go func() { p.client.Kill(); close(polite) }()
	if p.wait(ctx, p.in.host.timing.end) {
		return err
	}
	err = errors.Join(err, p.child.kill())
	if !p.wait(context.WithoutCancel(ctx), p.in.host.timing.end) {
		return errors.Join(err, fmt.Errorf("process %d of adapter %s does not end", p.child.pid(), in.title))
	}
	return err
}

// drain asks the adapter to end its work and to say what it leaves. An adapter that dies or hangs meanwhile needs no
// further words: the leases of what it held are open.
func (p *Process) drain(ctx context.Context) error {
	bound := p.in.host.timing.drain
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	report, err := p.Drain(ctx, bound*4/5) // the rest is for the answer
	if errors.Is(err, shared.ErrCancelled) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("drain adapter %s: %w", p.in.title, err)
	}
	if report.Leaked > 0 {
		return &shared.Error{Code: shared.CodeInternal, Message: fmt.Sprintf(
			"adapter %s may have left %d workspaces; the open leases in the journal of the run name them", p.in.title, report.Leaked)}
	}
	return nil
}

// wait tells whether the process was gone and disposed of within the bound, or before ctx ended.
func (p *Process) wait(ctx context.Context, bound time.Duration) bool {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-p.disposed:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
