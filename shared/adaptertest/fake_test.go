package adaptertest_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
	"cellharness/shared/adaptertest"
	"cellharness/shared/wire"
)

// lab is a fake adapter with one workspace.
type lab struct {
	adapter shared.Adapter
	cfg     shared.Configuration
	handle  shared.Handle
}

// configure makes the adapter ready.
func configure(t *testing.T, a shared.Adapter, faults ...string) lab {
	t.Helper()
	cfg := configuration(t, faults...)
	if _, err := a.Configure(t.Context(), cfg); err != nil {
		t.Fatalf("Configure: %v", err)
	}
	return lab{adapter: a, cfg: cfg}
}

func (l lab) provision(t *testing.T, key string) (lab, error) {
	t.Helper()
	p, err := l.adapter.Provision(t.Context(), shared.ProvisionSpec{
		Lease: "lease-" + key, Labels: shared.Labels{Owner: l.cfg.Owner, Run: "run", Cell: key, Attempt: 1},
	})
	l.handle = p.Handle
	return l, err
}

func newLab(t *testing.T, faults ...string) lab {
	t.Helper()
	l, err := configure(t, adaptertest.NewFake(adaptertest.FakeName), faults...).provision(t, "key")
	if err != nil {
		t.Fatalf("Provision: %v", err)
	}
	return l
}

// answer is what came of a cell.
type answer struct {
	Out, Err string
	Signals  []string
	Status   shared.Status
	ExitCode int64 // -1: none
	Signal   string
}

func (l lab) run(ctx context.Context, c shared.Cell) (answer, error) {
	a := answer{ExitCode: -1}
	r, err := l.adapter.RunCell(ctx, l.handle, c, func(e shared.Event) error {
		switch e.Kind {
		case shared.EventStdout:
			a.Out += string(e.Data)
		case shared.EventStderr:
			a.Err += string(e.Data)
		case shared.EventSignal:
			a.Signals = append(a.Signals, e.Signal)
		}
		return nil
	})
	a.Status, a.Signal = r.Status, r.Signal
	if r.ExitCode != nil {
		a.ExitCode = *r.ExitCode
	}
	return a, err
}

func quick(argv ...string) shared.Cell {
	return shared.Cell{
		Address: "trial/task/variant#1", Phase: shared.PhaseCell, Kind: shared.ExecCell, Argv: argv, Timeout: time.Minute,
		Env: map[string]string{"NAME": "value"},
	}
}

func TestFake_Quick(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		argv    []string
		timeout time.Duration
		want    answer
	}{
		"nothing ends with 0": {argv: []string{"fake:out", ""}, want: answer{Status: shared.StatusCompleted}},
		"output and exit code": {
			argv: []string{"fake:out", "a b\n", "fake:err", "bad", "fake:out", "c", "fake:exit", "3", "fake:out", "never"},
			want: answer{Out: "a b\nc", Err: "bad", Status: shared.StatusCompleted, ExitCode: 3},
		},
		"signal": {
			argv: []string{"fake:signal", "KILL"},
			want: answer{Signals: []string{"KILL"}, Status: shared.StatusCompleted, ExitCode: -1, Signal: "KILL"},
		},
		"sleep": {argv: []string{"fake:sleep", "1ms", "fake:exit", "2"}, want: answer{Status: shared.StatusCompleted, ExitCode: 2}},
		"timeout": {
			argv: []string{"fake:out", "kept", "fake:sleep", "1h"}, timeout: 10 * time.Millisecond,
			want: answer{Out: "kept", Signals: []string{"TERM"}, Status: shared.StatusTimedOut, ExitCode: -1, Signal: "TERM"},
		},
		"files": {
			argv: []string{"fake:write", "a/b=text=1", "fake:cat", "a/b", "fake:cat", "base.txt.none"},
			want: answer{Out: "text=1", Err: "in the workspace: openat base.txt.none: no such file or directory\n", Status: shared.StatusCompleted, ExitCode: 1},
		},
		"variable": {argv: []string{"fake:env", "NAME"}, want: answer{Out: "value", Status: shared.StatusCompleted}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := quick(c.argv...)
			if c.timeout > 0 {
				cell.Timeout = c.timeout
			}
			got, err := newLab(t).run(t.Context(), cell)
			if err != nil {
				t.Fatalf("RunCell: %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFake_QuickRefuses(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{
		{"fake:exit"}, {"fake:exit", "x"}, {"fake:sleep", "long"}, {"fake:dance", ""}, {"fake:write", "../x=y"},
	} {
		if got, err := newLab(t).run(t.Context(), quick(argv...)); !errors.Is(err, shared.ErrPrecondition) {
			t.Errorf("RunCell(%q) = %+v, %v; want an error of code %q", argv, got, err, shared.CodePrecondition)
		}
	}
}

func TestFake_FaultOfEachCall(t *testing.T) {
	t.Parallel()
	auth := shared.OfCause(shared.CauseAuth)
	for _, at := range []string{"negotiate", "configure", "provision", "run_cell", "cell", "collect", "teardown", "find", "drain"} {
		for _, suffix := range []string{"", ".end"} {
			t.Run(at+suffix, func(t *testing.T) {
				t.Parallel()
				a := adaptertest.NewFake(adaptertest.FakeName, fault(at+suffix+" error:auth"))
				errs := everyCall(t, a)
				want := strings.Replace(at, "cell", "run_cell", 1)
				if at == "run_cell" {
					want = at
				}
				for call, err := range errs {
					if (call == want) != errors.Is(err, auth) {
						t.Errorf("%s with a fault at %s: %v", call, at+suffix, err)
					}
				}
			})
		}
	}
}

// everyCall makes every call once and returns their errors.
func everyCall(t *testing.T, a shared.Adapter) map[string]error {
	errs := map[string]error{}
	ctx := t.Context()
	cfg := configuration(t)
	_, errs["negotiate"] = a.Negotiate(ctx, shared.HostInfo{})
	_, errs["configure"] = a.Configure(ctx, cfg)
	l, err := lab{adapter: a, cfg: cfg}.provision(t, "key")
	errs["provision"] = err
	_, errs["run_cell"] = l.run(ctx, quick("fake:exit", "0"))
	_, errs["collect"] = a.Collect(ctx, l.handle, shared.CollectSpec{}, nil)
	_, errs["teardown"] = a.Teardown(ctx, l.handle)
	_, errs["find"] = a.Find(ctx, shared.Labels{})
	_, errs["drain"] = a.Drain(ctx, 0)
	return errs
}

func TestFake_FaultConditions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault string
		hits  []bool // of three calls
	}{
		"every call":        {"run_cell error:remote", []bool{true, true, true}},
		"second call":       {"run_cell error:remote when call:2", []bool{false, true, false}},
		"address":           {"run_cell error:remote when cell:/variant#", []bool{true, true, true}},
		"key":               {"run_cell error:remote when cell:key", []bool{true, true, true}},
		"other cell":        {"run_cell error:remote when cell:other", []bool{false, false, false}},
		"attempt":           {"run_cell error:remote when attempt:1,call:3", []bool{false, false, true}},
		"other attempt":     {"run_cell error:remote when attempt:2", []bool{false, false, false}},
		"phase":             {"cell error:remote", []bool{true, true, true}},
		"other phase":       {"verify error:remote", []bool{false, false, false}},
		"frame of output":   {"output sleep:1ms", []bool{false, false, false}},
		"slow, no fault":    {"run_cell late:1ms", []bool{false, false, false}},
		"failing at output": {"output error:remote", []bool{false, false, false}}, // stops the events, never the command
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSettings, inCell := newLab(t, c.fault), newLab(t)
			cell := quick("fake:out", "x")
			for i, want := range c.hits {
				if _, err := inSettings.run(t.Context(), cell); errors.Is(err, shared.ErrUnavailable) != want {
					t.Errorf("call %d with the fault in the settings: %v, want it hit: %t", i+1, err, want)
				}
			}
			if strings.Contains(c.fault, "call:") {
				return // every cell counts for itself
			}
			cell.Env = map[string]string{adaptertest.FaultEnv: "collect error:quota; " + c.fault}
			if _, err := inCell.run(t.Context(), cell); errors.Is(err, shared.ErrUnavailable) != c.hits[0] {
				t.Errorf("with the fault in the cell: %v, want it hit: %t", err, c.hits[0])
			}
			_, err := inCell.adapter.Collect(t.Context(), inCell.handle, shared.CollectSpec{}, nil)
			if !errors.Is(err, shared.OfCause(shared.CauseQuota)) {
				t.Errorf("Collect after a cell with a fault at collect: %v", err)
			}
		})
	}
}

func TestFake_Block(t *testing.T) {
	t.Parallel()
	l := newLab(t, "run_cell block")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got, err := l.run(ctx, quick("fake:exit", "0")); !errors.Is(err, shared.ErrTimeout) {
		t.Errorf("RunCell that blocks = %+v, %v; want a timeout", got, err)
	}
}

func TestFake_Leak(t *testing.T) {
	t.Parallel()
	l := newLab(t, "teardown leak when call:1")
	for _, want := range []shared.ResourceState{shared.ResourceLeaked, shared.ResourceRemoved, shared.ResourceAbsent} {
		report, err := l.adapter.Teardown(t.Context(), l.handle)
		if err != nil || len(report.Resources) != 1 || report.Resources[0].State != want {
			t.Errorf("Teardown = %+v, %v; want the state %d", report, err, want)
		}
		if _, err := os.Stat(l.handle.Root); (err == nil) != (want == shared.ResourceLeaked) {
			t.Errorf("the workspace, said to be in state %d: %v", want, err)
		}
	}
}

func TestFake_Panic(t *testing.T) {
	t.Parallel()
	client, stop, err := wire.InProcess(adaptertest.NewFake(adaptertest.FakeName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	l := configure(t, client, "find panic when call:1")
	if _, err := l.adapter.Find(t.Context(), shared.Labels{}); !errors.Is(err, shared.ErrInternal) {
		t.Errorf("Find that panics: %v, want an error of code %q", err, shared.CodeInternal)
	}
	if _, err := l.adapter.Find(t.Context(), shared.Labels{}); err != nil {
		t.Errorf("Find after a panic: %v", err)
	}
}

func TestParseFault_Refuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "run_cell", "nowhere exit:1", "run_cell fly", "run_cell exit:x", "run_cell sleep:x", "run_cell late:x",
		"run_cell error:bug", "run_cell lie:truth", "run_cell kill when", "run_cell kill when call:x", "run_cell kill when moon:full",
	} {
		if f, err := adaptertest.ParseFault(text); err == nil {
			t.Errorf("ParseFault(%q) = %+v, want an error", text, f)
		}
	}
}

func TestFakeKind(t *testing.T) {
	t.Parallel()
	var settings []byte
	values := map[shared.SettingType]string{
		shared.SettingPath: `"/somewhere"`, shared.SettingString: `"x"`, shared.SettingEnvironment: `["PATH"]`,
		shared.SettingStrings: `[]`, shared.SettingBool: `false`,
	}
	for _, s := range adaptertest.FakeKind().Settings.Settings {
		if !s.Host {
			settings = append(settings, `,"`+s.Name+`":`+values[s.Type]...)
		}
	}
	settings = append([]byte("{"), append(settings[1:], '}')...)
	configured, err := adaptertest.NewFake(adaptertest.FakeName).Configure(t.Context(), shared.Configuration{Settings: settings})
	if err != nil {
		t.Fatalf("Configure with every setting of the kind, %s: %v", settings, err)
	}
	if c := configured.Capabilities; c.HostsPromptCells || c.StartsFromPatch {
		t.Errorf("capabilities = %+v, want those of the settings", c)
	}
}

func TestFake_Violations(t *testing.T) {
	t.Parallel()
	cfg := configuration(t)
	cfg.Settings = []byte(`{"root": "x", "color": "red", "enforced": ["luck"], "faults": ["x"], "base": "no-such-base", "hosts_prompt_cells": 3}`)
	cfg.Refs = []string{"v1", "no-such-tag"}
	_, err := adaptertest.NewFake(adaptertest.FakeName).Configure(t.Context(), cfg)
	var refused *shared.Error
	if !errors.As(err, &refused) || refused.Code != shared.CodeInvalid {
		t.Fatalf("Configure: %v, want an error of code %q", err, shared.CodeInvalid)
	}
	var fields []string
	for _, v := range refused.Violations {
		fields = append(fields, v.Field)
	}
	want := []string{"color", "hosts_prompt_cells", "faults", "root", "enforced", "base", `ref["no-such-tag"]`}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields of the violations (-want +got):\n%s", diff)
	}
}

// BenchmarkFake_QuickCell is the cost of a cell to tests of the engine.
func BenchmarkFake_QuickCell(b *testing.B) {
	a := adaptertest.NewFake(adaptertest.FakeName)
	if _, err := a.Configure(b.Context(), shared.Configuration{Settings: adaptertest.FakeSettings(b.TempDir())}); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		p, err := a.Provision(b.Context(), shared.ProvisionSpec{Lease: strconv.Itoa(i)})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := a.RunCell(b.Context(), p.Handle, quick("fake:out", "x"), func(shared.Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if _, err := a.Teardown(b.Context(), p.Handle); err != nil {
			b.Fatal(err)
		}
	}
}
