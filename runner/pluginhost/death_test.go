package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

// crashes collects what OnCrash is told.
type crashes struct {
	mu   sync.Mutex
	list []Crash
}

func (c *crashes) add(crash Crash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, crash)
}

func (c *crashes) all() []Crash {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Crash(nil), c.list...)
}

func TestCrash_InACall(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		argv []string
		exit string
		want string // a regular expression
		tail []string
	}{
		"killed": {
			[]string{"kill"},
			"killed by signal 9, SIGKILL",
			`adapter test_adapter\.a stopped \(killed by signal 9, SIGKILL\) during RunCell; its last lines: one \| two; its log is \S+/a\.log`,
			[]string{"one", "two"},
		},
		"exit": {
			[]string{"exit", "3"},
			"exit status 3",
			`adapter test_adapter\.a stopped \(exit status 3\) during RunCell; its last lines: last words; its log is \S+/a\.log`,
			[]string{"last words"},
		},
		"panic in a goroutine": {
			[]string{"panic"},
			"exit status 2",
			`adapter test_adapter\.a stopped \(exit status 2\) during RunCell; its last lines: panic: lost my mind; its log is \S+/a\.log`, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen crashes
			h := newTestHost(t, program(t), func(c *Config) { c.OnCrash = seen.add })
			p, other := start(t, h, "a"), start(t, h, "b")
			began := time.Now()
			err := run(t, p, test.argv...)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("the crash was seen after %s", took)
			}
			if !errors.Is(err, &shared.Error{Code: shared.CodeUnavailable, Cause: shared.CauseAdapterCrashed}) {
				t.Errorf("RunCell() = %#v, want CodeUnavailable, CauseAdapterCrashed", err)
			}
			if !regexp.MustCompile("^" + test.want + "$").MatchString(errorText(err)) {
				t.Errorf("RunCell() = %q\nwant %q", errorText(err), test.want)
			}
			checkCrash(t, &seen, test.exit, test.tail)
			checkSuccessor(t, h, p, other)
		})
	}
}

func checkCrash(t *testing.T, seen *crashes, exit string, tail []string) {
	t.Helper()
	got := seen.all()
	if len(got) != 1 || got[0].Instance != "a" || got[0].Generation != 1 || got[0].Exit != exit {
		t.Errorf("OnCrash got %+v, want one of generation 1 of a, %s", got, exit)
		return
	}
	if tail == nil {
		return
	}
	plain := got[0].LastLines[max(0, len(got[0].LastLines)-len(tail)):]
	if diff := cmp.Diff(tail, plain); diff != "" {
		t.Errorf("last lines, -want +got:\n%s", diff)
	}
}

// checkSuccessor wants a second generation of a that works, and b as it was.
func checkSuccessor(t *testing.T, h *Host, dead, other *Process) {
	t.Helper()
	if _, err := dead.Find(testContext(t), shared.Labels{}); !errors.Is(err, shared.OfCause(shared.CauseAdapterCrashed)) {
		t.Errorf("Find() on the dead generation = %v, want CauseAdapterCrashed", err)
	}
	next, err := h.Acquire(testContext(t), "a")
	if err != nil {
		t.Fatalf("Acquire(): %v", err)
	}
	if next.Generation() != 2 || next.Digest() != dead.Digest() {
		t.Errorf("Acquire() = generation %d of %s, want 2 of %s", next.Generation(), next.Digest(), dead.Digest())
	}
	if err := run(t, next, "ok"); err != nil {
		t.Errorf("RunCell() on generation 2: %v", err)
	}
	if again, err := h.Acquire(testContext(t), "b"); err != nil || again != other {
		t.Errorf("Acquire(b) = %v, %v; want the process that was there", again, err)
	}
	if err := run(t, other, "ok"); err != nil {
		t.Errorf("RunCell() on the other instance: %v", err)
	}
}

func TestSpokenError_IsNoDeath(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, program(t), nil)
	p := start(t, h, "a")
	err := run(t, p, "fail")
	if !errors.Is(err, &shared.Error{Code: shared.CodeUnavailable, Cause: shared.CauseRemote}) {
		t.Errorf("RunCell() = %#v, want the adapter's own error", err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = p.RunCell(ctx, testHandle(), testCell("block"), func(shared.Event) error { return nil })
	if !errors.Is(err, shared.ErrCancelled) {
		t.Errorf("RunCell(cancelled) = %v, want CodeCancelled", err)
	}
	if again, err := h.Acquire(testContext(t), "a"); err != nil || again != p {
		t.Errorf("Acquire() = %v, %v; want the same generation", again, err)
	}
}

func TestHung_Call(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		behaviour string
		call      func(context.Context, *Process) error
		rpc       string
	}{
		"find": {"stopin find", func(ctx context.Context, p *Process) error {
			_, err := p.Find(ctx, shared.Labels{})
			return err
		}, "Find"},
		"teardown": {"stopin teardown", func(ctx context.Context, p *Process) error {
			_, err := p.Teardown(ctx, testHandle())
			return err
		}, "Teardown"},
		"provision that blocks": {"", func(ctx context.Context, p *Process) error {
			_, err := p.Provision(ctx, shared.ProvisionSpec{Lease: "L", Ref: "block", Lifetime: time.Minute, Labels: shared.Labels{
				Owner: "o", Run: "r", Instance: "a", Cell: "c", Attempt: 1,
			}})
			return err
		}, "Provision"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := program(t, test.behaviour)
			h := newTestHost(t, dir, nil)
			p := start(t, h, "a")
			pid := p.child.pid()
			ctx, cancel := context.WithTimeout(testContext(t), time.Second)
			defer cancel()
			err := test.call(ctx, p)
			if !errors.Is(err, shared.OfCause(shared.CauseAdapterHung)) || !strings.Contains(errorText(err), "during "+test.rpc) {
				t.Errorf("%s() = %v, want CauseAdapterHung that names the call", test.rpc, err)
			}
			eventually(t, 6*time.Second, "end of the process", func() bool { return gone(pid) })
			behave(t, dir)
			if next, err := h.Acquire(testContext(t), "a"); err != nil || next.Generation() != 2 {
				t.Errorf("Acquire() = %v, %v; want generation 2", next, err)
			}
		})
	}
}

func TestHung_Health(t *testing.T) {
	t.Parallel()
	var seen crashes
	h := newTestHost(t, program(t), func(c *Config) { c.OnCrash = seen.add })
	h.timing.healthPeriod, h.timing.healthWait = 100*time.Millisecond, 100*time.Millisecond
	p := start(t, h, "a")
	began := time.Now()
	err := run(t, p, "stop")
	if !errors.Is(err, shared.OfCause(shared.CauseAdapterHung)) {
		t.Errorf("RunCell() = %v, want CauseAdapterHung", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the hang was seen after %s", took)
	}
	if got := seen.all(); len(got) != 1 || !strings.Contains(got[0].Exit, "health") {
		t.Errorf("OnCrash got %+v, want one that speaks of health", got)
	}
}

func TestCrash_OutputHeldByAnother(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, program(t), nil)
	p := start(t, h, "a")
	pidFile := filepath.Join(t.TempDir(), "pid")
	if err := run(t, p, "orphan", pidFile); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(orphan, syscall.SIGKILL) })
	began := time.Now()
	err = run(t, p, "kill")
	if took := time.Since(began); !errors.Is(err, shared.OfCause(shared.CauseAdapterCrashed)) || took > 2*time.Second {
		t.Errorf("RunCell() = %v after %s, want CauseAdapterCrashed at once", err, took)
	}
	if gone(orphan) {
		t.Error("the process that held the output had ended; the test shows nothing")
	}
	next, err := h.Acquire(testContext(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t, next, "ok"); err != nil {
		t.Error(err)
	}
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	t.Run("deaths", func(t *testing.T) {
		t.Parallel()
		h := newTestHost(t, program(t), nil)
		p := start(t, h, "a")
		for range maxDeaths - 1 {
			_ = run(t, p, "kill")
			p = acquire(t, h)
		}
		p.Succeeded() // forgives all of them
		for range maxDeaths - 1 {
			_ = run(t, p, "kill")
			p = acquire(t, h)
		}
		_ = run(t, p, "kill")
		_, err := h.Acquire(testContext(t), "a")
		if !errors.Is(err, shared.OfCause(shared.CauseAdapterCrashed)) ||
			!strings.Contains(errorText(err), "died 5 times within 1m0s and is not started again; the last time: ") {
			t.Errorf("Acquire() = %v, want a refusal with the last diagnosis", err)
		}
	})
	t.Run("launches", func(t *testing.T) {
		t.Parallel()
		dir := program(t)
		h := newTestHost(t, dir, nil)
		_ = run(t, start(t, h, "a"), "kill")
		behave(t, dir, "exit 4")
		for i := range maxFailures {
			_, err := h.Acquire(testContext(t), "a")
			if !errors.Is(err, shared.OfCause(shared.CauseAdapterCrashed)) || strings.Contains(errorText(err), "in a row") {
				t.Fatalf("Acquire() number %d = %v, want its own failure, with CauseAdapterCrashed", i+1, err)
			}
		}
		behave(t, dir)
		_, err := h.Acquire(testContext(t), "a")
		if !strings.Contains(errorText(err), "could not be started 3 times in a row") || !strings.Contains(errorText(err), "exit status 4") {
			t.Errorf("Acquire() = %v, want a refusal with the last diagnosis", err)
		}
	})
}

func acquire(t *testing.T, h *Host) *Process {
	t.Helper()
	p, err := h.Acquire(testContext(t), "a")
	if err != nil {
		t.Fatalf("Acquire(): %v", err)
	}
	return p
}

func TestAcquire_Drift(t *testing.T) {
	t.Parallel()
	dir := program(t)
	h := newTestHost(t, dir, nil)
	_ = run(t, start(t, h, "a"), "kill")
	behave(t, dir, "version 9.9.9")
	_, err := h.Acquire(testContext(t), "a")
	if !errors.Is(err, shared.OfCause(shared.CauseProtocol)) || !strings.Contains(errorText(err), `version "9.9.9", was "0.1.0"`) {
		t.Errorf("Acquire(other version) = %v, want CauseProtocol with both versions", err)
	}
	path := filepath.Join(dir, adapterBinary)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	writeScript(t, path, "#!/bin/sh\ntouch '"+dir+"/ran'\n")
	_, err = h.Acquire(testContext(t), "a")
	if !errors.Is(err, shared.OfCause(shared.CauseProtocol)) || !strings.Contains(errorText(err), "is another program") {
		t.Errorf("Acquire(other program) = %v, want CauseProtocol", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the other program ran")
	}
}

func TestAcquire_LaunchesOnce(t *testing.T) {
	t.Parallel()
	var ready sync.Map
	h := newTestHost(t, program(t), func(c *Config) { c.OnReady = func(r Ready) { ready.Store(r.Generation, r) } })
	_ = run(t, start(t, h, "a"), "kill")
	processes := make([]*Process, 16)
	var callers sync.WaitGroup
	for i := range processes {
		callers.Go(func() { processes[i], _ = h.Acquire(testContext(t), "a") })
	}
	callers.Wait()
	for i, p := range processes {
		if p == nil || p != processes[0] || p.Generation() != 2 {
			t.Errorf("caller %d got %v, want generation 2 as all others", i, p)
		}
	}
	if _, third := ready.Load(3); third {
		t.Error("a third generation was launched")
	}
	r, ok := ready.Load(2)
	if got, want := fmt.Sprint(r.(Ready).Instance, r.(Ready).Kind, r.(Ready).Version), fmt.Sprint("a", testKind().Name, shared.Version); !ok || got != want {
		t.Errorf("OnReady got %v, want %v", got, want)
	}
}
