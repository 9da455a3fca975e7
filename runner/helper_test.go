package runner_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"cellharness/runner"
	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/state"
	"cellharness/runner/summary"
	"cellharness/shared"
	"cellharness/shared/adaptertest"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// here is the adapter instance of tests that need one.
const here = "here"

// world is everything around an engine: a real folder, a real index of leases, and fake adapters that can die.
type world struct {
	t        *testing.T
	cfg      runner.Config
	plan     *plan.Plan
	adapters *adapters
	judge    *judge
	state    *state.State
	secrets  map[string]string
	onEvent  func(event.Event) // may be nil

	mu     sync.Mutex
	events []event.Event
}

func newWorld(t *testing.T, cells ...plan.Cell) *world {
	t.Helper()
	folder, err := record.Create(t.TempDir(), ulid.Make().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	st, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, adapters: newAdapters(t, here), judge: &judge{}, state: st, secrets: map[string]string{},
		plan: &plan.Plan{
			Schema: plan.Schema, Name: "test", Cells: cells,
			Run:      plan.Settings{Parallelism: 1, Order: plan.OrderSequential},
			Adapters: []plan.Adapter{{Instance: here, Kind: adaptertest.FakeName, Version: "1"}},
			Trials:   []plan.Trial{{Name: "t", Variants: []string{"v"}, Repeat: 1}},
		},
	}
	w.cfg = runner.Config{
		Plan: w.plan, Folder: folder, Adapters: w.adapters, Judge: w.judge, Leases: st, Owner: "owner", Clock: time.Now,
		NewID:  func() string { return ulid.Make().String() },
		Events: event.NewStream(folder.ID(), time.Now, w.take),
		Secret: func(_ context.Context, ref plan.SecretRef) (shared.Secret, error) {
			value, ok := w.secrets[ref.Name]
			if !ok {
				return shared.Secret{}, fmt.Errorf("there is no secret %s", ref.Name)
			}
			return shared.NewSecret(value), nil
		},
	}
	return w
}

func (w *world) take(e event.Event, _ []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	if w.onEvent != nil {
		w.onEvent(e)
	}
}

// eventsOf returns the events of one type so far.
func eventsOf[E event.Event](w *world) []E {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []E
	for _, e := range w.events {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// cell is a cell with two attempts that runs words of the fake adapter.
func cell(name string, words ...string) plan.Cell {
	if len(words) == 0 {
		words = []string{"fake:exit", "0"}
	}
	return plan.Cell{
		Address: "t/" + name, Key: name, Trial: "t", Task: name, Variant: "v", Repeat: 1, Adapter: here, SeedAs: "uncommitted",
		Cell: step(words...), Attempts: 2, Backoff: time.Millisecond,
	}
}

func step(words ...string) plan.Step {
	return plan.Step{Kind: "exec_cell", Entrypoint: words, Timeout: time.Minute}
}

func verify(words ...string) *plan.Verify { return &plan.Verify{Step: step(words...)} }

// blob stores a content that cells of the plan can speak of.
func (w *world) blob(text string) plan.Blob {
	w.t.Helper()
	sum := sha256.Sum256([]byte(text))
	b := plan.Blob{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text))}
	name := filepath.Join(w.cfg.Folder.Dir(), "blobs", b.SHA256)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// run runs the plan to its end.
func (w *world) run(ctx context.Context) runner.Report {
	w.t.Helper()
	report, err := w.tryRun(ctx)
	if err != nil {
		w.t.Fatalf("Run: %v", err)
	}
	return report
}

func (w *world) tryRun(ctx context.Context) (runner.Report, error) {
	w.t.Helper()
	type outcome struct {
		report runner.Report
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		report, err := runner.Run(ctx, w.cfg)
		ended <- outcome{report, err}
	}()
	select {
	case o := <-ended:
		return o.report, o.err
	case <-time.After(patience):
		w.t.Fatalf("Run has not returned after %s", patience)
		return runner.Report{}, nil
	}
}

// one runs a plan of one cell and returns the result of its last attempt.
func (w *world) one() record.Result {
	w.t.Helper()
	results := w.run(w.t.Context()).Results
	last := slices.DeleteFunc(slices.Clone(results), func(r record.Result) bool { return !r.Last })
	if len(last) != 1 {
		w.t.Fatalf("%d of %d results are the last of their cell, want 1", len(last), len(results))
	}
	return last[0]
}

// recorded returns what the journal holds.
func (w *world) recorded() []record.Result {
	w.t.Helper()
	results, err := w.cfg.Folder.Results()
	if err != nil {
		w.t.Fatal(err)
	}
	return results
}

// openLeases returns the leases that are open in the journal, and those in the machine's index.
func (w *world) openLeases() (journal, index []string) {
	w.t.Helper()
	entries, err := w.cfg.Folder.Entries()
	if err != nil {
		w.t.Fatal(err)
	}
	open, err := record.OpenLeases(entries)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range open {
		journal = append(journal, l.Lease)
	}
	leases, err := w.state.Leases()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range leases {
		index = append(index, l.Lease)
	}
	return journal, index
}

// wantClean checks that no workspace and no lease is left.
func (w *world) wantClean() {
	w.t.Helper()
	if journal, index := w.openLeases(); len(journal)+len(index) > 0 {
		w.t.Errorf("leases left open: journal %v, index %v", journal, index)
	}
	for name, in := range w.adapters.instances {
		if left := in.workspaces(w.t); len(left) > 0 {
			w.t.Errorf("workspaces of %s left: %v", name, left)
		}
	}
}

// stored reads a file of the first attempt of a cell.
func (w *world) stored(key, name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.path(key, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) path(key, name string) string {
	return filepath.Join(w.cfg.Folder.Dir(), "cells", key, "1", filepath.FromSlash(name))
}

func statusOf(r record.Result) string {
	passed := "null"
	if r.Passed != nil {
		passed = fmt.Sprint(*r.Passed)
	}
	text := fmt.Sprintf("%s passed=%s", r.Status, passed)
	if r.Cause != "" {
		text += " cause=" + string(r.Cause)
	}
	return text
}

func wantStatus(t *testing.T, r record.Result, want string) {
	t.Helper()
	if got := statusOf(r); got != want {
		t.Errorf("cell %s attempt %d: %s, want %s (message %q)", r.Cell, r.Attempt, got, want, r.Message)
	}
}

// judge evaluates late expressions by functions of the test.
type judge struct {
	pass      func(runner.CommandOutcome) (bool, error)
	metric    func(record.Result, string) (*json.Number, error)
	condition func(summary.Stat) (bool, error)
}

func (j *judge) Pass(_ plan.Expr, o runner.CommandOutcome) (bool, error) { return j.pass(o) }

func (j *judge) Metric(_ plan.Expr, r record.Result, stdout, _ []byte) (*json.Number, error) {
	return j.metric(r, string(stdout))
}

func (j *judge) Condition(_ plan.Expr, s summary.Stat, _ map[string]summary.Versus) (bool, error) {
	return j.condition(s)
}
