package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"cellharness/shared"
)

// Config is what a Host works with.
type Config struct {
	Kinds  []shared.Kind
	Dir    string // folder of the adapters' programs; PATH is never searched
	LogDir string // gets one INSTANCE.log for each instance; empty: only last lines are kept, in memory
	Host   shared.HostInfo
	// Environ is the environment of the harness. An adapter gets what an allow-list lets through.
	Environ []string
	// RuntimeDirs are candidates for the private directory of the sockets, the first that fits is taken. Empty:
	// XDG_RUNTIME_DIR and TMPDIR of Environ, then /tmp.
	RuntimeDirs []string
	// AdoptOrphans makes this process the one that processes come to whose adapter and supervisor are dead, and lets the
	// host end them. Only one host of a process may ask for it, in a process that starts nothing else in sessions of
	// their own.
	AdoptOrphans bool
	// OnReady is called for each generation that became ready, OnCrash once for each of them that died or was given up.
	// They may come from any goroutine and must not call the host. Either may be nil.
	OnReady func(Ready)
	OnCrash func(Crash)
}

// Instance is an adapter instance to start.
type Instance struct {
	Name          string // label of its block, such as "here"; unique
	Kind          string // registered name, such as "local_worktree"
	Configuration shared.Configuration
	// Digest is the SHA-256 that a saved plan says the program has; nothing else is started. Empty: whatever is there.
	Digest string
}

// Ready says that a generation was launched, negotiated and configured.
type Ready struct {
	Instance     string // as in Instance.Name
	Kind         string
	Version      string
	Generation   int
	Digest       string // SHA-256 of the program
	Took         time.Duration
	Capabilities shared.Capabilities
}

// Crash says that a generation is gone though nobody stopped it.
type Crash struct {
	Instance   string // as in Instance.Name
	Generation int
	Exit       string   // how it ended, such as "exit status 3" or "killed by signal 9, SIGKILL"
	LastLines  []string // of its stderr, oldest first, escaped
}

// timing holds the bounds of a host, so that tests of what happens behind them need not wait for it.
type timing struct {
	handshake    time.Duration // from the start of the process to its handshake
	negotiate    time.Duration
	configure    time.Duration
	exit         time.Duration // in which a process that broke its connection has to be gone
	healthPeriod time.Duration
	healthWait   time.Duration
	healthMisses int
	drain        time.Duration
	end          time.Duration // for go-plugin's polite stop, and again after SIGKILL
}

// defaultTiming returns bounds with a wide margin over what was measured: a handshake takes 0.01 to 0.33 s, Negotiate up
// to a second more where the adapter tries out what it can limit, and ten times that on a machine that is very busy; a crash is seen within 0.1 s. Health finds a hung adapter after at most 21 s.
func defaultTiming() timing {
	return timing{
		handshake: 10 * time.Second, negotiate: 30 * time.Second, configure: time.Minute, exit: 3 * time.Second,
		healthPeriod: 5 * time.Second, healthWait: 2 * time.Second, healthMisses: 3,
		drain: 10 * time.Second, end: 2 * time.Second,
	}
}

// Host owns the adapter processes of one run. Its methods may be called from many goroutines.
type Host struct {
	cfg       Config
	timing    timing
	socketDir string
	now       func() time.Time
	// launching holds a token for each launch that may be under way at once. An adapter uses a processor while it tries
	// out what it can; a dozen of them at a time would make each other late.
	launching chan struct{}

	// starting is held for reading while an adapter is started and made known, and for writing while orphans are ended.
	starting sync.RWMutex

	mu        sync.Mutex // guards what follows
	closed    bool
	instances map[string]*instance
	children  map[*child]struct{} // every process that was not disposed of yet
	errs      []error             // what went wrong where nobody waited for it
}

// New makes a host and the private directory of its sockets, which Stop and Kill remove. The error, of
// CodeUnavailable, lists the places that were tried.
func New(cfg Config) (*Host, error) {
	candidates := cfg.RuntimeDirs
	if len(candidates) == 0 {
		candidates = runtimeDirs(cfg.Environ)
	}
	if cfg.AdoptOrphans {
		if err := becomeReaper(); err != nil {
			return nil, &shared.Error{Code: shared.CodeInternal, Message: err.Error(), Err: err}
		}
	}
	dir, err := makeSocketDir(candidates)
	if err != nil {
		return nil, err
	}
	return &Host{
		cfg: cfg, timing: defaultTiming(), socketDir: dir, now: time.Now,
		launching: make(chan struct{}, max(2, runtime.NumCPU())),
		instances: map[string]*instance{}, children: map[*child]struct{}{},
	}, nil
}

// Start launches the first generation of an instance: it finds the program, starts it, negotiates and configures. The
// error is a *shared.Error: of CodeUnavailable, with what is wrong and the remedy, where the adapter could not be had;
// Configure's own where the adapter did not accept its configuration; of CodeExists where the instance was started
// before. A program that dies before its handshake is tried once more.
func (h *Host) Start(ctx context.Context, spec Instance) (*Process, error) {
	kind, ok := shared.KindByName(h.cfg.Kinds, spec.Kind)
	if !ok {
		return nil, &shared.Error{Code: shared.CodeInvalid, Message: fmt.Sprintf("there is no adapter %q", spec.Kind)}
	}
	in, err := newInstance(h, spec, kind)
	if err != nil {
		return nil, err
	}
	if err := h.register(in); err != nil {
		return nil, err
	}
	p, err := in.acquire(ctx)
	if err != nil {
		h.unregister(in)
		return nil, err
	}
	return p, nil
}

// Acquire returns the live process of an instance that was started, or launches its next generation, which has to be
// the same program and to negotiate the same; the error then has CauseProtocol. After five deaths within a minute, or
// three failed launches in a row, without a success between them, no further one is tried and the error repeats the
// last diagnosis. Errors are *shared.Error.
func (h *Host) Acquire(ctx context.Context, name string) (*Process, error) {
	h.mu.Lock()
	in, ok := h.instances[name]
	h.mu.Unlock()
	if !ok {
		return nil, &shared.Error{
			Code: shared.CodePrecondition, Message: fmt.Sprintf("adapter instance %q was not started", name),
		}
	}
	return in.acquire(ctx)
}

func (h *Host) register(in *instance) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errStopped(in.title)
	}
	if _, ok := h.instances[in.spec.Name]; ok {
		return &shared.Error{Code: shared.CodeExists, Message: fmt.Sprintf("adapter %s was started before", in.title)}
	}
	h.instances[in.spec.Name] = in
	return nil
}

func (h *Host) unregister(in *instance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.instances, in.spec.Name)
}

// track takes a process into the host's care before its start, unless the host was stopped.
func (h *Host) track(c *child) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.children[c] = struct{}{}
	return true
}

// forget lets go of a process that was disposed of. err is what went wrong with its pipes and its log.
func (h *Host) forget(c *child, err error) {
	h.note(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.children, c)
}

// afterDeath is called when an adapter process is reaped, before anybody learns of it.
func (h *Host) afterDeath() {
	if h.cfg.AdoptOrphans {
		h.sweepOrphans()
	}
}

// note keeps an error that nobody waits for until Stop.
func (h *Host) note(err error) {
	if err == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

// close refuses launches from now on, and returns what is there.
func (h *Host) close() (instances []*instance, children []*child) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, in := range h.instances {
		instances = append(instances, in)
	}
	for c := range h.children {
		children = append(children, c)
	}
	return instances, children
}

// Stop ends all instances at once: it asks each to drain, then to end, then kills it, 14 s in all. When ctx ends first
// the rest is killed at once. Afterwards nothing can be started. The error joins what was not clean: a workspace that
// may be left, a process that could not be ended, a log that could not be written.
func (h *Host) Stop(ctx context.Context) error {
	instances, _ := h.close()
	results := make([]error, len(instances))
	var stops sync.WaitGroup
	for i, in := range instances {
		stops.Go(func() { results[i] = in.stop(ctx) })
	}
	stops.Wait()
	return errors.Join(errors.Join(results...), h.end())
}

// Kill ends all adapters at once, without asking them. It may be called while Stop waits. What they held is found by
// their successors. Only processes that SIGKILL does not end make it wait, for two seconds.
func (h *Host) Kill() {
	h.close()
	_ = h.end() // Stop says it; who kills does not want to know
}

// end kills what is left and removes the directory of the sockets.
func (h *Host) end() error {
	instances, children := h.close()
	for _, in := range instances {
		in.markStopping()
	}
	var errs []error
	for _, c := range children {
		errs = append(errs, c.kill())
	}
	bound := time.NewTimer(h.timing.end)
	defer bound.Stop()
	for _, c := range children {
		if c.pid() == 0 {
			continue // its launch fails by itself
		}
		select {
		case <-c.done:
		case <-bound.C:
			errs = append(errs, fmt.Errorf("process %d of %s does not end", c.pid(), c.path))
			bound.Reset(0)
		}
	}
	h.mu.Lock()
	errs = append(errs, h.errs...)
	h.errs = nil
	h.mu.Unlock()
	if err := os.RemoveAll(h.socketDir); err != nil {
		errs = append(errs, fmt.Errorf("remove the directory of the sockets: %w", err))
	}
	return errors.Join(errs...)
}

// errStopped answers whoever wants an adapter of a host that was stopped.
func errStopped(title string) *shared.Error {
	return &shared.Error{Code: shared.CodeCancelled, Message: "adapter " + title + " was stopped"}
}
