package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"cellharness/plugins/localworktree/supervise"
	"cellharness/plugins/localworktree/worktree"
	"cellharness/shared"
)

// handleVersion is the version of the handles this adapter makes and reads.
const handleVersion = 1

// Options are what the process gives its adapter.
type Options struct {
	Environ []string // of the process: PATH, HOME and the XDG variables are read
}

// Adapter is the local_worktree adapter.
type Adapter struct {
	getenv func(string) string
	runner *supervise.Runner

	// mu guards what follows.
	mu        sync.Mutex
	instance  *instance // nil until Configure
	draining  bool
	occupants map[string]*occupant // by lease
}

// instance is the configured part.
type instance struct {
	name     string
	owner    string // mark of the installation
	settings settings
	environ  map[string]string // of SettingEnvironment
	git      *worktree.Git
	source   *worktree.Source
	store    *worktree.Store
	refs     *refs
}

// occupant is a workspace that this process holds, and what is under way in it: its making, or a command.
type occupant struct {
	workspace *worktree.Workspace // nil until it is made
	start     string              // tree in which the measured command started; empty until then
	touched   bool                // whether anything was put into or run in the workspace, or may have been by another process
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when what is under way has ended; nil while nothing is
}

// New returns an adapter that is not configured yet.
func New(opts Options) (*Adapter, error) {
	runner, err := supervise.New(supervise.Options{})
	if err != nil {
		return nil, err
	}
	return &Adapter{getenv: lookup(opts.Environ), runner: runner, occupants: map[string]*occupant{}}, nil
}

// Close ends every command that runs; at once when ctx is over.
func (a *Adapter) Close(ctx context.Context) error { return a.runner.Close(ctx) }

// Negotiate says what the adapter is. It fits every host that reads its version of handles.
func (a *Adapter) Negotiate(ctx context.Context, host shared.HostInfo) (shared.Description, error) {
	d := shared.Description{
		Name: Name, Version: shared.Version, Build: shared.Build(), Services: []string{shared.ServiceAdapter},
		HandleVersion: handleVersion, Capabilities: capabilities(ctx), Fits: true,
	}
	for _, v := range host.HandleVersions {
		if v == handleVersion {
			return d, nil
		}
	}
	d.Fits, d.Reason = false, fmt.Sprintf("the harness does not keep handles of version %d", handleVersion)
	return d, nil
}

func capabilities(ctx context.Context) shared.Capabilities {
	return shared.Capabilities{
		ColdStart: shared.ColdStartSub100ms, Streaming: true, Transfer: shared.TransferMount, HostsPromptCells: true,
		StartsFromPatch: true, Provisions: true, Limits: supervise.Probe(ctx),
	}
}

// Configure opens the repository and resolves every base.
func (a *Adapter) Configure(ctx context.Context, cfg shared.Configuration) (shared.Configured, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.instance != nil {
		return shared.Configured{}, &shared.Error{Code: shared.CodePrecondition, Message: "the adapter is configured already"}
	}
	in, err := a.configure(ctx, cfg)
	if err != nil {
		return shared.Configured{}, err
	}
	resolved, err := pins(ctx, in.source, in.settings.Base, cfg.Refs)
	if err != nil {
		return shared.Configured{}, err
	}
	in.refs = newRefs(in, resolved)
	a.instance = in
	return shared.Configured{Capabilities: capabilities(ctx), Source: in.source.Root, Pins: resolved}, nil
}

func (a *Adapter) configure(ctx context.Context, cfg shared.Configuration) (*instance, error) {
	s, err := parseSettings(cfg.Settings)
	if err != nil {
		return nil, err
	}
	git, err := worktree.New(ctx, worktree.Options{Path: a.getenv("PATH"), Home: a.getenv("HOME"), Timeout: s.GitTimeout})
	if err != nil {
		return nil, precondition(err)
	}
	source, err := git.Open(ctx, s.Repo)
	if err != nil {
		return nil, sourceError(err)
	}
	dir := s.WorkspacesDir
	if dir == "" {
		if dir, err = cacheDir(a.getenv); err != nil {
			return nil, err
		}
	}
	store, err := worktree.NewStore(git, dir)
	if err != nil {
		return nil, invalid("workspaces_dir", err.Error())
	}
	return &instance{name: cfg.Instance, owner: cfg.Owner, settings: s, environ: cfg.Environment, git: git, source: source, store: store}, nil
}

// configured returns the instance, or why there is none to use.
func (a *Adapter) configured() (*instance, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.instance == nil {
		return nil, &shared.Error{Code: shared.CodePrecondition, Message: "the adapter is not configured yet"}
	}
	return a.instance, nil
}

// refuseWhenDraining keeps new work out of an adapter that is about to stop.
func (a *Adapter) refuseWhenDraining() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return &shared.Error{Code: shared.CodePrecondition, Message: "the adapter is being stopped and takes no new work"}
	}
	return nil
}

// Provision makes a workspace out of the mirror of its base, which it cuts where there is none yet.
func (a *Adapter) Provision(ctx context.Context, spec shared.ProvisionSpec) (shared.Provisioned, error) {
	var none shared.Provisioned
	in, err := a.configured()
	if err != nil {
		return none, err
	}
	if err := a.refuseWhenDraining(); err != nil {
		return none, err
	}
	if spec.Base == "" {
		return none, &shared.Error{Code: shared.CodeInvalid, Message: "a workspace needs the commit that its base was pinned to"}
	}
	o, err := a.reserve(spec.Lease)
	if err != nil {
		return none, err
	}
	ctx, end, err := a.occupy(ctx, o)
	if err != nil {
		return none, err
	}
	defer end()
	ws, mirror, err := in.create(ctx, spec)
	a.made(spec.Lease, ws)
	if err != nil {
		return none, err
	}
	noticed := append(notices(mirror.Notices), in.refs.notices(ctx, spec.Ref, spec.Base)...)
	return shared.Provisioned{BaseSHA: spec.Base, Notices: noticed, Handle: shared.Handle{
		Adapter: Name, Instance: in.name, Version: handleVersion, Lease: spec.Lease, Resource: spec.Lease,
		Root: ws.Tree(), Base: spec.Base,
	}}, nil
}

// reserve makes a lease known before there is a workspace of it, so that Teardown can end its making.
func (a *Adapter) reserve(lease string) (*occupant, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.occupants[lease]; ok {
		return nil, &shared.Error{Code: shared.CodeExists, Message: "there is a workspace " + lease + " already"}
	}
	o := &occupant{}
	a.occupants[lease] = o
	return o, nil
}

// made tells what became of a reserved lease: a workspace, or nothing.
func (a *Adapter) made(lease string, ws *worktree.Workspace) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ws == nil {
		delete(a.occupants, lease)
		return
	}
	a.occupants[lease].workspace = ws
}

// create makes the workspace. Where ctx ends meanwhile, nothing of it stays.
func (in *instance) create(ctx context.Context, spec shared.ProvisionSpec) (*worktree.Workspace, *worktree.Mirror, error) {
	labels, err := json.Marshal(spec.Labels)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the labels: %w", err)
	}
	mirror, err := in.store.Mirror(ctx, in.source, spec.Base, in.settings.History)
	if err != nil {
		return nil, nil, repoError("cut a mirror of "+in.settings.Repo+" at "+spec.Base, err)
	}
	create := worktree.CreateSpec{Name: spec.Lease, Labels: labels}
	if spec.Patch != nil && spec.Patch.Size > 0 {
		patch, err := spec.Patch.Open()
		if err != nil {
			return nil, nil, fmt.Errorf("read the patch: %w", err)
		}
		defer patch.Close()
		create.Patch = patch
	}
	ws, err := in.store.Create(ctx, mirror, create)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
		for _, r := range ws.Remove(context.WithoutCancel(ctx)) {
			if r.State == worktree.StateLeaked {
				err = errors.Join(err, fmt.Errorf("%s is left: %s", r.Name, r.Detail))
			}
		}
	}
	if err != nil {
		return nil, nil, repoError("make the workspace", err)
	}
	return ws, mirror, nil
}

// repoError is an error of git or of the file system while a workspace was made or read.
func repoError(doing string, err error) error {
	e := &shared.Error{
		Code: shared.CodeInternal, Cause: shared.CauseRepo, Message: doing + ": " + err.Error(), Err: err,
	}
	switch {
	case errors.Is(err, worktree.ErrExists):
		e.Code = shared.CodeExists
	case errors.Is(err, worktree.ErrPatch), errors.Is(err, worktree.ErrIncomplete), errors.Is(err, worktree.ErrUnsupported):
		e.Code = shared.CodePrecondition
	case errors.Is(err, context.DeadlineExceeded):
		e.Code = shared.CodeTimeout
	case errors.Is(err, context.Canceled):
		e.Code = shared.CodeCancelled
	}
	return e
}

// occupant finds the workspace of a handle, also one that another process of this adapter has made.
func (a *Adapter) occupant(ctx context.Context, h shared.Handle) (*occupant, error) {
	in, err := a.configured()
	if err != nil {
		return nil, err
	}
	switch {
	case h.Adapter != Name:
		return nil, &shared.Error{Code: shared.CodeInvalid, Message: fmt.Sprintf("the handle is one of adapter %q", h.Adapter)}
	case h.Version != handleVersion:
		return nil, &shared.Error{Code: shared.CodeUnsupported, Message: fmt.Sprintf(
			"the handle has version %d, this adapter reads version %d", h.Version, handleVersion)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if o, ok := a.occupants[h.Lease]; ok && o.workspace == nil {
		return nil, &shared.Error{Code: shared.CodePrecondition, Message: "the workspace " + h.Lease + " is being made"}
	} else if ok {
		return o, nil
	}
	ws, err := in.store.Open(ctx, h.Lease)
	if errors.Is(err, worktree.ErrNotFound) {
		return nil, &shared.Error{Code: shared.CodeNotFound, Message: "there is no workspace " + h.Lease, Err: err}
	}
	if err != nil {
		return nil, repoError("open the workspace", err)
	}
	if err := in.checkOwner(ws); err != nil {
		return nil, err
	}
	o := &occupant{workspace: ws, touched: true}
	a.occupants[h.Lease] = o
	return o, nil
}

// checkOwner refuses a workspace that another installation has made.
func (in *instance) checkOwner(ws *worktree.Workspace) error {
	var have shared.Labels
	if err := json.Unmarshal(ws.Labels(), &have); err == nil && have.Owner == in.owner {
		return nil
	}
	return &shared.Error{Code: shared.CodePrecondition, Message: fmt.Sprintf(
		"the workspace %s was not made by this installation and is left alone", ws.Dir())}
}

// Find lists the workspaces on this machine that carry the labels.
func (a *Adapter) Find(ctx context.Context, labels shared.Labels) ([]shared.Found, error) {
	in, err := a.configured()
	if err != nil {
		return nil, err
	}
	entries, err := in.store.List(ctx)
	if err != nil {
		return nil, repoError("list the workspaces", err)
	}
	var found []shared.Found
	for _, e := range entries {
		var have shared.Labels
		// A workspace whose labels cannot be read is not known to be ours.
		if err := json.Unmarshal(e.Labels, &have); err != nil || !have.Match(labels) {
			continue
		}
		found = append(found, shared.Found{Labels: have, Created: e.Created, Handle: shared.Handle{
			Adapter: Name, Instance: have.Instance, Version: handleVersion, Lease: e.Name, Resource: e.Name,
			Root: e.Tree, Base: e.Base,
		}})
	}
	return found, nil
}

// Drain refuses new work, waits for what is under way, and ends what takes longer than within. It returns when all of it
// has ended, or with ctx.
func (a *Adapter) Drain(ctx context.Context, within time.Duration) (shared.DrainReport, error) {
	a.mu.Lock()
	a.draining = true
	var running []*occupant
	var done []<-chan struct{}
	for _, o := range a.occupants {
		if o.done != nil {
			running, done = append(running, o), append(done, o.done)
		}
	}
	a.mu.Unlock()
	patience := time.NewTimer(within)
	defer patience.Stop()
	var report shared.DrainReport
	for i, o := range running {
		select {
		case <-done[i]:
			continue
		case <-ctx.Done():
		case <-patience.C:
			patience.Reset(0) // the others have no more time either
		}
		a.end(o)
		report.Ended++
	}
	for i := range running {
		select {
		case <-done[i]:
		case <-ctx.Done():
			return report, &shared.Error{Code: shared.CodeTimeout, Message: "not everything has ended", Err: ctx.Err()}
		}
	}
	return report, nil
}

// end cancels what is under way in the workspace.
func (a *Adapter) end(o *occupant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o.cancel != nil {
		o.cancel(errDrained)
	}
}

var errDrained = errors.New("the adapter was stopped")
