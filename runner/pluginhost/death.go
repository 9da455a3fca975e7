package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/health/grpc_health_v1"

	"cellharness/shared"
	"cellharness/shared/wire"
)

// obituary says why a generation is gone. It is written once, by whoever saw it first.
type obituary struct {
	cause shared.Cause
	what  string // sentence part that follows the adapter's name, such as "stopped (exit status 3)"
	tail  string // what else there is to say: last lines, log
}

// error is what a call gets that the death ended, or that came after it.
func (o *obituary) error(title, rpc string) *shared.Error {
	code := shared.CodeUnavailable
	if o.cause == "" {
		code = shared.CodeCancelled
	}
	return &shared.Error{Code: code, Cause: o.cause, Message: fmt.Sprintf("adapter %s %s during %s%s", title, o.what, rpc, o.tail)}
}

// call makes one call with a bound, and finds out what its failure means.
func call[T any](ctx context.Context, p *Process, rpc string, bound time.Duration, f func(context.Context) (T, error)) (T, error) {
	var none T
	if o := p.gone(); o != nil {
		return none, o.error(p.in.title, rpc)
	}
	if _, ok := ctx.Deadline(); !ok {
		bounded, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		ctx = bounded
	}
	began := time.Now()
	v, err := f(ctx)
	if err == nil {
		return v, nil
	}
	if failure := p.judge(ctx, rpc, time.Since(began), err); failure != nil {
		return none, failure
	}
	return v, err // what a failed call brought, such as a part of a collection, belongs to the caller
}

// judge tells what the failure of a call says about the process: nothing (nil), or its end.
func (p *Process) judge(ctx context.Context, rpc string, took time.Duration, err error) error {
	broken := errors.Is(err, &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseProtocol})
	spoken := wire.Spoken(err)
	switch {
	case spoken && broken:
		p.broke(err)
		return nil // which says what was broken
	case spoken, errors.Is(err, shared.ErrNotImplemented):
		return nil
	case errors.Is(err, shared.ErrCancelled) && errors.Is(ctx.Err(), context.Canceled):
		return nil
	case errors.Is(err, shared.ErrTimeout):
		return p.hung(fmt.Sprintf("did not answer within %s and was ended", took.Round(time.Millisecond))).error(p.in.title, rpc)
	}
	exit := time.NewTimer(p.in.host.timing.exit)
	defer exit.Stop()
	select {
	case <-p.child.done:
		return p.crashed().error(p.in.title, rpc)
	case <-exit.C:
	}
	if broken {
		p.broke(err)
		return nil
	}
	return p.hung("broke its connection without ending, and was ended").error(p.in.title, rpc)
}

// broke ends a process that broke the contract.
func (p *Process) broke(err error) {
	p.giveUp(&obituary{cause: shared.CauseProtocol, what: "broke the contract and was ended (" + cutLine(err.Error(), 4*maxQuoted) + ")"})
}

// hung ends a process that does not answer. One that is dead already did not hang.
func (p *Process) hung(what string) *obituary {
	select {
	case <-p.child.done:
		return p.crashed()
	default:
		return p.giveUp(&obituary{cause: shared.CauseAdapterHung, what: what})
	}
}

// crashed writes the obituary of a process that has ended.
func (p *Process) crashed() *obituary {
	how, _ := p.child.ending()
	return p.bury(&obituary{cause: shared.CauseAdapterCrashed, what: "stopped (" + how + ")"}, how)
}

// giveUp ends a process that is no longer trusted.
func (p *Process) giveUp(o *obituary) *obituary {
	o = p.bury(o, o.what)
	if err := p.child.kill(); err != nil {
		p.in.host.note(fmt.Errorf("end adapter %s: %w", p.in.title, err))
	}
	return o
}

// bury makes o the obituary unless there is one, and returns the one that holds. The death of a process that was ready and
// was not meant to end is counted and told on, before anybody who saw it goes on.
func (p *Process) bury(o *obituary, exit string) *obituary {
	p.burial.Do(func() {
		o.tail = p.lastWords() + p.in.logHint()
		p.mu.Lock()
		if p.stopping && o.cause == shared.CauseAdapterCrashed {
			o = &obituary{what: "was stopped"}
		}
		p.obituary = o
		told := p.ready && !p.stopping
		p.mu.Unlock()
		if !told {
			return
		}
		p.in.died(p.in.host.now(), o.error(p.in.title, "its work"))
		if p.in.host.cfg.OnCrash != nil {
			p.in.host.cfg.OnCrash(Crash{
				Instance: p.in.spec.Name, Generation: p.generation, Exit: exit, LastLines: p.log.lastLines(),
			})
		}
	})
	return p.gone()
}

func (p *Process) gone() *obituary {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.obituary
}

// alive tells whether calls may still succeed.
func (p *Process) alive() bool {
	select {
	case <-p.child.done:
		return false
	default:
		return p.gone() == nil
	}
}

// markStopping says that an end from now on is meant.
func (p *Process) markStopping() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

// lastWords shows the end of the adapter's stderr in one line, empty where it wrote nothing.
func (p *Process) lastWords() string {
	if said := p.log.reason(); said != "" {
		return "; its last lines: " + said
	}
	return ""
}

// supervise declares the process ready, watches the process until it is gone, and cleans up after it.
func (p *Process) supervise() {
	p.mu.Lock()
	p.ready = true
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	go p.watchHealth(ctx)
	go func() {
		defer close(p.disposed)
		<-p.child.done
		cancel()
		p.crashed()
		p.dispose()
	}()
}

// watchHealth asks in regular intervals whether the adapter still answers. A miss is not a death: only several of them
// in a row, while the process is there, mean that it hangs.
func (p *Process) watchHealth(ctx context.Context) {
	t := p.in.host.timing
	client := grpc_health_v1.NewHealthClient(p.conn)
	period := time.NewTicker(t.healthPeriod)
	defer period.Stop()
	for misses := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-period.C:
		}
		bounded, cancel := context.WithTimeout(ctx, t.healthWait)
		_, err := client.Check(bounded, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
		cancel()
		if err == nil {
			misses = 0
			continue
		}
		if misses++; misses >= t.healthMisses && ctx.Err() == nil {
			p.hung(fmt.Sprintf("did not answer %d questions for its health in a row and was ended", misses))
			return
		}
	}
}
