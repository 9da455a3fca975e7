package adaptertest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cellharness/shared"
)

// outcome is what came of a RunCell.
type outcome struct {
	shared.Result
	out     []byte
	err     []byte
	signals []string
	first   time.Time     // of the first output
	end     time.Time     // of the call
	took    time.Duration // the call
}

// run runs a cell that has to give a Result, and checks what holds for every Result.
func (w *space) run(c shared.Cell) outcome {
	w.t.Helper()
	o, err := w.try(within(w.t), c)
	if err != nil {
		w.t.Fatalf("RunCell(%q): %v", c.Argv, err)
	}
	o.check(w.t)
	return o
}

// try runs a cell.
func (w *space) try(ctx context.Context, c shared.Cell) (outcome, error) {
	w.t.Helper()
	r := recorder{t: w.t}
	started := time.Now()
	result, err := w.b.adapter.RunCell(ctx, w.handle, c, r.take)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.Result, r.end, r.took = result, time.Now(), time.Since(started)
	return r.outcome, err
}

// script runs a script that has to exit with 0.
func (w *space) script(script string) outcome {
	w.t.Helper()
	o := w.run(sh(script))
	o.wantExit(w.t, 0)
	return o
}

func (o outcome) check(t *testing.T) {
	t.Helper()
	switch o.Status {
	case shared.StatusCompleted:
		if (o.ExitCode == nil) == (o.Signal == "") {
			t.Errorf("a completed command has exit code %s and signal %q; want one of them", code(o.ExitCode), o.Signal)
		}
	case shared.StatusTimedOut, shared.StatusLimitExceeded:
	default:
		t.Errorf("status = %q, which is none of an adapter's", o.Status)
	}
	if o.Started.IsZero() || o.Wall < 0 || o.Wall > o.took {
		t.Errorf("started %s and took %s in a call of %s", o.Started, o.Wall, o.took)
	}
	checkStream(t, "stdout", o.Stdout, o.out)
	checkStream(t, "stderr", o.Stderr, o.err)
}

func checkStream(t *testing.T, name string, s shared.Stream, received []byte) {
	t.Helper()
	if s.Stored != int64(len(received)) || s.Bytes < s.Stored || s.SHA256 != digest(received) {
		t.Errorf("%s: the result counts %+v, but %d bytes with the digest %s arrived", name, s, len(received), digest(received))
	}
}

func (o outcome) wantExit(t *testing.T, want int64) {
	t.Helper()
	if o.Status != shared.StatusCompleted || o.ExitCode == nil || *o.ExitCode != want {
		t.Errorf("the command ended %s with exit code %s, signal %q; want exit code %d; stdout %.200q, stderr %.200q",
			o.Status, code(o.ExitCode), o.Signal, want, o.out, o.err)
	}
}

func (o outcome) wantOutput(t *testing.T, out, err string) {
	t.Helper()
	if string(o.out) != out || string(o.err) != err {
		t.Errorf("stdout = %.200q, stderr = %.200q; want %.200q and %.200q", o.out, o.err, out, err)
	}
}

func code(c *int64) string {
	if c == nil {
		return "none"
	}
	return fmt.Sprint(*c)
}

// recorder is an EventSink that keeps what arrives and checks the order.
type recorder struct {
	t  *testing.T
	mu sync.Mutex
	outcome
	ended bool
}

func (r *recorder) take(e shared.Event) error {
	if !r.mu.TryLock() {
		r.t.Error("two events came at once, or one after the result")
		return nil
	}
	defer r.mu.Unlock()
	if r.ended {
		r.t.Error("an event came after the result")
	}
	switch e.Kind {
	case shared.EventStdout:
		r.output(&r.out, e)
	case shared.EventStderr:
		r.output(&r.err, e)
	case shared.EventSignal:
		r.signals = append(r.signals, e.Signal)
	case shared.EventError:
	default:
		r.t.Errorf("an event of kind %d came, which is none of RunCell's", e.Kind)
	}
	return nil
}

func (r *recorder) output(to *[]byte, e shared.Event) {
	if r.first.IsZero() {
		r.first = time.Now()
	}
	if e.Offset != int64(len(*to)) || len(e.Data) == 0 || len(e.Data) > shared.MaxOutputFrame {
		r.t.Errorf("an output event of kind %d has offset %d and %d bytes after %d bytes", e.Kind, e.Offset, len(e.Data), len(*to))
	}
	*to = append(*to, e.Data...)
}

// collected is what came of a Collect.
type collected struct {
	shared.Collection
	files []shared.Artifact
	data  map[string][]byte // by path, of ArtifactFile
	diff  []byte
	base  []byte // the patch from the base
}

// file returns the artifact at path.
func (c collected) file(t *testing.T, path string) shared.Artifact {
	t.Helper()
	i := slices.IndexFunc(c.files, func(a shared.Artifact) bool { return a.Path == path })
	if i < 0 {
		t.Errorf("nothing was said of the artifact %q", path)
		return shared.Artifact{}
	}
	return c.files[i]
}

// collect collects and checks what holds for every artifact.
func (w *space) collect(spec shared.CollectSpec) collected {
	w.t.Helper()
	s := &shelf{t: w.t, collected: collected{data: map[string][]byte{}}}
	found, err := w.b.adapter.Collect(within(w.t), w.handle, spec, s)
	if err != nil {
		w.t.Fatalf("Collect: %v", err)
	}
	if s.open {
		w.t.Error("the last artifact was not ended")
	}
	s.Collection = found
	return s.collected
}

// shelf is an ArtifactSink that keeps what arrives and checks the order.
type shelf struct {
	t *testing.T
	collected
	open bool
	kind shared.ArtifactKind
	path string
	buf  bytes.Buffer
}

func (s *shelf) Begin(kind shared.ArtifactKind, path string) error {
	if s.open {
		s.t.Errorf("the artifact %q began before %q ended", path, s.path)
	}
	s.open, s.kind, s.path = true, kind, path
	s.buf.Reset()
	return nil
}

func (s *shelf) Write(data []byte) (int, error) {
	if !s.open {
		s.t.Error("bytes came outside an artifact")
	}
	return s.buf.Write(data)
}

func (s *shelf) End(a shared.Artifact) error {
	if !s.open || a.Kind != s.kind || a.Path != s.path {
		s.t.Errorf("the artifact %q of kind %d ended, after %q of kind %d began", a.Path, a.Kind, s.path, s.kind)
	}
	s.open = false
	data := bytes.Clone(s.buf.Bytes())
	if a.State != shared.ArtifactPresent && len(data) > 0 {
		s.t.Errorf("%d bytes came of the artifact %q, which is %s", len(data), a.Path, a.State)
	}
	if a.State == shared.ArtifactPresent && (a.Bytes != int64(len(data)) || a.SHA256 != digest(data)) {
		s.t.Errorf("the artifact %q is said to have %d bytes with the digest %s, but %d bytes with %s came",
			a.Path, a.Bytes, a.SHA256, len(data), digest(data))
	}
	switch a.Kind {
	case shared.ArtifactFile:
		s.files = append(s.files, a)
		s.data[a.Path] = data
	case shared.ArtifactDiff:
		s.diff = data
	case shared.ArtifactDiffFromBase:
		s.base = data
	default:
		s.t.Errorf("the artifact %q is of kind %d", a.Path, a.Kind)
	}
	return nil
}
