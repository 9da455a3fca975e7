package supervise

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

// end is the part of a result that says how a command ended.
type end struct {
	Status shared.Status
	Code   int64 // -1: none
	Signal string
	Limit  shared.Dimension
}

func endOf(r shared.Result) end {
	e := end{Status: r.Status, Code: -1, Signal: r.Signal, Limit: r.Limit}
	if r.ExitCode != nil {
		e.Code = *r.ExitCode
	}
	return e
}

func TestEndOfCommand(t *testing.T) {
	t.Parallel()
	done, late := shared.StatusCompleted, shared.StatusTimedOut
	for _, tc := range []struct {
		name, script   string
		timeout, grace time.Duration
		want           end
	}{
		{name: "exit 0", script: "exit 0", want: end{done, 0, "", ""}},
		{name: "exit 1", script: "exit 1", want: end{done, 1, "", ""}},
		{name: "exit 124", script: "exit 124", want: end{done, 124, "", ""}},
		{name: "exit 137", script: "exit 137", want: end{done, 137, "", ""}},
		{name: "exit 255", script: "exit 255", want: end{done, 255, "", ""}},
		{name: "killed", script: "kill -KILL $$", want: end{done, -1, "KILL", ""}},
		{name: "terminated", script: "kill -TERM $$", want: end{done, -1, "TERM", ""}},
		{name: "aborted", script: "kill -ABRT $$", want: end{done, -1, "ABRT", ""}},
		{name: "hung up", script: "kill -HUP $$", want: end{done, -1, "HUP", ""}},
		{name: "real-time signal", script: "kill -40 $$", want: end{done, -1, "40", ""}},
		{name: "a shell's 128+n", script: "sh -c 'kill -KILL $$'; exit $?", want: end{done, 137, "", ""}},
		{name: "not found in a shell", script: "no-such-program-0", want: end{done, 127, "", ""}},
		{name: "streams closed", script: "exec >&- 2>&-; sleep 0.2; exit 7", want: end{done, 7, "", ""}},
		{
			name: "signals its supervisor", script: "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; kill -USR1 $PPID; exit 3",
			want: end{done, 3, "", ""},
		},
		{
			name: "too slow", script: "sleep 60; true", timeout: 300 * time.Millisecond, grace: 20 * time.Second,
			want: end{late, -1, "TERM", ""},
		},
		{
			name: "exits 0 after TERM", script: "trap 'exit 0' TERM; while :; do sleep 0.05; done", timeout: time.Second,
			grace: 20 * time.Second, want: end{late, 0, "", ""},
		},
		{
			name: "deaf", script: "trap '' TERM INT HUP; while :; do sleep 0.05; done", timeout: 300 * time.Millisecond,
			grace: 300 * time.Millisecond, want: end{late, -1, "KILL", ""},
		},
		{
			name: "busy", script: "trap '' TERM; while :; do :; done", timeout: 300 * time.Millisecond,
			grace: 300 * time.Millisecond, want: end{late, -1, "KILL", ""},
		},
		{
			name: "stopped itself", script: "kill -STOP $$; true", timeout: 300 * time.Millisecond, grace: 20 * time.Second,
			want: end{late, -1, "TERM", ""},
		},
		{
			name: "stops its supervisor", script: "kill -STOP $PPID; sleep 60; true", timeout: 300 * time.Millisecond,
			grace: 20 * time.Second, want: end{late, -1, "TERM", ""},
		},
		{name: "no grace", script: "trap '' TERM; sleep 60; true", timeout: 300 * time.Millisecond, want: end{late, -1, "KILL", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := shell(t.TempDir(), tc.script)
			if tc.timeout > 0 {
				c.Timeout, c.Grace = tc.timeout, tc.grace
			}
			begin := time.Now()
			result, _ := mustRun(t, c)
			if diff := cmp.Diff(tc.want, endOf(result)); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("it took %s", took)
			}
			if result.Wall < tc.timeout || result.Wall > 15*time.Second || result.Started.Before(begin.Add(-time.Second)) {
				t.Errorf("wall %s, started %s", result.Wall, result.Started)
			}
		})
	}
}

func TestSignalsAreEvents(t *testing.T) {
	t.Parallel()
	c := shell(t.TempDir(), "trap '' TERM; echo ready; while :; do sleep 0.05; done")
	c.Timeout, c.Grace = time.Second, 200*time.Millisecond
	_, events := mustRun(t, c)
	if diff := cmp.Diff([]string{"TERM", "CONT", "KILL"}, events.signals); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
	if events.out() != "ready\n" {
		t.Errorf("stdout is %q", events.out())
	}
}

func TestUseOfResources(t *testing.T) {
	t.Parallel()
	result, _ := mustRun(t, helper(t, t.TempDir(), "write", "67108864"))
	if result.CPU <= 0 || result.CPU > time.Minute {
		t.Errorf("cpu is %s", result.CPU)
	}
	if result.MaxRSS < 1<<20 || result.MaxRSS > 1<<30 {
		t.Errorf("max rss is %d", result.MaxRSS)
	}
}
