package runner_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"cellharness/runner"
	"cellharness/shared"
	"cellharness/shared/adaptertest"
)

// adapters hands out fake adapters and starts the next generation of one that has died.
type adapters struct {
	instances map[string]*instance
}

func newAdapters(t *testing.T, names ...string) *adapters {
	a := &adapters{instances: map[string]*instance{}}
	for _, name := range names {
		a.instances[name] = &instance{name: name, root: t.TempDir()}
	}
	return a
}

func (a *adapters) Acquire(ctx context.Context, name string) (runner.Adapter, error) {
	return a.instances[name].acquire(ctx)
}

// instance is an adapter instance whose processes are fakes over one root.
type instance struct {
	name   string
	root   string
	faults []string
	most   int // generations that can be started; 0: any number, negative: none
	// hook is asked before and after the work of every call. errDie ends the generation; another error is the answer.
	hook func(call) error
	// answered is called where an answer goes back; a process that dies there has given it.
	answered func(call)
	// bend changes what Provision answers.
	bend func(*shared.Provisioned)

	mu      sync.Mutex
	live    *generation
	started int
}

// call is a call of an adapter as a hook sees it.
type call struct {
	ctx        context.Context
	at         string // such as "provision", "setup", "cell", "verify", "collect", "teardown" or "find"
	after      bool
	generation *generation
	lease      string
	key        string // of the cell; known to provision and find
	cell       shared.Cell
	sink       shared.EventSink
}

var errDie = errors.New("die")

func (in *instance) acquire(ctx context.Context) (runner.Adapter, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.live != nil && in.live.ctx.Err() == nil {
		return in.live, nil
	}
	if in.most != 0 && in.started >= in.most {
		return nil, errors.New("it cannot be started")
	}
	fake := adaptertest.NewFake(adaptertest.FakeName)
	settings := adaptertest.FakeSettings(in.root, in.faults...)
	if _, err := fake.Configure(ctx, shared.Configuration{Instance: in.name, Owner: "owner", Settings: settings}); err != nil {
		return nil, err
	}
	in.started++
	g := &generation{Fake: fake, in: in, number: in.started}
	g.ctx, g.die = context.WithCancel(context.Background())
	in.live = g
	return g, nil
}

func (in *instance) workspaces(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(in.root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// generation is one process of an instance, as far as an engine can tell.
type generation struct {
	*adaptertest.Fake
	in     *instance
	number int
	ctx    context.Context // ends with the process
	die    context.CancelFunc

	mu        sync.Mutex
	succeeded int
}

func (g *generation) Generation() int { return g.number }

func (g *generation) Description() shared.Description {
	return shared.Description{Name: adaptertest.FakeName, HandleVersion: 1}
}

func (g *generation) Succeeded() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.succeeded++
}

func errCrashed() error {
	return &shared.Error{Code: shared.CodeUnavailable, Cause: shared.CauseAdapterCrashed, Message: "the adapter stopped"}
}

// through makes one call of a process that may die under it.
func through[T any](g *generation, c call, work func(context.Context) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	c.generation = g
	if err := g.meet(c); err != nil {
		return none, err
	}
	answer, err := work(ctx)
	if g.ctx.Err() != nil {
		return none, errCrashed()
	}
	if err != nil {
		return answer, err
	}
	c.after = true
	if err := g.meet(c); err != nil {
		return none, err
	}
	if g.in.answered != nil {
		g.in.answered(c)
	}
	return answer, nil
}

func (g *generation) meet(c call) error {
	var err error
	if g.in.hook != nil {
		err = g.in.hook(c)
	}
	if errors.Is(err, errDie) {
		g.die()
	}
	if g.ctx.Err() != nil {
		return errCrashed()
	}
	return err
}

func (g *generation) Provision(ctx context.Context, spec shared.ProvisionSpec) (shared.Provisioned, error) {
	c := call{ctx: ctx, at: "provision", lease: spec.Lease, key: spec.Labels.Cell}
	return through(g, c, func(ctx context.Context) (shared.Provisioned, error) {
		made, err := g.Fake.Provision(ctx, spec)
		if g.in.bend != nil {
			g.in.bend(&made)
		}
		return made, err
	})
}

func (g *generation) RunCell(ctx context.Context, h shared.Handle, cell shared.Cell, sink shared.EventSink) (shared.Result, error) {
	c := call{ctx: ctx, at: string(cell.Phase), lease: h.Lease, cell: cell, sink: sink}
	return through(g, c, func(ctx context.Context) (shared.Result, error) { return g.Fake.RunCell(ctx, h, cell, sink) })
}

func (g *generation) Collect(ctx context.Context, h shared.Handle, spec shared.CollectSpec, sink shared.ArtifactSink) (shared.Collection, error) {
	c := call{ctx: ctx, at: "collect", lease: h.Lease}
	return through(g, c, func(ctx context.Context) (shared.Collection, error) { return g.Fake.Collect(ctx, h, spec, sink) })
}

func (g *generation) Teardown(ctx context.Context, h shared.Handle) (shared.TeardownReport, error) {
	c := call{ctx: ctx, at: "teardown", lease: h.Lease}
	return through(g, c, func(ctx context.Context) (shared.TeardownReport, error) { return g.Fake.Teardown(ctx, h) })
}

func (g *generation) Find(ctx context.Context, labels shared.Labels) ([]shared.Found, error) {
	c := call{ctx: ctx, at: "find", key: labels.Cell}
	return through(g, c, func(ctx context.Context) ([]shared.Found, error) { return g.Fake.Find(ctx, labels) })
}

// dieOnceAnswered lets a process die once the answer of a call is with the engine.
func (in *instance) dieOnceAnswered(at string) {
	var once sync.Once
	in.answered = func(c call) {
		if c.at == at {
			once.Do(c.generation.die)
		}
	}
}
