package adapter

import (
	"context"
	"sync"
	"time"

	"cellharness/shared"
	"cellharness/shared/wire"
)

const (
	// Name is the name under which the adapter is registered.
	Name = "daytona"
	// HandleVersion is the version of the handles of this adapter. None was made yet.
	HandleVersion = 1
)

// Adapter implements shared.Adapter as far as the package says. The zero value is ready.
type Adapter struct {
	mu         sync.Mutex // guards configured
	configured bool
}

var _ shared.Adapter = (*Adapter)(nil)

// New returns an adapter that was not configured yet.
func New() *Adapter { return &Adapter{} }

// Main is the whole life of the adapter process; it returns the exit code.
func Main() int {
	return wire.Serve(wire.ServeConfig{Name: Name, Adapter: New(), Logger: wire.NewLogger(Name)})
}

// Negotiate says what the adapter is and can. It fits every host: there is nothing yet that a host could hand back.
func (a *Adapter) Negotiate(context.Context, shared.HostInfo) (shared.Description, error) {
	return shared.Description{
		Name: Name, Version: shared.Version, Build: shared.Build(),
		Services:      []string{shared.ServiceAdapter},
		HandleVersion: HandleVersion,
		Capabilities:  capabilities(),
		Fits:          true,
	}, nil
}

// Configure checks settings, secrets and refs, all of them before it answers, and pins the refs that are commit ids.
// Errors: CodeInvalid with one violation for each field; CodeUnauthenticated where nothing but the key is missing;
// CodePrecondition for a second call.
func (a *Adapter) Configure(_ context.Context, cfg shared.Configuration) (shared.Configured, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.configured {
		return shared.Configured{}, &shared.Error{
			Code:    shared.CodePrecondition,
			Message: "the daytona adapter is configured already; start another process for another configuration",
		}
	}
	s, err := decodeSettings(cfg.Settings)
	if err != nil {
		return shared.Configured{}, err
	}
	if err := check(s, cfg); err != nil {
		return shared.Configured{}, err
	}
	a.configured = true
	return shared.Configured{Capabilities: capabilities(), Pins: pins(s, cfg.Refs)}, nil
}

// Provision is not in this build.
func (a *Adapter) Provision(context.Context, shared.ProvisionSpec) (shared.Provisioned, error) {
	return shared.Provisioned{}, notInThisBuild("make a sandbox")
}

// RunCell is not in this build.
func (a *Adapter) RunCell(context.Context, shared.Handle, shared.Cell, shared.EventSink) (shared.Result, error) {
	return shared.Result{}, notInThisBuild("run a command in a sandbox")
}

// Collect is not in this build.
func (a *Adapter) Collect(
	context.Context, shared.Handle, shared.CollectSpec, shared.ArtifactSink,
) (shared.Collection, error) {
	return shared.Collection{}, notInThisBuild("collect from a sandbox")
}

// Teardown is not in this build.
func (a *Adapter) Teardown(context.Context, shared.Handle) (shared.TeardownReport, error) {
	return shared.TeardownReport{}, notInThisBuild("delete a sandbox")
}

// Find is not in this build.
func (a *Adapter) Find(context.Context, shared.Labels) ([]shared.Found, error) {
	return nil, notInThisBuild("list sandboxes")
}

// Drain has nothing to wait for.
func (a *Adapter) Drain(context.Context, time.Duration) (shared.DrainReport, error) {
	return shared.DrainReport{}, nil
}

func notInThisBuild(operation string) error {
	return &shared.Error{
		Code: shared.CodeNotImplemented,
		Message: operation + ": the daytona adapter of this build negotiates and checks its configuration only; " +
			"remote sandboxes are not in it yet; name an adapter that makes workspaces in the adapters of the trial",
	}
}

// capabilities are what this build can do. How a sandbox is reached is a property of Daytona; what it would limit is
// claimed only where something holds it.
func capabilities() shared.Capabilities {
	limits := map[shared.Dimension]shared.Support{}
	for _, d := range shared.Dimensions() {
		limits[d] = shared.Support{Level: shared.LevelNone, Reason: "this build runs nothing in a sandbox"}
	}
	return shared.Capabilities{
		ColdStart: shared.ColdStartSeconds,
		Streaming: true,
		Transfer:  shared.TransferUpload,
		Limits:    limits,
	}
}
