package adaptertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"
	"time"

	"cellharness/shared"
)

// RunCell puts the seeds in place and runs the command.
func (f *Fake) RunCell(ctx context.Context, h shared.Handle, cell shared.Cell, sink shared.EventSink) (shared.Result, error) {
	f.remember(h, cell)
	c := f.callFor(h, "run_cell", string(cell.Phase))
	return act(ctx, f, c, func(b bent) (shared.Result, error) {
		cfg, err := f.check(h)
		if err != nil {
			return shared.Result{}, err
		}
		if err := f.checkCell(cell); err != nil {
			return shared.Result{}, err
		}
		w, err := openWorkspace(cfg.settings.root, h.Lease)
		if err != nil {
			return shared.Result{}, err
		}
		ctx, done, err := f.enter(ctx, h.Lease)
		if err != nil {
			return shared.Result{}, err
		}
		defer done()
		if err := w.prepare(cell, b); err != nil {
			return shared.Result{}, err
		}
		out := newOutput(cell.Limits.OutputBytes, b, func(e shared.Event) error {
			if _, err := f.meet(ctx, call{at: []string{"output"}, who: c.who, lease: h.Lease}, ""); err != nil {
				return err
			}
			return sink(e)
		})
		if strings.HasPrefix(cell.Argv[0], quickPrefix) {
			return runQuick(ctx, w, cell, out)
		}
		return runProcess(ctx, w, cell, cfg, b, out)
	})
}

// remember keeps the address and the faults of a measured cell until its Teardown.
func (f *Fake) remember(h shared.Handle, cell shared.Cell) {
	var own []Fault
	if text := cell.Env[FaultEnv]; text != "" {
		// What cannot be read is refused by checkCell.
		own, _ = parseFaults(strings.Split(text, ";"))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.workspaces[h.Lease]
	if known == nil {
		return
	}
	known.who.address = cell.Address
	if own != nil {
		known.faults = newFaultPlan(own)
	}
}

// checkCell refuses what cannot be honoured.
func (f *Fake) checkCell(cell shared.Cell) error {
	switch {
	case len(cell.Argv) == 0:
		return invalid("", "the cell has no command")
	case cell.Timeout <= 0:
		return invalid("", fmt.Sprintf("the timeout %s is not positive", cell.Timeout))
	case cell.Kind == shared.PromptCell && !f.Capabilities.HostsPromptCells:
		return &shared.Error{Code: shared.CodeUnsupported, Message: "it does not host prompt cells"}
	case cell.Kind == shared.PromptCell && len(cell.Env)+len(cell.SecretEnv) > 0:
		return invalid("", "a prompt cell takes no environment; it uses the sign-in of the host")
	case cell.Kind != shared.PromptCell && cell.Kind != shared.ExecCell:
		return invalid("", fmt.Sprintf("there is no kind of cell %d", cell.Kind))
	}
	if text := cell.Env[FaultEnv]; text != "" {
		if _, err := parseFaults(strings.Split(text, ";")); err != nil {
			return invalid("", err.Error())
		}
	}
	return f.checkLimits(cell.Limits)
}

func (f *Fake) checkLimits(l shared.Limits) error {
	_, err := shared.Select(
		shared.Needs{Kind: shared.ExecCell, Limits: []shared.Limits{l}},
		[]shared.Candidate{{Instance: f.name, Capabilities: f.Capabilities}},
	)
	return err
}

// enter registers a command so that Teardown and Drain can end it.
func (f *Fake) enter(ctx context.Context, lease string) (context.Context, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return nil, nil, precondition("it is draining and takes no new work")
	}
	if f.running[lease] != nil {
		return nil, nil, precondition("a command runs in this workspace already")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &running{end: cancel, done: make(chan struct{})}
	f.running[lease] = r
	return ctx, func() {
		f.mu.Lock()
		delete(f.running, lease)
		f.mu.Unlock()
		cancel(nil)
		close(r.done)
	}, nil
}

// prepare writes the seeds, and takes the state in which the measured cell starts.
func (w *workspace) prepare(cell shared.Cell, b bent) error {
	if cell.Phase == shared.PhaseCell && b["diff"] {
		if err := w.saveStart(); err != nil {
			return err
		}
	}
	if err := w.writeSeeds(cell.Seeds, b["seeds"]); err != nil {
		return err
	}
	if cell.Phase == shared.PhaseCell && !b["diff"] {
		return w.saveStart()
	}
	return nil
}

func (w *workspace) saveStart() error {
	t, _, err := readTree(w.tree())
	if err != nil {
		return internal("take the state at the start", err)
	}
	if before, err := w.startTree(); err == nil && before.id() == t.id() {
		return nil // it is remembered already
	}
	return w.save("start.json", t)
}

// endedBy returns why ctx ended a command.
func endedBy(ctx context.Context) error {
	cause := context.Cause(ctx)
	var known *shared.Error
	if errors.As(cause, &known) {
		return known
	}
	return fromContext(cause)
}

// output takes what a command writes and hands it on as events.
type output struct {
	limit int64 // of each stream; 0: none
	lies  bent

	mu      sync.Mutex // one event at a time; guards what follows
	sink    shared.EventSink
	broken  bool // the sink wants no more
	streams map[shared.EventKind]*stream
	full    chan struct{} // closed when a stream passed the limit
	isFull  bool
}

type stream struct {
	sum    hash.Hash
	counts shared.Stream
}

func newOutput(limit int64, lies bent, sink shared.EventSink) *output {
	if lies["limit"] {
		limit = 0
	}
	return &output{
		limit: limit, lies: lies, sink: sink, full: make(chan struct{}),
		streams: map[shared.EventKind]*stream{
			shared.EventStdout: {sum: sha256.New()},
			shared.EventStderr: {sum: sha256.New()},
		},
	}
}

// take takes the next bytes of a stream, stores what the limit allows, and never fails: a sink that wants no more is
// left alone.
func (o *output) take(kind shared.EventKind, data []byte) {
	if o.lies["streams"] {
		kind = shared.EventStdout
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.streams[kind]
	s.counts.Bytes += int64(len(data))
	if o.limit > 0 && s.counts.Bytes > o.limit {
		data = data[:max(0, min(int64(len(data)), o.limit-s.counts.Stored))]
		if !o.isFull {
			o.isFull = true
			close(o.full)
		}
	}
	for len(data) > 0 {
		frame := data[:min(len(data), shared.MaxOutputFrame)]
		data = data[len(frame):]
		if !o.lies["output"] || s.counts.Stored == 0 {
			o.send(shared.Event{Kind: kind, Data: frame, Offset: s.counts.Stored})
		}
		s.sum.Write(frame)
		s.counts.Stored += int64(len(frame))
	}
}

// send hands an event on. The caller holds mu.
func (o *output) send(e shared.Event) {
	if o.broken {
		return
	}
	if err := o.sink(e); err != nil {
		o.broken = true
	}
}

func (o *output) signal(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.send(shared.Event{Kind: shared.EventSignal, Signal: name})
}

// finish puts the counts into the result.
func (o *output) finish(r *shared.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := func(kind shared.EventKind) shared.Stream {
		s := o.streams[kind]
		s.counts.SHA256 = hex.EncodeToString(s.sum.Sum(nil))
		return s.counts
	}
	r.Stdout, r.Stderr = counts(shared.EventStdout), counts(shared.EventStderr)
	if o.isFull {
		r.Status, r.Limit = shared.StatusLimitExceeded, shared.DimensionOutput
		r.Notices = append(r.Notices, shared.Notice{Kind: shared.NoticeOutputTruncated, Count: 1})
	}
	if o.lies["count"] {
		r.Stdout.Bytes++
		r.Stdout.Stored++
	}
}

// exited makes the result of a command that ended by itself with code.
func exited(code int64) shared.Result {
	return shared.Result{Status: shared.StatusCompleted, ExitCode: &code}
}

// since fills in the times of a command that started at started and ended now.
func since(r *shared.Result, started time.Time) {
	r.Started, r.Wall = started.UTC(), time.Since(started)
}

// readContent reads a content whole and checks it.
func readContent(c shared.Content) (data []byte, err error) {
	r, err := c.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if data, err = io.ReadAll(io.LimitReader(r, c.Size+1)); err != nil {
		return nil, err
	}
	if digest(data) != c.SHA256 || int64(len(data)) != c.Size {
		return nil, fmt.Errorf("the content has %d bytes with the digest %s; %d bytes with %s were announced",
			len(data), digest(data), c.Size, c.SHA256)
	}
	return data, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
