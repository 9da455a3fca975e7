package pluginhost

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellharness/shared"
	"cellharness/shared/adaptertest"
)

// artifacts takes what Collect brings.
type artifacts struct {
	content strings.Builder
	ends    []shared.Artifact
}

func (a *artifacts) Begin(shared.ArtifactKind, string) error { return nil }
func (a *artifacts) Write(data []byte) (int, error)          { return a.content.Write(data) }
func (a *artifacts) End(end shared.Artifact) error           { a.ends = append(a.ends, end); return nil }

// startFake starts the fake adapter, a whole one.
func startFake(t *testing.T, faults ...string) (*Host, *Process) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, adaptertest.FakeBinary)); err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(map[string]any{"root": t.TempDir(), "faults": faults})
	if err != nil {
		t.Fatal(err)
	}
	h := newTestHost(t, dir, func(c *Config) { c.Kinds = []shared.Kind{adaptertest.FakeKind()} })
	h.timing.exit = 500 * time.Millisecond
	p, err := h.Start(testContext(t), Instance{
		Name: "a", Kind: adaptertest.FakeName,
		Configuration: shared.Configuration{Instance: "a", Owner: "owner", Settings: settings},
	})
	if err != nil {
		t.Fatalf("Start(): %v", err)
	}
	return h, p
}

func provision(t *testing.T, p *Process, lease string) shared.Handle {
	t.Helper()
	got, err := p.Provision(testContext(t), shared.ProvisionSpec{
		Lease: lease, Lifetime: time.Minute,
		Labels: shared.Labels{Owner: "owner", Run: "01J00000000000000000000000", Instance: "a", Cell: "cell", Attempt: 1},
	})
	if err != nil {
		t.Fatalf("Provision(): %v", err)
	}
	return got.Handle
}

func TestFake_WholeLife(t *testing.T) {
	t.Parallel()
	h, p := startFake(t)
	handle := provision(t, p, "01J00000000000000000000001")
	var output strings.Builder
	result, err := p.RunCell(testContext(t), handle, testCell("/bin/sh", "-c", "echo hello; echo kept >out"), func(e shared.Event) error {
		if e.Kind == shared.EventStdout {
			output.Write(e.Data)
		}
		return nil
	})
	if err != nil || result.Status != shared.StatusCompleted || output.String() != "hello\n" {
		t.Errorf("RunCell() = %s with %q, %v", result.Status, output.String(), err)
	}
	var got artifacts
	if _, err := p.Collect(testContext(t), handle, shared.CollectSpec{Patterns: []shared.Pattern{"out"}}, &got); err != nil {
		t.Fatalf("Collect(): %v", err)
	}
	if got.content.String() != "kept\n" || len(got.ends) != 1 || got.ends[0].State != shared.ArtifactPresent {
		t.Errorf("Collect() brought %q, %+v", got.content.String(), got.ends)
	}
	found, err := p.Find(testContext(t), shared.Labels{Owner: "owner"})
	if err != nil || len(found) != 1 {
		t.Errorf("Find() = %v, %v; want the one workspace", found, err)
	}
	report, err := p.Teardown(testContext(t), handle)
	if err != nil || !report.Complete() {
		t.Errorf("Teardown() = %+v, %v", report, err)
	}
	if err := h.Stop(testContext(t)); err != nil {
		t.Errorf("Stop(): %v", err)
	}
}

func TestFake_BreaksTheContract(t *testing.T) {
	t.Parallel()
	h, p := startFake(t, "collect lie:digest")
	handle := provision(t, p, "01J00000000000000000000001")
	if _, err := p.RunCell(testContext(t), handle, testCell("/bin/sh", "-c", "echo kept >out"), func(shared.Event) error { return nil }); err != nil {
		t.Fatalf("RunCell(): %v", err)
	}
	_, err := p.Collect(testContext(t), handle, shared.CollectSpec{Patterns: []shared.Pattern{"out"}}, &artifacts{})
	if !errors.Is(err, shared.OfCause(shared.CauseProtocol)) {
		t.Errorf("Collect() = %v, want CauseProtocol", err)
	}
	if _, err := p.Find(testContext(t), shared.Labels{}); !errors.Is(err, shared.OfCause(shared.CauseProtocol)) ||
		!strings.Contains(errorText(err), "broke the contract and was ended") {
		t.Errorf("Find() afterwards = %v, want what ended the generation", err)
	}
	next := acquire(t, h)
	found, err := next.Find(testContext(t), shared.Labels{Owner: "owner"})
	if err != nil || len(found) != 1 {
		t.Fatalf("Find() of generation %d = %v, %v; want the workspace of the first", next.Generation(), found, err)
	}
	if report, err := next.Teardown(testContext(t), found[0].Handle); err != nil || !report.Complete() {
		t.Errorf("Teardown() = %+v, %v", report, err)
	}
}
