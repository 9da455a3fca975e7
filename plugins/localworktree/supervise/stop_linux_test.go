package supervise

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script string
		grace        time.Duration
		signals      []string
		stdout       string
	}{
		{
			"polite", escapees + "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done", 20 * time.Second,
			[]string{"TERM", "CONT"},
			"ready\nbye\n",
		},
		{
			"deaf", escapees + "trap '' TERM; echo ready; while :; do sleep 0.05; done", 300 * time.Millisecond,
			[]string{"TERM", "CONT", "KILL"},
			"ready\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := shell(dir, tc.script)
			c.Grace = tc.grace
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			events := &recorder{}
			_, err := runner(t).Run(ctx, c, func(e shared.Event) error {
				if e.Kind == shared.EventStdout {
					cancel()
				}
				return events.sink(e)
			})
			if !errors.Is(err, shared.ErrCancelled) || !errors.Is(err, context.Canceled) {
				t.Fatalf("error is %v", err)
			}
			wantGone(t, pids(t, filepath.Join(dir, "pids")), escapeeCount)
			if diff := cmp.Diff(tc.signals, events.signals); diff != "" {
				t.Errorf("signals (-want +got):\n%s", diff)
			}
			stored, err := os.ReadFile(c.StdoutPath)
			if err != nil || string(stored) != tc.stdout || events.out() != tc.stdout {
				t.Errorf("stored %q, events %q, error %v", stored, events.out(), err)
			}
		})
	}
}

func TestCancelledBeforeTheStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := shell(t.TempDir(), "exit 0")
	if _, err := runner(t).Run(ctx, c, nil); !errors.Is(err, shared.ErrCancelled) {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(c.StdoutPath); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a spool file: %v", err)
	}
}

// TestClose is not parallel: it has a Runner of its own.
func TestClose(t *testing.T) {
	for _, tc := range []struct {
		name   string
		within time.Duration
		want   error
	}{
		{"with grace", 20 * time.Second, nil},
		{"out of time", 200 * time.Millisecond, context.DeadlineExceeded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			script := escapees + `trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done`
			if tc.want != nil {
				script = escapees + `trap '' TERM; echo ready; while :; do sleep 0.05; done`
			}
			dir := t.TempDir()
			ready, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := r.Run(t.Context(), shell(dir, script), func(e shared.Event) error {
					if e.Kind == shared.EventStdout {
						close(ready)
					}
					return nil
				})
				ended <- err
			}()
			<-ready
			ctx, cancel := context.WithTimeout(t.Context(), tc.within)
			defer cancel()
			begin := time.Now()
			if err := r.Close(ctx); !errors.Is(err, tc.want) {
				t.Errorf("Close: %v, want %v", err, tc.want)
			}
			if took := time.Since(begin); took > 8*time.Second {
				t.Errorf("Close took %s", took)
			}
			if err := <-ended; !errors.Is(err, shared.ErrCancelled) {
				t.Errorf("Run: %v", err)
			}
			wantGone(t, pids(t, filepath.Join(dir, "pids")), escapeeCount)
			if _, err := r.Run(t.Context(), shell(t.TempDir(), "exit 0"), nil); !errors.Is(err, shared.ErrPrecondition) {
				t.Errorf("Run after Close: %v", err)
			}
			if err := r.Close(t.Context()); err != nil {
				t.Errorf("second Close: %v", err)
			}
		})
	}
}

// TestFullDisk runs below a limit of the size of files, which stops a write as a full disk does.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	parent := exec.Command("/bin/sh", "-c", `ulimit -f 100; exec "$@"`, "sh", self, helperArgument, "adapter", dir, "yes; sleep 60; true")
	out, err := parent.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "could not be stored") || !strings.Contains(string(out), dir) {
		t.Errorf("%v: %s", err, out)
	}
	if info, err := os.Stat(filepath.Join(dir, ".stdout")); err != nil || info.Size() == 0 || info.Size() > 100*1024 {
		t.Errorf("stored: %v, error %v", info, err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	levels := Probe(t.Context())
	if took := time.Since(begin); took > 3*probeBound {
		t.Errorf("it took %s", took)
	}
	for _, d := range shared.Dimensions() {
		s, ok := levels[d]
		if !ok || (s.Level < shared.LevelEnforced && s.Reason == "") || (s.Level > shared.LevelNone && s.Mechanism == "") {
			t.Errorf("%s: %s", d, asJSON(s))
		}
	}
	if _, final := probed.get(t.Context()); !final {
		t.Skip("others use the processors: a probe runs out of time")
	}
	levels = Probe(t.Context())
	if diff := cmp.Diff(Probe(t.Context()), levels); diff != "" {
		t.Errorf("two probes of one process differ:\n%s", diff)
	}
}

func TestProbeThatCannotTry(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var cache probeCache
	found, final := cache.get(ctx)
	for d, h := range found {
		if h.Level != shared.LevelNone || !strings.Contains(h.Reason, "did not hold") {
			t.Errorf("%s: %s", d, asJSON(h.Support))
		}
	}
	if final || len(cache.found) > 0 {
		t.Error("what could not be tried is kept")
	}
	if _, err := runner(t).Run(ctx, inBox(shell(t.TempDir(), "exit 0")), nil); !errors.Is(err, shared.ErrCancelled) {
		t.Errorf("error is %v", err)
	}
}

// TestNothingLeaks is not parallel: it counts what the process has.
func TestNothingLeaks(t *testing.T) {
	run := func() {
		c := shell(t.TempDir(), "cat; exit 0")
		c.Stdin = strings.NewReader("text")
		mustRun(t, c)
	}
	run()
	files, routines := openFiles(t), runtime.NumGoroutine()
	for range 20 {
		run()
	}
	eventually(t, 5*time.Second, "as many files and goroutines as before", func() bool {
		return openFiles(t) <= files && runtime.NumGoroutine() <= routines
	})
	if below, err := descendants(os.Getpid()); err != nil || len(below) > 0 {
		t.Errorf("below this process: %v, error %v", below, err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// BenchmarkTrue is the cost of one command with all that surrounds it.
func BenchmarkTrue(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		c := shell(dir, "")
		c.Argv = []string{"/bin/true"}
		if _, err := runner(b).Run(b.Context(), c, nil); err != nil {
			b.Fatal(err)
		}
		for _, path := range []string{c.StdoutPath, c.StderrPath} {
			if err := os.Remove(path); err != nil {
				b.Fatal(err)
			}
		}
	}
}
