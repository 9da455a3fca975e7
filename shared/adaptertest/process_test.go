package adaptertest_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellharness/shared"
	"cellharness/shared/adaptertest"
	"cellharness/shared/wire"
)

// TestServe_FaultAtStart holds that a program can fail before its handshake.
func TestServe_FaultAtStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault string
		code  int
		out   string
	}{
		"exit":          {"start exit:3", 3, ""},
		"error":         {"start error:auth", 1, "fake: a fault of cause auth was asked for\n"},
		"junk":          {`start stdout:hello\nthere`, 2, "hello\nthere" + byHand},
		"line on fd 2":  {`start stderr:oops\n`, 2, "oops\n" + byHand},
		"killed itself": {"start kill", -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := runSelf(t, []string{beFaulty + "=" + c.fault})
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.code {
				t.Errorf("the program ended with %v, want the code %d", err, c.code)
			}
			if !strings.HasPrefix(out, strings.TrimSuffix(c.out, byHand)) || strings.HasSuffix(c.out, byHand) != strings.Contains(out, "started by harness") {
				t.Errorf("the program said %q, want %q", out, c.out)
			}
		})
	}
}

// byHand stands for what an adapter says that was not started by a host.
const byHand = "…"

// TestFake_CrashLeavesNothing holds that a fresh process cleans up after one that was killed under its command.
func TestFake_CrashLeavesNothing(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	first, err := configure(t, adaptertest.Process(t, exe, []string{beFake + "=1"}), "output kill").provision(t, "key")
	if err != nil {
		t.Fatalf("Provision: %v", err)
	}
	c := quick("sh", "-c", "echo $$ > pid; echo ready; sleep 60; true")
	if got, err := first.run(t.Context(), c); err == nil || wire.Spoken(err) {
		t.Fatalf("RunCell in a process that kills itself = %+v, %v; want an error that the adapter did not say", got, err)
	}
	pid := readPID(t, filepath.Join(first.handle.Root, "pid"))
	if !alive(pid) {
		t.Fatal("the command died with its adapter, so there is nothing to clean up")
	}

	second := adaptertest.Process(t, exe, []string{beFake + "=1"})
	cfg := first.cfg
	cfg.Settings = adaptertest.FakeSettings(filepath.Dir(filepath.Dir(first.handle.Root)))
	if _, err := second.Configure(t.Context(), cfg); err != nil {
		t.Fatalf("Configure: %v", err)
	}
	found, err := second.Find(t.Context(), shared.Labels{Run: "run"})
	if err != nil || len(found) != 1 {
		t.Fatalf("Find = %+v, %v; want the workspace of the dead process", found, err)
	}
	report, err := second.Teardown(t.Context(), found[0].Handle)
	if err != nil || !report.Complete() {
		t.Errorf("Teardown = %+v, %v; want a complete report", report, err)
	}
	for deadline := time.Now().Add(20 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the command %d is still alive", pid)
		}
	}
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive tells whether a process is there and no zombie.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return !strings.Contains(string(stat), ") Z ")
}
