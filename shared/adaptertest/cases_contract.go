package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"cellharness/shared"
)

// contractCases hold what is true of the adapter itself.
func contractCases() []testCase {
	return []testCase{
		{"negotiate", testNegotiate},
		{"capabilities", testCapabilities},
		{"configure_twice", testConfigureTwice},
		{"configure_bad_settings", testConfigureBadSettings},
		{"provision_before_configure", testProvisionBeforeConfigure},
		{"pins", testPins},
		{"handle_foreign", testHandleForeign},
		{"handle_unknown_version", testHandleUnknownVersion},
		{"prompt_cell", testPromptCell},
		{"limit_not_to_be_had", testLimitNotToBeHad},
		{"drain_idle", testDrainIdle},
		{"drain_running", testDrainRunning},
	}
}

func testNegotiate(t *testing.T, b *bench) {
	d := b.description
	if d.Name != b.subject.Name {
		t.Errorf("name = %q, want the registered name %q", d.Name, b.subject.Name)
	}
	if d.Version == "" || d.HandleVersion == 0 {
		t.Errorf("version = %q, handle version = %d; want both", d.Version, d.HandleVersion)
	}
	if !d.Fits {
		t.Errorf("a host of version %s does not fit: %s", shared.Version, d.Reason)
	}
	if !d.Serves(shared.ServiceAdapter) {
		t.Errorf("services = %q, want %q among them", d.Services, shared.ServiceAdapter)
	}
	a, _ := b.open(t)
	for range 2 {
		again, err := a.Negotiate(within(t), host())
		if err != nil {
			t.Fatalf("Negotiate: %v", err)
		}
		if again.Name != d.Name || again.Version != d.Version || again.HandleVersion != d.HandleVersion {
			t.Errorf("Negotiate = %+v, want what it said first, %+v", again, d)
		}
	}
}

func testCapabilities(t *testing.T, b *bench) {
	for name, c := range map[string]shared.Capabilities{
		"negotiated": b.description.Capabilities, "configured": b.configured.Capabilities,
	} {
		if c.ColdStart == "" || c.Transfer == "" {
			t.Errorf("%s: cold start %q, transfer %q; want both", name, c.ColdStart, c.Transfer)
		}
		for _, d := range shared.Dimensions() {
			s, said := c.Limits[d]
			switch {
			case !said || s.Level == shared.LevelUnspecified:
				t.Errorf("%s: nothing is said of %s", name, d)
			case s.Level < shared.LevelEnforced && s.Reason == "":
				t.Errorf("%s: %s is at level %s without a reason", name, d, s.Level)
			case s.Level >= shared.LevelBestEffort && s.Mechanism == "":
				t.Errorf("%s: %s is at level %s without a mechanism", name, d, s.Level)
			}
		}
	}
}

func testConfigureTwice(t *testing.T, b *bench) {
	fresh := b.fresh(t)
	_, err := fresh.adapter.Configure(within(t), fresh.cfg)
	wantError(t, "the second Configure", err, shared.ErrPrecondition)
}

func testConfigureBadSettings(t *testing.T, b *bench) {
	a, cfg := b.open(t)
	if _, err := a.Negotiate(within(t), host()); err != nil {
		t.Fatalf("Negotiate: %v", err)
	}
	cfg.Settings = b.subject.BadSettings
	_, err := a.Configure(within(t), cfg)
	wantError(t, "Configure with bad settings", err, shared.ErrInvalid)
	var e *shared.Error
	if !errors.As(err, &e) {
		return
	}
	named := slices.ContainsFunc(e.Violations, func(v shared.Violation) bool {
		return v.Field == b.subject.BadField && v.Message != ""
	})
	if !named {
		t.Errorf("violations = %+v, want one of the field %q that says why", e.Violations, b.subject.BadField)
	}
}

func testProvisionBeforeConfigure(t *testing.T, b *bench) {
	b.needsWorkspaces(t)
	a, _ := b.open(t)
	if _, err := a.Negotiate(within(t), host()); err != nil {
		t.Fatalf("Negotiate: %v", err)
	}
	_, err := a.Provision(within(t), b.spec())
	wantError(t, "Provision before Configure", err, shared.ErrPrecondition)
}

func testPins(t *testing.T, b *bench) {
	for _, ref := range append([]string{""}, b.cfg.Refs...) {
		if !slices.ContainsFunc(b.configured.Pins, func(p shared.Pin) bool { return p.Ref == ref }) {
			t.Errorf("pins = %+v, want one of the ref %q", b.configured.Pins, ref)
		}
	}
}

// onHandle calls every method that takes a handle.
func onHandle(t *testing.T, b *bench, h shared.Handle) map[string]error {
	t.Helper()
	_, run := b.adapter.RunCell(within(t), h, sh("true"), func(shared.Event) error { return nil })
	_, collect := b.adapter.Collect(within(t), h, shared.CollectSpec{Diff: true}, &shelf{t: t})
	_, teardown := b.adapter.Teardown(within(t), h)
	return map[string]error{"RunCell": run, "Collect": collect, "Teardown": teardown}
}

func testHandleForeign(t *testing.T, b *bench) {
	w := b.provision(t)
	h := w.handle
	h.Adapter = "somebody_else"
	for method, err := range onHandle(t, b, h) {
		wantError(t, method+" of another adapter's handle", err, shared.ErrInvalid)
	}
	w.script("true") // nothing was torn down
}

func testHandleUnknownVersion(t *testing.T, b *bench) {
	w := b.provision(t)
	if w.handle.Version != b.description.HandleVersion {
		t.Errorf("the handle is of version %d, %d was negotiated", w.handle.Version, b.description.HandleVersion)
	}
	h := w.handle
	h.Version = 1 << 20
	for method, err := range onHandle(t, b, h) {
		wantError(t, method+" of a handle from the future", err, shared.ErrUnsupported)
	}
	w.script("true")
}

func testPromptCell(t *testing.T, b *bench) {
	w := b.provision(t)
	c := sh("echo prompted")
	c.Kind = shared.PromptCell
	if !b.configured.Capabilities.HostsPromptCells {
		_, err := w.try(within(t), c)
		wantError(t, "a prompt cell", err, shared.ErrUnsupported)
		return
	}
	o := w.run(c)
	o.wantExit(t, 0)
	o.wantOutput(t, "prompted\n", "")
	c.Env = map[string]string{"MODE": "x"}
	c.Seeds = []shared.Seed{seed("seeded", "")}
	_, err := w.try(within(t), c)
	wantError(t, "a prompt cell with an environment", err, shared.ErrInvalid)
	w.script("test ! -e seeded")
}

func testLimitNotToBeHad(t *testing.T, b *bench) {
	limits := map[shared.Dimension]shared.Limits{
		shared.DimensionMemory:     {MemoryBytes: 1 << 30},
		shared.DimensionCPU:        {CPU: 1},
		shared.DimensionProcesses:  {Processes: 100},
		shared.DimensionDisk:       {DiskBytes: 1 << 30},
		shared.DimensionFileSize:   {FileBytes: 1 << 30},
		shared.DimensionOutput:     {OutputBytes: 1 << 20},
		shared.DimensionNetwork:    {NoNetwork: true},
		shared.DimensionFilesystem: {WorkspaceOnly: true},
	}
	w := b.provision(t)
	tried := false
	for d, l := range limits {
		if b.support(d).Level >= shared.LevelEnforced {
			continue
		}
		tried = true
		c := sh("true")
		c.Limits = l
		c.Limits.Require = shared.LevelEnforced
		_, err := w.try(within(t), c)
		wantError(t, "a limit of "+string(d)+" that has to be enforced", err, shared.ErrUnsupported)
	}
	if !tried {
		t.Skip("every limit is enforced")
	}
}

func testDrainIdle(t *testing.T, b *bench) {
	fresh := b.fresh(t)
	w := fresh.provision(t)
	w.script("true")
	if _, err := fresh.adapter.Teardown(within(t), w.handle); err != nil {
		t.Fatalf("Teardown: %v", err)
	}
	report, err := fresh.adapter.Drain(within(t), time.Second)
	if err != nil || report != (shared.DrainReport{}) {
		t.Errorf("Drain of an idle adapter = %+v, %v; want nothing to report", report, err)
	}
	_, err = fresh.adapter.Provision(within(t), fresh.spec())
	wantError(t, "Provision after Drain", err, shared.ErrPrecondition, shared.ErrUnavailable)
}

func testDrainRunning(t *testing.T, b *bench) {
	fresh := b.fresh(t)
	w := fresh.provision(t)
	running := w.start(sh("echo running; sleep 60"))
	running.waitOutput(t)
	began := time.Now()
	report, err := fresh.adapter.Drain(within(t), 100*time.Millisecond)
	if err != nil || report.Ended != 1 {
		t.Errorf("Drain with a command = %+v, %v; want 1 command ended", report, err)
	}
	if took := time.Since(began); took > soon {
		t.Errorf("Drain took %s", took)
	}
	if _, err := running.wait(t); err == nil {
		t.Error("a command that was drained gave a result; want an error")
	}
}

// background is a RunCell that goes on while the test does something else.
type background struct {
	output chan struct{} // closed at the first output
	done   chan struct{} // closed when the call returned
	cancel context.CancelFunc
	result shared.Result
	err    error
}

// start runs a cell in the background until its end or the end of the test.
func (w *space) start(c shared.Cell) *background {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	r := &background{output: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	heard := false
	go func() {
		defer close(r.done)
		r.result, r.err = w.b.adapter.RunCell(ctx, w.handle, c, func(e shared.Event) error {
			if e.Kind == shared.EventStdout && !heard {
				heard = true
				close(r.output)
			}
			return nil
		})
	}()
	w.t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

func (r *background) waitOutput(t *testing.T) {
	t.Helper()
	select {
	case <-r.output:
	case <-r.done:
		t.Fatalf("the command ended without output: %+v, %v", r.result, r.err)
	case <-time.After(patience):
		t.Fatal("no output came while the command ran")
	}
}

func (r *background) wait(t *testing.T) (shared.Result, error) {
	t.Helper()
	select {
	case <-r.done:
		return r.result, r.err
	case <-time.After(soon):
		t.Fatal("RunCell did not return")
		return shared.Result{}, nil
	}
}

// stored returns the handle as it comes back from a record.
func stored(t *testing.T, h shared.Handle) shared.Handle {
	t.Helper()
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatalf("store the handle: %v", err)
	}
	var back shared.Handle
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatalf("read the handle: %v", err)
	}
	return back
}
