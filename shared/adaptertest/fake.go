package adaptertest

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"cellharness/shared"
)

// fakeHandleVersion is the version of the fake's handles. Their State is empty.
const fakeHandleVersion = 1

// Fake is a whole adapter for tests. Workspaces are directories below its root, commands are real processes in a
// process group of their own, and whatever later processes need is in files beside the workspace.
//
// The commit of a ref is a digest of its name, and a workspace at a commit holds one file, base.txt, with the commit
// in it. Patches are in a form that git apply reads.
//
// A command of words that begin with "fake:", each with one argument, is interpreted in turn without a process, so that
// a test can run thousands of cells:
//
//	fake:out TEXT    fake:err TEXT      write TEXT as it stands
//	fake:exit N      fake:signal NAME   end; without one of them the command exits with 0
//	fake:sleep D                        wait
//	fake:write PATH=TEXT                write a file of the workspace
//	fake:cat PATH                       write the file to stdout; exit with 1 where there is none
//	fake:env NAME                       write the variable to stdout
//
// Such as fake:out "hello\n" fake:sleep 10ms fake:exit 3.
type Fake struct {
	// Capabilities are what the fake claims. They may be changed until Negotiate, and the settings change them again.
	Capabilities shared.Capabilities

	name string
	own  *faultPlan // faults that hold from the start of the process

	// mu guards what follows.
	mu         sync.Mutex
	config     *fakeConfig // nil before Configure
	draining   bool
	workspaces map[string]*held // by lease: those made by this process and not yet removed
	running    map[string]*running
}

var _ shared.Adapter = (*Fake)(nil)

// fakeConfig is a configuration that was accepted.
type fakeConfig struct {
	shared.Configuration
	settings fakeSettings
	faults   *faultPlan
}

// held is what this process remembers of a workspace.
type held struct {
	who    caller
	faults *faultPlan // of FaultEnv
}

// running is a command that runs.
type running struct {
	end  context.CancelCauseFunc
	done chan struct{}
}

// Why a command was ended.
var (
	errTornDown = &shared.Error{Code: shared.CodeCancelled, Message: "the workspace was torn down while the command ran"}
	errDrained  = &shared.Error{Code: shared.CodeCancelled, Message: "the adapter was drained"}
	errHostGone = &shared.Error{Code: shared.CodeCancelled, Message: "the host is gone"}
)

// NewFake returns a fake adapter of the given registered name with the capabilities of FakeCapabilities.
func NewFake(name string, faults ...Fault) *Fake {
	return &Fake{
		Capabilities: FakeCapabilities(),
		name:         name,
		own:          newFaultPlan(faults),
		workspaces:   map[string]*held{},
		running:      map[string]*running{},
	}
}

// FakeCapabilities returns what the fake adapter really can.
func FakeCapabilities() shared.Capabilities {
	const escapes = "a process that starts a session of its own escapes"
	none := shared.Support{Level: shared.LevelNone, Reason: "the fake adapter does not limit it"}
	return shared.Capabilities{
		Provisions:       true,
		ColdStart:        shared.ColdStartSub100ms,
		Streaming:        true,
		Transfer:         shared.TransferMount,
		HostsPromptCells: true,
		StartsFromPatch:  true,
		Limits: map[shared.Dimension]shared.Support{
			shared.DimensionWallTime:       {Level: shared.LevelBestEffort, Mechanism: "process group", Reason: escapes},
			shared.DimensionProcessCleanup: {Level: shared.LevelBestEffort, Mechanism: "process group", Reason: escapes},
			shared.DimensionOutput:         {Level: shared.LevelEnforced, Mechanism: "count of bytes read"},
			shared.DimensionMemory:         none,
			shared.DimensionCPU:            none,
			shared.DimensionProcesses:      none,
			shared.DimensionDisk:           none,
			shared.DimensionFileSize:       none,
			shared.DimensionNetwork:        none,
			shared.DimensionFilesystem:     none,
		},
	}
}

// Negotiate says what the fake is.
func (f *Fake) Negotiate(ctx context.Context, _ shared.HostInfo) (shared.Description, error) {
	return act(ctx, f, call{at: []string{"negotiate"}}, func(b bent) (shared.Description, error) {
		d := shared.Description{
			Name:          f.name,
			Version:       shared.Version,
			Build:         shared.Build(),
			Services:      []string{shared.ServiceAdapter},
			HandleVersion: fakeHandleVersion,
			Capabilities:  f.capabilities(),
			Fits:          !b["unfit"],
		}
		if b["unfit"] {
			d.Reason = "it was told not to fit"
		}
		if b["name"] {
			d.Name = "another_" + f.name
		}
		return d, nil
	})
}

// capabilities returns a copy that the caller may keep.
func (f *Fake) capabilities() shared.Capabilities {
	c := f.Capabilities
	c.Limits = maps.Clone(c.Limits)
	return c
}

// Configure accepts the settings of FakeKind. Every ref is known, except those that begin with "no-such".
func (f *Fake) Configure(ctx context.Context, cfg shared.Configuration) (shared.Configured, error) {
	return act(ctx, f, call{at: []string{"configure"}}, func(bent) (shared.Configured, error) {
		settings, violations := parseSettings(cfg)
		if len(violations) > 0 {
			return shared.Configured{}, &shared.Error{
				Code: shared.CodeInvalid, Message: "the settings cannot be accepted", Violations: violations,
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.config != nil {
			return shared.Configured{}, precondition("it is configured already; start a fresh adapter for another configuration")
		}
		f.config = &fakeConfig{Configuration: cfg, settings: settings, faults: newFaultPlan(settings.faults)}
		settings.change(&f.Capabilities)
		pins := []shared.Pin{{Commit: commitOf(settings.base)}}
		for _, ref := range cfg.Refs {
			pins = append(pins, shared.Pin{Ref: ref, Commit: commitOf(ref)})
		}
		return shared.Configured{Capabilities: f.capabilities(), Pins: pins}, nil
	})
}

// Provision makes a directory.
func (f *Fake) Provision(ctx context.Context, spec shared.ProvisionSpec) (shared.Provisioned, error) {
	who := caller{key: spec.Labels.Cell, attempt: spec.Labels.Attempt}
	return act(ctx, f, call{at: []string{"provision"}, who: who}, func(bent) (shared.Provisioned, error) {
		cfg, err := f.configured()
		if err != nil {
			return shared.Provisioned{}, err
		}
		if f.isDraining() {
			return shared.Provisioned{}, precondition("it is draining and takes no new work")
		}
		if spec.Patch != nil && !f.Capabilities.StartsFromPatch {
			return shared.Provisioned{}, &shared.Error{
				Code: shared.CodeUnsupported, Message: "it cannot start a workspace from a patch",
			}
		}
		w, err := makeWorkspace(cfg, spec)
		if err != nil {
			return shared.Provisioned{}, err
		}
		f.mu.Lock()
		f.workspaces[spec.Lease] = &held{who: who}
		f.mu.Unlock()
		return shared.Provisioned{Handle: f.handle(cfg, w), BaseSHA: w.Base}, nil
	})
}

func (f *Fake) handle(cfg *fakeConfig, w *workspace) shared.Handle {
	return shared.Handle{
		Adapter:  f.name,
		Instance: cfg.Instance,
		Version:  fakeHandleVersion,
		Lease:    w.Lease,
		Resource: w.dir,
		Root:     w.tree(),
		Base:     w.Base,
	}
}

// Find reads the labels that lie beside each workspace.
func (f *Fake) Find(ctx context.Context, labels shared.Labels) ([]shared.Found, error) {
	return act(ctx, f, call{at: []string{"find"}}, func(bent) ([]shared.Found, error) {
		cfg, err := f.configured()
		if err != nil {
			return nil, err
		}
		all, err := listWorkspaces(cfg.settings.root)
		if err != nil {
			return nil, err
		}
		var found []shared.Found
		for _, w := range all {
			if w.Labels.Match(labels) {
				found = append(found, shared.Found{Handle: f.handle(cfg, w), Labels: w.Labels, Created: w.Created})
			}
		}
		return found, nil
	})
}

// Teardown ends the command of the workspace and removes the directory.
func (f *Fake) Teardown(ctx context.Context, h shared.Handle) (shared.TeardownReport, error) {
	return act(ctx, f, f.callFor(h, "teardown"), func(b bent) (shared.TeardownReport, error) {
		cfg, err := f.check(h)
		if err != nil {
			return shared.TeardownReport{}, err
		}
		if err := f.endRunning(ctx, h.Lease); err != nil {
			return shared.TeardownReport{}, err
		}
		w := &workspace{dir: filepath.Join(cfg.settings.root, h.Lease)}
		report := shared.ResourceReport{Kind: "workspace", Name: w.dir}
		switch {
		case b["leak"]:
			report.State, report.Detail = shared.ResourceLeaked, "it was told to leave it"
		case b["removed"]:
			report.State = shared.ResourceRemoved
		default:
			report.State, report.Detail = w.remove()
		}
		if report.State != shared.ResourceLeaked {
			f.mu.Lock()
			delete(f.workspaces, h.Lease)
			f.mu.Unlock()
		}
		return shared.TeardownReport{Resources: []shared.ResourceReport{report}}, nil
	})
}

// endRunning ends the command of a lease, if one runs here, and waits until it is gone.
func (f *Fake) endRunning(ctx context.Context, lease string) error {
	f.mu.Lock()
	r := f.running[lease]
	f.mu.Unlock()
	if r == nil {
		return nil
	}
	r.end(errTornDown)
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fromContext(ctx.Err())
	}
}

// Drain refuses new work, waits for what runs, and ends what is left.
func (f *Fake) Drain(ctx context.Context, within time.Duration) (shared.DrainReport, error) {
	return act(ctx, f, call{at: []string{"drain"}}, func(bent) (shared.DrainReport, error) {
		return f.drain(ctx, within, errDrained)
	})
}

// drain ends what still runs after within for the given reason.
func (f *Fake) drain(ctx context.Context, within time.Duration, reason error) (shared.DrainReport, error) {
	f.mu.Lock()
	f.draining = true
	waiting := slices.Collect(maps.Values(f.running))
	f.mu.Unlock()

	patience, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var report shared.DrainReport
	for _, r := range waiting {
		select {
		case <-r.done:
			continue
		case <-patience.Done():
		}
		r.end(reason)
		report.Ended++
	}
	for _, r := range waiting {
		select {
		case <-r.done:
		case <-ctx.Done():
			return report, fromContext(ctx.Err())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	report.Leaked = int64(len(f.workspaces))
	return report, nil
}

func (f *Fake) isDraining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draining
}

func (f *Fake) configured() (*fakeConfig, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config == nil {
		return nil, precondition("it is not configured yet; call Configure first")
	}
	return f.config, nil
}

// check refuses handles that this adapter instance did not make or cannot read.
func (f *Fake) check(h shared.Handle) (*fakeConfig, error) {
	cfg, err := f.configured()
	if err != nil {
		return nil, err
	}
	switch {
	case h.Adapter != f.name || h.Instance != cfg.Instance:
		return nil, invalid("", fmt.Sprintf("the handle is of %s.%s; this is %s.%s", h.Adapter, h.Instance, f.name, cfg.Instance))
	case h.Version != fakeHandleVersion:
		return nil, &shared.Error{
			Code:    shared.CodeUnsupported,
			Message: "the handle is of version " + strconv.FormatUint(uint64(h.Version), 10) + "; this adapter reads version 1",
		}
	case !isLease(h.Lease):
		return nil, invalid("", fmt.Sprintf("the handle's lease %q is no name", h.Lease))
	}
	return cfg, nil
}
