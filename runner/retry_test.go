package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/event"
	"cellharness/runner/record"
	"cellharness/shared"
)

// failing answers every call at a moment with an error.
func failing(at string, err error) func(call) error {
	return func(c call) error {
		if c.at == at && !c.after {
			return err
		}
		return nil
	}
}

func TestRetry_IsForInfrastructureAlone(t *testing.T) {
	t.Parallel()
	internal := func(cause shared.Cause) error {
		return &shared.Error{Code: shared.CodeInternal, Cause: cause, Message: "x"}
	}
	coded := func(code shared.Code) error { return &shared.Error{Code: code, Message: "x"} }
	for name, test := range map[string]struct {
		at       string
		err      error
		cause    shared.Cause
		attempts int
	}{
		"provision":                   {"provision", internal(shared.CauseProvision), shared.CauseProvision, 2},
		"provision without a cause":   {"provision", coded(shared.CodeUnavailable), shared.CauseProvision, 2},
		"adapter crashed":             {"cell", internal(shared.CauseAdapterCrashed), shared.CauseAdapterCrashed, 2},
		"adapter hung":                {"cell", internal(shared.CauseAdapterHung), shared.CauseAdapterHung, 2},
		"quota":                       {"provision", internal(shared.CauseQuota), shared.CauseQuota, 2},
		"quota by its code":           {"provision", coded(shared.CodeExhausted), shared.CauseQuota, 2},
		"remote":                      {"cell", internal(shared.CauseRemote), shared.CauseRemote, 2},
		"repo":                        {"provision", internal(shared.CauseRepo), shared.CauseRepo, 2},
		"crash during collect":        {"collect", internal(shared.CauseAdapterCrashed), shared.CauseAdapterCrashed, 2},
		"setup":                       {"setup", coded(shared.CodeInternal), shared.CauseSetup, 1},
		"seed":                        {"cell", internal(shared.CauseSeed), shared.CauseSeed, 1},
		"ambiguous":                   {"cell", internal(shared.CauseAmbiguous), shared.CauseAmbiguous, 1},
		"an unknown end":              {"cell", coded(shared.CodeInternal), shared.CauseAmbiguous, 1},
		"a command that cannot start": {"cell", coded(shared.CodePrecondition), shared.CauseProvision, 1},
		"protocol":                    {"cell", internal(shared.CauseProtocol), shared.CauseProtocol, 1},
		"collect":                     {"collect", coded(shared.CodeInternal), shared.CauseCollect, 1},
		"verify":                      {"verify", coded(shared.CodeInternal), shared.CauseVerify, 1},
		"auth":                        {"provision", internal(shared.CauseAuth), shared.CauseAuth, 1},
		"auth by its code":            {"provision", coded(shared.CodeUnauthenticated), shared.CauseAuth, 1},
		"storage":                     {"collect", internal(shared.CauseStorage), shared.CauseStorage, 1},
		"invalid":                     {"provision", coded(shared.CodeInvalid), shared.CauseProvision, 1},
		"unsupported":                 {"provision", coded(shared.CodeUnsupported), shared.CauseProvision, 1},
		"not implemented":             {"provision", coded(shared.CodeNotImplemented), shared.CauseProvision, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cell("a")
			setup := step("fake:exit", "0")
			c.Setup, c.Diff, c.Verify = &setup, true, verify("fake:exit", "0")
			w := newWorld(t, c)
			w.adapters.instances[here].hook = failing(test.at, test.err)
			r := w.one()
			wantStatus(t, r, "error passed=null cause="+string(test.cause))
			if r.Attempt != test.attempts || !r.Last {
				t.Errorf("ended with attempt %d, last %t; want %d, true", r.Attempt, r.Last, test.attempts)
			}
			for i, kept := range w.recorded() {
				if kept.Attempt != i+1 || kept.Last != (i+1 == test.attempts) {
					t.Errorf("record %d: attempt %d, last %t", i, kept.Attempt, kept.Last)
				}
				wantStatus(t, kept, "error passed=null cause="+string(test.cause))
			}
			if got := len(w.recorded()); got != test.attempts {
				t.Errorf("%d attempts are recorded, want %d", got, test.attempts)
			}
			w.wantClean()
		})
	}
}

func TestRetry_SetupThatFailsIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, words := range map[string][]string{
		"exit code": {"fake:err", "no such package", "fake:exit", "2"},
		"signal":    {"fake:err", "no such package", "fake:signal", "KILL"},
		"timeout":   {"fake:err", "no such package", "fake:sleep", "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cell("a")
			setup := step(words...)
			setup.Timeout = 50 * time.Millisecond
			c.Setup = &setup
			w := newWorld(t, c)
			w.adapters.instances[here].hook = func(c call) error {
				if c.at == "cell" {
					t.Error("the measured command was run")
				}
				return nil
			}
			r := w.one()
			wantStatus(t, r, "error passed=null cause=setup")
			if r.Attempt != 1 || r.ExitCode != nil {
				t.Errorf("attempt %d, exit code %v; want 1 and none", r.Attempt, r.ExitCode)
			}
			if got := w.stored("a", "setup/stderr.log"); got != "no such package" {
				t.Errorf("setup/stderr.log holds %q", got)
			}
			w.wantClean()
		})
	}
}

func TestRetry_AttemptsDoNotOverlap(t *testing.T) {
	t.Parallel()
	c := cell("a")
	c.Attempts = 4
	w := newWorld(t, c)
	in := w.adapters.instances[here]
	in.faults = []string{"collect error:remote"}
	w.plan.Cells[0].Diff = true
	in.hook = func(c call) error {
		if c.at == "provision" && !c.after {
			if left := in.workspaces(t); len(left) > 0 {
				t.Errorf("the next attempt begins beside %v", left)
			}
		}
		return nil
	}
	r := w.one()
	wantStatus(t, r, "error passed=null cause=remote")
	if r.Attempt != 4 || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("attempt %d, exit code %v; want 4 and the 0 that was seen", r.Attempt, r.ExitCode)
	}
	for n := 1; n <= 4; n++ {
		if _, err := os.Stat(filepath.Join(w.cfg.Folder.Dir(), "cells", "a", string(rune('0'+n)), "result.json")); err != nil {
			t.Error(err)
		}
	}
}

func TestRetry_WaitsAsItSays(t *testing.T) {
	t.Parallel()
	c := cell("a")
	c.Attempts, c.Backoff = 3, 20*time.Millisecond
	w := newWorld(t, c)
	w.adapters.instances[here].hook = failing("provision", &shared.Error{
		Code: shared.CodeExhausted, Message: "slow down", RetryAfter: 30 * time.Millisecond,
	})
	began := time.Now()
	wantStatus(t, w.one(), "error passed=null cause=quota")
	var waits []float64
	for _, e := range eventsOf[*event.CellRetried](w) {
		waits = append(waits, e.Wait)
	}
	if diff := cmp.Diff([]float64{0.03, 0.04}, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	if took := time.Since(began); took < 70*time.Millisecond {
		t.Errorf("took %s, less than the waits", took)
	}
}

func TestRetry_WaitEndsWithTheRun(t *testing.T) {
	t.Parallel()
	c := cell("a")
	c.Backoff = time.Hour
	w := newWorld(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.adapters.instances[here].hook = failing("provision", &shared.Error{Code: shared.CodeUnavailable, Message: "x"})
	w.onEvent = func(e event.Event) {
		if _, ok := e.(*event.CellRetried); ok {
			cancel()
		}
	}
	report := w.run(ctx)
	wantStatus(t, report.Results[1], "cancelled passed=null")
	if got := w.recorded(); len(got) != 2 || got[0].Status != shared.StatusError || !got[1].Last {
		t.Errorf("recorded %v, want the failed attempt and one that was cancelled", got)
	}
	w.wantClean()
}

func TestRetry_SecondAttemptThatIsMeasuredIsTheResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a", "fake:exit", "3"))
	w.adapters.instances[here].faults = []string{"provision error:remote when attempt:1"}
	r := w.one()
	wantStatus(t, r, "completed passed=false")
	if r.Attempt != 2 || r.Cleanup != record.CleanupClean || r.Cause != "" {
		t.Errorf("attempt %d, cleanup %s, cause %q", r.Attempt, r.Cleanup, r.Cause)
	}
}
