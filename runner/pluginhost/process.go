package pluginhost

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"cellharness/shared"
	"cellharness/shared/worktreepb"
)

// Bounds of calls whose caller set no deadline.
const (
	boundFind     = time.Minute
	boundTeardown = time.Minute
	drainMargin   = 10 * time.Second // beyond the time that the drain itself was given
	// boundWork is for Provision, RunCell and Collect, which only the caller knows the bound of. It is there so that
	// nothing waits for ever.
	boundWork = 24 * time.Hour
)

var _ shared.Adapter = (*Process)(nil)

// Process is one generation of an adapter instance: a negotiated and configured adapter in a process of its own. Its
// errors are *shared.Error. When the process dies under a call the error has CauseAdapterCrashed and says how it ended;
// when it does not answer before the call's deadline it is ended, and the error has CauseAdapterHung; when it breaks the
// contract it is ended too, with CauseProtocol. After any of them every call fails the same way.
type Process struct {
	in         *instance
	child      *child
	log        *stderrLog
	digest     string
	generation int
	client     *plugin.Client
	disposed   chan struct{} // closed once nothing of the process is left

	// Set before the process is handed out.
	conn        *grpc.ClientConn
	adapter     shared.Adapter
	description shared.Description
	configured  shared.Configured

	burial   sync.Once  // writes the obituary
	mu       sync.Mutex // guards what follows
	ready    bool       // its death is one of the instance, no longer of the launch
	stopping bool       // its end is meant
	obituary *obituary
}

// Generation counts the generations of the instance that became ready, from 1.
func (p *Process) Generation() int { return p.generation }

// Description is what the adapter said of itself when it was negotiated.
func (p *Process) Description() shared.Description { return p.description }

// Configured is what the adapter answered to its configuration.
func (p *Process) Configured() shared.Configured { return p.configured }

// Digest is the SHA-256 of the program, in lower case hex.
func (p *Process) Digest() string { return p.digest }

// Exited is closed once the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.child.done }

// Succeeded says that a cell was measured, so that earlier deaths of the instance are forgiven.
func (p *Process) Succeeded() { p.in.forgive() }

// Worktree returns the service for worktree sessions. The error, of CodeUnsupported, says that the adapter has none.
func (p *Process) Worktree() (worktreepb.WorktreeClient, error) {
	if !p.description.Serves(shared.ServiceWorktree) {
		return nil, &shared.Error{
			Code:    shared.CodeUnsupported,
			Message: fmt.Sprintf("adapter %s has no worktree sessions; name an adapter whose workspaces are on this machine", p.in.title),
		}
	}
	return worktreepb.NewWorktreeClient(p.conn), nil
}

// Negotiate has a bound of 10 s.
func (p *Process) Negotiate(ctx context.Context, host shared.HostInfo) (shared.Description, error) {
	return call(ctx, p, "Negotiate", p.in.host.timing.negotiate, func(ctx context.Context) (shared.Description, error) {
		return p.adapter.Negotiate(ctx, host)
	})
}

// Configure was called when the process was launched; a second call is refused by the adapter.
func (p *Process) Configure(ctx context.Context, cfg shared.Configuration) (shared.Configured, error) {
	return call(ctx, p, "Configure", p.in.host.timing.configure, func(ctx context.Context) (shared.Configured, error) {
		return p.adapter.Configure(ctx, cfg)
	})
}

// Provision passes the call on. The caller sets its bound.
func (p *Process) Provision(ctx context.Context, spec shared.ProvisionSpec) (shared.Provisioned, error) {
	return call(ctx, p, "Provision", boundWork, func(ctx context.Context) (shared.Provisioned, error) {
		return p.adapter.Provision(ctx, spec)
	})
}

// RunCell passes the call on. The caller sets its bound, beyond the timeout and the grace of the cell.
func (p *Process) RunCell(ctx context.Context, h shared.Handle, cell shared.Cell, sink shared.EventSink) (shared.Result, error) {
	return call(ctx, p, "RunCell", boundWork, func(ctx context.Context) (shared.Result, error) {
		return p.adapter.RunCell(ctx, h, cell, sink)
	})
}

// Collect passes the call on. The caller sets its bound.
func (p *Process) Collect(ctx context.Context, h shared.Handle, spec shared.CollectSpec, sink shared.ArtifactSink) (shared.Collection, error) {
	return call(ctx, p, "Collect", boundWork, func(ctx context.Context) (shared.Collection, error) {
		return p.adapter.Collect(ctx, h, spec, sink)
	})
}

// Teardown has a bound of 60 s unless the caller sets one.
func (p *Process) Teardown(ctx context.Context, h shared.Handle) (shared.TeardownReport, error) {
	return call(ctx, p, "Teardown", boundTeardown, func(ctx context.Context) (shared.TeardownReport, error) {
		return p.adapter.Teardown(ctx, h)
	})
}

// Find has a bound of 60 s unless the caller sets one.
func (p *Process) Find(ctx context.Context, labels shared.Labels) ([]shared.Found, error) {
	return call(ctx, p, "Find", boundFind, func(ctx context.Context) ([]shared.Found, error) {
		return p.adapter.Find(ctx, labels)
	})
}

// Drain has a bound of 10 s beyond within unless the caller sets one.
func (p *Process) Drain(ctx context.Context, within time.Duration) (shared.DrainReport, error) {
	return call(ctx, p, "Drain", within+drainMargin, func(ctx context.Context) (shared.DrainReport, error) {
		return p.adapter.Drain(ctx, within)
	})
}
