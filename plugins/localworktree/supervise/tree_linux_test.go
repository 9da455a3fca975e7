package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellharness/shared"
)

// escapees starts processes that try to get away and write their pids to $HOME/pids, and waits until all five have.
const escapees = `
setsid sh -c 'echo $$ >>"$HOME/pids"; sleep 300; true' </dev/null >/dev/null 2>&1 &
setsid env -i HOME="$HOME" PATH="$PATH" sh -c 'echo $$ >>"$HOME/pids"; sleep 300; true' </dev/null >/dev/null 2>&1 &
(setsid sh -c '(echo $(exec sh -c "echo \$PPID") >>"$HOME/pids"; trap "" TERM HUP; sleep 300; true) & exit 0' </dev/null >/dev/null 2>&1 &)
nohup sh -c 'trap "" TERM; echo $$ >>"$HOME/pids"; sleep 300; true' </dev/null >/dev/null 2>&1 &
setsid sh -c 'echo $$ >>"$HOME/pids"; kill -STOP $$; true' </dev/null >/dev/null 2>&1 &
while [ "$(wc -l <"$HOME/pids" 2>/dev/null || echo 0)" -lt 5 ]; do sleep 0.02; done
`

const escapeeCount = 5

func TestEscapeesAreEnded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script string
		timeout      time.Duration
		want         end
	}{
		{"after success", escapees + "exit 0", time.Minute, end{shared.StatusCompleted, 0, "", ""}},
		{"after timeout", escapees + "sleep 300; true", 3 * time.Second, end{shared.StatusTimedOut, -1, "TERM", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := shell(dir, tc.script)
			c.Timeout = tc.timeout
			result, _ := mustRun(t, c)
			wantGone(t, pids(t, filepath.Join(dir, "pids")), escapeeCount)
			if got := endOf(result); got != tc.want {
				t.Errorf("end is %v, want %v", got, tc.want)
			}
			survivors, ok := notice(result, shared.NoticeSurvivorsKilled)
			if !ok || survivors.Count < escapeeCount || !strings.Contains(survivors.Detail, "sleep (") {
				t.Errorf("notices are %s", asJSON(result.Notices))
			}
		})
	}
}

func TestGrandchildHoldsOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := time.Now()
	result, events := mustRun(t, shell(dir, `sleep 60 & echo $! >"$HOME/pids"; echo said; exit 3`))
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
	if got, want := endOf(result), (end{shared.StatusCompleted, 3, "", ""}); got != want {
		t.Errorf("end is %v, want %v", got, want)
	}
	if result.Wall >= pumpsGet {
		t.Errorf("wall is %s: it includes the wait for the output", result.Wall)
	}
	wantGone(t, pids(t, filepath.Join(dir, "pids")), 1)
	if _, ok := notice(result, shared.NoticeOutputHeld); !ok {
		t.Errorf("notices are %s", asJSON(result.Notices))
	}
	if survivors, _ := notice(result, shared.NoticeSurvivorsKilled); survivors.Count != 1 {
		t.Errorf("notices are %s", asJSON(result.Notices))
	}
	if events.out() != "said\n" {
		t.Errorf("stdout is %q", events.out())
	}
}

func TestSurvivorWritesOnUntilItIsEnded(t *testing.T) {
	t.Parallel()
	result, _ := mustRun(t, shell(t.TempDir(), `(trap '' TERM; while :; do echo more; sleep 0.01; done) & sleep 0.3; exit 0`))
	if got, want := endOf(result), (end{shared.StatusCompleted, 0, "", ""}); got != want {
		t.Errorf("end is %v, want %v", got, want)
	}
	if result.Stdout.Bytes == 0 || result.Stdout.Bytes != result.Stdout.Stored {
		t.Errorf("stdout is %+v", result.Stdout)
	}
}

func TestTimeoutWithGrandchildHoldingThePipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := shell(dir, `sleep 300 & echo $! >"$HOME/pids"; echo $$ >>"$HOME/pids"; echo started; sleep 300; true`)
	c.Timeout = time.Second
	result, events := mustRun(t, c)
	if got, want := endOf(result), (end{shared.StatusTimedOut, -1, "TERM", ""}); got != want {
		t.Errorf("end is %v, want %v", got, want)
	}
	wantGone(t, pids(t, filepath.Join(dir, "pids")), 2)
	if events.out() != "started\n" {
		t.Errorf("stdout is %q", events.out())
	}
	if n, ok := notice(result, shared.NoticeSurvivorsKilled); ok {
		t.Errorf("what ended with its group is taken for a survivor: %+v", n)
	}
}

func TestRespawningChain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `#!/bin/sh
echo $$ >>"$HOME/pids"
sleep 0.01
[ -e "$HOME/stop" ] && exit 0
setsid "$0" </dev/null >/dev/null 2>&1 &
`
	if err := os.WriteFile(filepath.Join(dir, "chain"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	// Should the sweep fail the file ends the chain.
	t.Cleanup(func() {
		if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	mustRun(t, shell(dir, `./chain; sleep 0.5; exit 0`))
	links := func() int { return len(pids(t, filepath.Join(dir, "pids"))) }
	before := links()
	if before < 3 {
		t.Fatalf("the chain has %d links", before)
	}
	time.Sleep(200 * time.Millisecond)
	if after := links(); after != before {
		t.Errorf("the chain went on: %d links, then %d", before, after)
	}
}

func TestManySessions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const script = `i=0; while [ $i -lt 150 ]; do setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $! >>"$HOME/pids"; i=$((i + 1)); done; exit 0`
	result, _ := mustRun(t, shell(dir, script))
	wantGone(t, pids(t, filepath.Join(dir, "pids")), 150)
	if survivors, _ := notice(result, shared.NoticeSurvivorsKilled); survivors.Count < 100 || !strings.Contains(survivors.Detail, "more") {
		t.Errorf("survivors are %+v", survivors)
	}
}

// TestSupervisorKilled is not parallel: ending what a lost supervisor left is a matter of the whole process.
func TestSupervisorKilled(t *testing.T) {
	dir := t.TempDir()
	c := shell(dir, escapees+`echo out; echo $$ >>"$HOME/pids"; kill -KILL $PPID; sleep 300; true`)
	result, err := runner(t).Run(t.Context(), c, nil)
	wantGone(t, pids(t, filepath.Join(dir, "pids")), escapeeCount+1)
	if !errors.Is(err, shared.OfCause(shared.CauseAmbiguous)) || !errors.Is(err, shared.ErrInternal) {
		t.Fatalf("error is %v, result %s", err, asJSON(result))
	}
	if !strings.Contains(err.Error(), "nothing of it is left") {
		t.Errorf("error is %q", err)
	}
	if result.Status != "" {
		t.Errorf("there is a result: %s", asJSON(result))
	}
}

// TestSupervisorKilledBesideOthers shows that other commands and other children of the process stay unharmed.
func TestSupervisorKilledBesideOthers(t *testing.T) {
	other := exec.Command("sleep", "1")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 4)
	for range 3 {
		c := shell(t.TempDir(), "sleep 1; exit 0")
		go func() {
			_, err := runner(t).Run(t.Context(), c, nil)
			ended <- err
		}()
	}
	for range 5 {
		_, err := runner(t).Run(t.Context(), shell(t.TempDir(), "setsid sleep 300 & kill -KILL $PPID; sleep 300; true"), nil)
		if !errors.Is(err, shared.OfCause(shared.CauseAmbiguous)) {
			t.Fatalf("error is %v", err)
		}
	}
	ended <- other.Wait()
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestParentKilled is not parallel: what loses its parent lands below the test process, which other tests sweep.
func TestParentKilled(t *testing.T) {
	for _, byCell := range []bool{false, true} {
		t.Run(fmt.Sprintf("by the command %t", byCell), func(t *testing.T) {
			dir := t.TempDir()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			script := escapees + `adapter=$(cut -d' ' -f4 /proc/$PPID/stat); echo $$ >>"$HOME/pids"; echo $PPID >>"$HOME/pids"; `
			if byCell {
				script += `kill -KILL $PPID $adapter; `
			}
			parent := exec.Command(self, helperArgument, "adapter", dir, script+"sleep 300; true")
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			var list []int
			eventually(t, 20*time.Second, "all processes are there", func() bool {
				if _, err := os.Stat(filepath.Join(dir, "pids")); err != nil {
					return false
				}
				list = pids(t, filepath.Join(dir, "pids"))
				return len(list) == escapeeCount+2
			})
			if !byCell {
				if err := parent.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			if err := parent.Wait(); err == nil {
				t.Error("the parent ended well")
			}
			if byCell {
				// Nobody of the chain is left to end it but the reaper above.
				if _, err := runner(t).endStrangers(); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, 6*time.Second, "all of it is gone", func() bool {
				for _, pid := range list {
					if alive(pid) {
						return false
					}
				}
				return true
			})
		})
	}
}

// TestOutputHeldOutOfReach hands the output to a process that is not below the command.
func TestOutputHeldOutOfReach(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The holder opens the pipe through /proc, as any process of the same user can.
	holder := exec.Command("/bin/sh", "-c",
		`while [ ! -s "$1/pid" ]; do sleep 0.02; done; exec 9>"/proc/$(cat "$1/pid")/fd/1"; : >"$1/held"; exec sleep 120`, "sh", dir)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := holder.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = holder.Wait() // it was killed
	}()
	c := shell(dir, `echo $$ >"$HOME/pid.new"; mv "$HOME/pid.new" "$HOME/pid"; while [ ! -e "$HOME/held" ]; do sleep 0.02; done; echo out; exit 4`)
	c.Timeout = 20 * time.Second
	result, events := mustRun(t, c)
	if got, want := endOf(result), (end{shared.StatusCompleted, 4, "", ""}); got != want || events.out() != "out\n" {
		t.Errorf("end is %v, want %v; stdout %q", got, want, events.out())
	}
	if _, ok := notice(result, shared.NoticeOutputHeld); !ok {
		t.Errorf("notices are %s", asJSON(result.Notices))
	}
}
