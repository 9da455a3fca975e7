package adaptertest

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"cellharness/shared"
)

// endCases hold what is true of the end of a command and of what it leaves running.
func endCases() []testCase {
	return []testCase{
		{"timeout", testTimeout},
		{"timeout_ignored", testTimeoutIgnored},
		{"timeout_attacked", testTimeoutAttacked},
		{"survivors", testSurvivors},
		{"survivors_attack", testSurvivorsAttack},
		{"background_holds_output", testBackgroundHoldsOutput},
		{"cancel", testCancel},
	}
}

// untilKilled is a script that runs until it is ended. It has an end of its own, far behind the timeouts of these tests,
// so that an adapter that does not end it fails soon and leaves nothing for good.
const untilKilled = `i=0; while [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; echo never ended; `

// heartbeat runs a process in the background that ignores what can be ignored and writes to the file beat for as long
// as it lives. A pid would not do: where the adapter has processes of its own, the test sees none of them.
const heartbeat = `sh -c 'trap "" TERM HUP INT; i=0; while [ $i -lt 600 ]; do echo x >> beat || exit; sleep 0.05; i=$((i+1)); done' >/dev/null 2>&1 </dev/null & `

// waitBeat waits until the heartbeat is there.
const waitBeat = `while [ ! -s beat ]; do sleep 0.02; done; `

// wantNoBeat fails if anything in the workspace still writes to the file beat.
func (w *space) wantNoBeat() {
	w.t.Helper()
	o := w.run(as(shared.PhaseVerify, sh(`test -s beat || exit 9; a=$(wc -c < beat); sleep 0.5; b=$(wc -c < beat); test "$a" = "$b"`)))
	if o.ExitCode == nil || *o.ExitCode != 0 {
		w.t.Errorf("a process outlived its command: the check ended with exit code %s", code(o.ExitCode))
	}
}

func testTimeout(t *testing.T, b *bench) {
	w := b.provision(t)
	c := sh(`trap 'echo last; exit 0' TERM; echo first; echo wrong >&2; ` + untilKilled)
	c.Timeout, c.Grace = time.Second, 10*time.Second
	o := w.run(c)
	if o.Status != shared.StatusTimedOut {
		t.Errorf("status = %s, want %s", o.Status, shared.StatusTimedOut)
	}
	// A shell may say on stderr that the signal ended its child.
	if string(o.out) != "first\nlast\n" || !bytes.HasPrefix(o.err, []byte("wrong\n")) {
		t.Errorf("stdout = %q, stderr = %q; want what was written before and after the signal", o.out, o.err)
	}
	if !slices.Contains(o.signals, "TERM") {
		t.Errorf("signals = %q, want TERM among them", o.signals)
	}
	if o.Wall < c.Timeout || o.took > c.Timeout+soon {
		t.Errorf("a command with the timeout %s took %s, the call %s", c.Timeout, o.Wall, o.took)
	}
	w.script("true") // the workspace is still of use
}

func testTimeoutIgnored(t *testing.T, b *bench) {
	w := b.provision(t)
	c := sh(`trap '' TERM; echo first; ` + untilKilled)
	c.Timeout, c.Grace = time.Second, 500*time.Millisecond
	o := w.run(c)
	if o.Status != shared.StatusTimedOut || o.ExitCode != nil {
		t.Errorf("status = %s, exit code = %s; want %s and none", o.Status, code(o.ExitCode), shared.StatusTimedOut)
	}
	o.wantOutput(t, "first\n", "")
	if o.took > c.Timeout+c.Grace+soon {
		t.Errorf("the call took %s", o.took)
	}
}

// testTimeoutAttacked attacks a timeout that is claimed to be enforced.
func testTimeoutAttacked(t *testing.T, b *bench) {
	b.needs(t, shared.DimensionWallTime)
	w := b.provision(t)
	c := sh("trap '' TERM; setsid " + heartbeat + "echo started; " + untilKilled)
	c.Timeout, c.Grace = 2*time.Second, 500*time.Millisecond
	o := w.run(c)
	if o.Status != shared.StatusTimedOut || o.took > c.Timeout+c.Grace+soon {
		t.Errorf("status = %s after %s, want %s soon after %s", o.Status, o.took, shared.StatusTimedOut, c.Timeout+c.Grace)
	}
	w.wantNoBeat()
}

func testSurvivors(t *testing.T, b *bench) {
	if s := b.support(shared.DimensionProcessCleanup); s.Level < shared.LevelBestEffort {
		t.Skipf("process cleanup is claimed at level %s only (%s)", s.Level, s.Reason)
	}
	w := b.provision(t)
	o := w.run(sh(heartbeat + waitBeat + "exit 3"))
	o.wantExit(t, 3)
	if !slices.ContainsFunc(o.Notices, func(n shared.Notice) bool { return n.Kind == shared.NoticeSurvivorsKilled }) {
		t.Errorf("notices = %+v, want one of kind %q", o.Notices, shared.NoticeSurvivorsKilled)
	}
	w.wantNoBeat()
}

// testSurvivorsAttack attacks a cleanup that is claimed to be enforced.
func testSurvivorsAttack(t *testing.T, b *bench) {
	b.needs(t, shared.DimensionProcessCleanup)
	w := b.provision(t)
	w.run(sh("(env -i PATH=\"$PATH\" setsid "+heartbeat+") & "+waitBeat+"exit 3")).wantExit(t, 3)
	w.wantNoBeat()
}

func testBackgroundHoldsOutput(t *testing.T, b *bench) {
	w := b.provision(t)
	o := w.run(sh("sleep 60 & echo done; exit 3"))
	o.wantExit(t, 3)
	o.wantOutput(t, "done\n", "")
	if o.took > soon {
		t.Errorf("a command whose child holds its output took %s", o.took)
	}
}

func testCancel(t *testing.T, b *bench) {
	w := b.provision(t)
	c := sh(heartbeat + waitBeat + "echo running; sleep 60")
	c.Grace = 500 * time.Millisecond
	running := w.start(c)
	running.waitOutput(t)
	running.cancel()
	_, err := running.wait(t)
	wantError(t, "RunCell that was cancelled", err, shared.ErrCancelled)
	w.waitIdle()
	w.wantNoBeat()
}

// waitIdle waits until the workspace takes a command again: a caller that cancels returns before the command is gone.
func (w *space) waitIdle() {
	w.t.Helper()
	for deadline := time.Now().Add(soon); ; time.Sleep(20 * time.Millisecond) {
		_, err := w.try(within(w.t), sh("true"))
		if err == nil {
			return
		}
		if !errors.Is(err, shared.ErrPrecondition) || time.Now().After(deadline) {
			w.t.Fatalf("the workspace takes no command after one was cancelled: %v", err)
		}
	}
}
