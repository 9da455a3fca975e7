package adaptertest

import (
	"errors"
	"testing"
	"time"

	"cellharness/shared"
)

// TestFake_HostGone holds that no grace is given when the process itself is about to end.
func TestFake_HostGone(t *testing.T) {
	t.Parallel()
	f := NewFake(FakeName)
	if _, err := f.Configure(t.Context(), shared.Configuration{Settings: FakeSettings(t.TempDir())}); err != nil {
		t.Fatalf("Configure: %v", err)
	}
	p, err := f.Provision(t.Context(), shared.ProvisionSpec{Lease: "lease"})
	if err != nil {
		t.Fatalf("Provision: %v", err)
	}
	w := &space{b: &bench{adapter: f}, t: t, handle: p.Handle}
	c := sh("trap '' TERM; echo ready; " + untilKilled)
	c.Grace = time.Hour
	running := w.start(c)
	running.waitOutput(t)
	began := time.Now()
	f.endAll()
	if _, err := running.wait(t); !errors.Is(err, shared.ErrCancelled) {
		t.Errorf("RunCell after the host has gone: %v, want an error of code %q", err, shared.CodeCancelled)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the command ended after %s", took)
	}
}
