package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"cellharness/runner/redact"
	"cellharness/shared"
)

const (
	// maxDeaths within deathWindow, and maxFailures launches that failed in a row, mean that the next start would end
	// the same way: an adapter that cannot live must not be started for each of a thousand cells.
	maxDeaths   = 5
	deathWindow = time.Minute
	maxFailures = 3
)

// instance is an adapter instance with its generations, of which at most one is alive.
type instance struct {
	host   *Host
	spec   Instance
	kind   shared.Kind
	title  string // for people, such as "local_worktree.here"; the kind alone where no block is meant
	masker *redact.Masker
	turn   chan struct{} // holds one token; whoever has it may launch

	mu       sync.Mutex // guards what follows
	current  *Process
	first    *Process // what later generations have to be like
	launches int      // that succeeded
	stopping bool
	deaths   []time.Time // since the last success
	failures int         // launches that failed in a row
	refusal  *shared.Error
}

func newInstance(h *Host, spec Instance, kind shared.Kind) (*instance, error) {
	var secrets []shared.Secret
	for _, s := range spec.Configuration.Secrets {
		secrets = append(secrets, s)
	}
	masker, err := redact.New(secrets)
	if err != nil {
		return nil, &shared.Error{Code: shared.CodeInternal, Message: "keep secrets out of the log: " + err.Error(), Err: err}
	}
	title := spec.Name
	if title != kind.Name && !strings.HasPrefix(title, kind.Name+".") {
		title = kind.Name + "." + title
	}
	return &instance{host: h, spec: spec, kind: kind, title: title, masker: masker, turn: make(chan struct{}, 1)}, nil
}

// logName is the name of the instance's log, whatever bytes the instance is called by.
func (in *instance) logName() string { return url.PathEscape(in.spec.Name) + ".log" }

// logHint points at the log, where there is one.
func (in *instance) logHint() string {
	if in.host.cfg.LogDir == "" {
		return ""
	}
	return "; its log is " + filepath.Join(in.host.cfg.LogDir, in.logName())
}

// acquire returns the live generation or launches the next one. Launches are made one at a time; whoever waited for
// one gets what it brought.
func (in *instance) acquire(ctx context.Context) (*Process, error) {
	select {
	case in.turn <- struct{}{}:
		defer func() { <-in.turn }()
	case <-ctx.Done():
		return nil, in.interrupted(ctx)
	}
	p, err := in.live()
	if p != nil || err != nil {
		return p, err
	}
	p, err = in.launch(ctx)
	if err != nil {
		return nil, in.failed(ctx, err)
	}
	return in.install(p)
}

// live returns the generation that is alive, or why none may be launched.
func (in *instance) live() (*Process, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.stopping:
		return nil, errStopped(in.title)
	case in.current != nil && in.current.alive():
		return in.current, nil
	case in.refusal != nil:
		return nil, in.refusal
	}
	return nil, nil
}

// launch tries once more where the program died before it said anything: that can be chance, the other faults are not.
func (in *instance) launch(ctx context.Context) (*Process, error) {
	p, again, err := in.launchOnce(ctx)
	if err != nil && again && ctx.Err() == nil {
		p, _, err = in.launchOnce(ctx)
	}
	return p, err
}

// install makes p the current generation, unless the instance was stopped meanwhile.
func (in *instance) install(p *Process) (*Process, error) {
	in.mu.Lock()
	stopped := in.stopping
	if !stopped {
		in.current = p
		in.launches = p.generation
		in.failures = 0
		if in.first == nil {
			in.first = p
		}
	}
	in.mu.Unlock()
	if !stopped {
		return p, nil
	}
	p.markStopping()
	in.host.note(p.child.kill())
	return nil, errStopped(in.title)
}

// failed counts a failed launch. One that was interrupted says nothing about the adapter.
func (in *instance) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopping {
		return errStopped(in.title)
	}
	in.failures++
	var diagnosis *shared.Error
	if !errors.As(err, &diagnosis) {
		diagnosis = &shared.Error{Code: shared.CodeUnavailable, Message: err.Error(), Err: err}
	}
	if in.first != nil && diagnosis.Cause == "" {
		relaunch := *diagnosis
		relaunch.Cause = shared.CauseAdapterCrashed
		diagnosis = &relaunch
	}
	if in.failures >= maxFailures {
		in.refuse(fmt.Sprintf("could not be started %d times in a row", in.failures), diagnosis)
	}
	return diagnosis
}

// died counts the death of a generation.
func (in *instance) died(at time.Time, diagnosis *shared.Error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	recent := []time.Time{at}
	for _, t := range in.deaths {
		if at.Sub(t) < deathWindow {
			recent = append(recent, t)
		}
	}
	in.deaths = recent
	if len(in.deaths) >= maxDeaths {
		in.refuse(fmt.Sprintf("died %d times within %s", len(in.deaths), deathWindow), diagnosis)
	}
}

// refuse ends launches until a success that is still under way proves the instance fit. The caller holds mu.
func (in *instance) refuse(what string, last *shared.Error) {
	in.refusal = &shared.Error{
		Code: shared.CodeUnavailable, Cause: shared.CauseAdapterCrashed, Err: last,
		Message: fmt.Sprintf("adapter %s %s and is not started again; the last time: %s", in.title, what, last.Message),
	}
}

// forgive forgets deaths and failed launches.
func (in *instance) forgive() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.deaths, in.failures, in.refusal = nil, 0, nil
}

// markStopping says that whatever ends from now on was meant to.
func (in *instance) markStopping() *Process {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stopping = true
	if in.current != nil {
		in.current.markStopping()
	}
	return in.current
}

// expectedDigest is what the program must have, and who says so. Both are empty for the first one of all.
func (in *instance) expectedDigest() (digest, from string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.first != nil {
		return in.first.digest, "when this run began"
	}
	return in.spec.Digest, "when the plan was made"
}

// drift says what a later generation negotiated differently from the first, empty where nothing.
func (in *instance) drift(p *Process) string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.first == nil {
		return ""
	}
	was, is := in.first.description, p.description
	switch {
	case was.Name != is.Name:
		return fmt.Sprintf("name %s, was %s", quoted(is.Name), quoted(was.Name))
	case was.Version != is.Version:
		return fmt.Sprintf("version %s, was %s", quoted(is.Version), quoted(was.Version))
	case !sameCapabilities(was.Capabilities, is.Capabilities),
		!sameCapabilities(in.first.configured.Capabilities, p.configured.Capabilities):
		return "other capabilities than before"
	}
	return ""
}

// sameCapabilities compares all but the measured cold start, which may differ every time.
func sameCapabilities(a, b shared.Capabilities) bool {
	a.MeasuredColdStart, b.MeasuredColdStart = 0, 0
	return reflect.DeepEqual(a, b)
}

func (in *instance) interrupted(ctx context.Context) *shared.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &shared.Error{
			Code: shared.CodeTimeout, Message: "adapter " + in.title + " was not ready in time", Err: ctx.Err(),
		}
	}
	return &shared.Error{
		Code: shared.CodeCancelled, Message: "the start of adapter " + in.title + " was interrupted", Err: ctx.Err(),
	}
}
