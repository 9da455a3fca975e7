package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

// mechanismsHere tells for each mechanism of each dimension why it cannot be had on this machine; empty when it can.
var mechanismsHere = sync.OnceValue(func() map[string]string {
	why := map[string]string{}
	for d, list := range choices(os.Geteuid() == 0) {
		for _, h := range list {
			// One after the other, with all the time that a busy machine may need.
			why[label(d, h.by)] = attackOn(d, h).try(boundless{}, d, h)
		}
	}
	return why
})

func label(d shared.Dimension, by mechanism) string { return string(d) + " by " + string(by) }

// needs skips a test of a mechanism that this machine does not have, and returns the means.
func needs(t *testing.T, by mechanism, dimensions ...shared.Dimension) means {
	t.Helper()
	m := means{}
	for _, d := range dimensions {
		for _, h := range choices(os.Geteuid() == 0)[d] {
			if h.by == by {
				m[d] = h
			}
		}
		if _, ok := m[d]; !ok {
			t.Skipf("%s is not a choice for this user", label(d, by))
		}
		if why := mechanismsHere()[label(d, by)]; why != "" {
			t.Skipf("%s is not possible here: %s", label(d, by), why)
		}
	}
	return m
}

// TestExpectedSkips holds the list of what tests may skip for want of a mechanism against what a look at the machine,
// without a probe, says: a mechanism is neither missing by mistake nor found by mistake.
func TestExpectedSkips(t *testing.T) {
	t.Parallel()
	expected := map[mechanism]string{}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "Seccomp:\t0") {
		t.Skip("a system call filter is on this process; what it refuses can only be tried")
	}
	if reason := noNamespaces(); reason != "" {
		expected[byBox], expected[byBoxedLimit] = reason, reason
	}
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		expected[byFilter] = "no Landlock"
	}
	for d, list := range choices(os.Geteuid() == 0) {
		for _, h := range list {
			reason := expected[h.by]
			if h.by.grouped() {
				controller := map[shared.Dimension]string{
					shared.DimensionMemory: "memory", shared.DimensionProcesses: "pids", shared.DimensionCPU: "cpu",
				}[d]
				reason = noGroup(controller)
				if h.by == byBoxedGroup && reason == "" {
					reason = expected[byBox]
				}
			}
			name := label(d, h.by)
			if got := mechanismsHere()[name]; (got == "") != (reason == "") {
				t.Errorf("%s: the probe says %q, expected %q", name, got, reason)
			}
		}
	}
}

// noNamespaces looks whether the kernel has user namespaces to give.
func noNamespaces() string {
	for _, path := range []string{"/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/user/max_user_namespaces"} {
		if data, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(data)) == "0" {
			return path + " is 0"
		}
	}
	data, err := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	if err == nil && strings.TrimSpace(string(data)) == "1" && os.Geteuid() != 0 {
		return "AppArmor keeps user namespaces for known programs"
	}
	return ""
}

func noGroup(controller string) string {
	h, err := hierarchyOf(controller)
	if err != nil {
		return err.Error()
	}
	if _, err := h.base(controller); err != nil {
		return err.Error()
	}
	return ""
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const limit = 96 << 20
	exceeded := end{shared.StatusLimitExceeded, -1, "KILL", shared.DimensionMemory}
	for _, by := range []mechanism{byBoxedGroup, byGroup, bySampling} {
		for _, tc := range []struct {
			name, script string
			want         end
		}{
			{"one process", `exec /proc/self/exe`, exceeded},
			{"ten processes", `for i in 0 1 2 3 4 5 6 7 8 9; do setsid "$0" "$1" allocate 11072962 & done; sleep 60; true`, exceeded},
			{"a part of it", `"$0" "$1" allocate 105906176; sleep 60; true`, exceeded},
			{"below", "sleep 0.8; exit 0", end{shared.StatusCompleted, 0, "", ""}},
		} {
			t.Run(tc.name+" by "+string(by), func(t *testing.T) {
				t.Parallel()
				m := needs(t, by, shared.DimensionMemory)
				c := helper(t, t.TempDir(), "allocate", "105906176") // the limit and a tenth
				if tc.name != "one process" {
					c.Argv = append([]string{"/bin/sh", "-c", tc.script}, c.Argv...)
				}
				c.Limits, c.Timeout = shared.Limits{MemoryBytes: limit}, 20*time.Second
				result, _ := mustRunBy(t, c, m)
				got := endOf(result)
				if tc.want.Limit != "" { // the leader may have ended by itself when a part was killed
					got.Code, got.Signal = tc.want.Code, tc.want.Signal
				}
				if got != tc.want {
					t.Errorf("end is %v, want %v", got, tc.want)
				}
				_, told := notice(result, shared.NoticeLimitNotSupported)
				if told == (m[shared.DimensionMemory].Level == shared.LevelEnforced) {
					t.Errorf("notices are %s", asJSON(result.Notices))
				}
			})
		}
	}
}

// TestMemoryLimitFromWithin mounts the control groups again, with every right that a command can get.
func TestMemoryLimitFromWithin(t *testing.T) {
	t.Parallel()
	m := needs(t, byBoxedGroup, shared.DimensionMemory)
	c := helper(t, t.TempDir(), "regroup", "105906176")
	c.Limits, c.Timeout = shared.Limits{MemoryBytes: 96 << 20}, 20*time.Second
	result, events := mustRunBy(t, c, m)
	if result.Limit != shared.DimensionMemory {
		t.Errorf("end is %v; %s", endOf(result), events.out())
	}
	t.Log(events.out(), string(events.stderr))
}

func TestProcessesLimit(t *testing.T) {
	t.Parallel()
	const limit = 40
	for _, by := range []mechanism{byBoxedGroup, byGroup, bySampling} {
		t.Run(string(by), func(t *testing.T) {
			t.Parallel()
			m := needs(t, by, shared.DimensionProcesses)
			run := func(count int) (end, int) {
				c := helper(t, t.TempDir(), "fork", strconv.Itoa(count))
				c.Limits = shared.Limits{Processes: limit}
				result, events := mustRunBy(t, c, m)
				started, _ := strconv.Atoi(strings.TrimSpace(events.out()))
				return endOf(result), started
			}
			var sibling end
			var siblingStarted int
			done := make(chan struct{})
			go func() {
				defer close(done)
				sibling, siblingStarted = run(limit / 2)
			}()
			got, started := run(3 * limit)
			<-done
			completed := end{shared.StatusCompleted, 0, "", ""}
			if by == bySampling {
				if want := (end{shared.StatusLimitExceeded, -1, "KILL", shared.DimensionProcesses}); got != want {
					t.Errorf("end is %v, want %v", got, want)
				}
			} else if got != completed || started >= limit || started < limit/2 {
				t.Errorf("end is %v, %d processes could be started below a limit of %d", got, started, limit)
			}
			if sibling != completed || siblingStarted != limit/2 {
				t.Errorf("a sibling ended as %v with %d processes", sibling, siblingStarted)
			}
		})
	}
}

func TestCPULimit(t *testing.T) {
	t.Parallel()
	for _, by := range []mechanism{byBoxedGroup, byGroup} {
		t.Run(string(by), func(t *testing.T) {
			t.Parallel()
			m := needs(t, by, shared.DimensionCPU)
			c := helper(t, t.TempDir(), "spin")
			c.Limits = shared.Limits{CPU: 0.5}
			result, _ := mustRunBy(t, c, m)
			// A tenth of a second is the period, of which the first and the last may be incomplete.
			if most := result.Wall.Seconds()*0.5*1.15 + 0.1; result.CPU.Seconds() > most || endOf(result).Code != 0 {
				t.Errorf("%s of cpu time in %s, at most %.2f s are allowed; end %v", result.CPU, result.Wall, most, endOf(result))
			}
		})
	}
}

func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	const limit = 100_001
	for _, by := range []mechanism{byBoxedLimit, byRlimit} {
		for _, tc := range []struct {
			name, script string
			want         end
		}{
			{"ended by it", "exec dd if=/dev/zero of=file bs=1000 count=1000", end{shared.StatusLimitExceeded, -1, "XFSZ", shared.DimensionFileSize}},
			{"goes on", "trap '' XFSZ; dd if=/dev/zero of=file bs=1000 count=1000; exit 4", end{shared.StatusCompleted, 4, "", ""}},
			{"below", "head -c 100001 /dev/zero >file; head -c 100001 /dev/zero; exit 0", end{shared.StatusCompleted, 0, "", ""}},
			{"more output than that", "head -c 100001 /dev/zero >file; head -c 500000 /dev/zero; exit 5", end{shared.StatusCompleted, 5, "", ""}},
		} {
			t.Run(tc.name+" by "+string(by), func(t *testing.T) {
				t.Parallel()
				m := needs(t, by, shared.DimensionFileSize)
				dir := t.TempDir()
				c := shell(dir, tc.script)
				c.Limits = shared.Limits{FileBytes: limit}
				result, _ := mustRunBy(t, c, m)
				if got := endOf(result); got != tc.want {
					t.Errorf("end is %v, want %v", got, tc.want)
				}
				if info, err := os.Stat(filepath.Join(dir, "file")); err != nil || info.Size() != limit {
					t.Errorf("the file: %v, error %v", info.Size(), err)
				}
			})
		}
	}
}

func TestDiskLimit(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	exceeded := shared.DimensionDisk
	for _, tc := range []struct {
		name, script string
		want         shared.Dimension
	}{
		{"one file", "head -c 6000000 /dev/zero | tr '\\0' x >file; sleep 60; true", exceeded},
		{"many files", "i=0; while [ $i -lt 300 ]; do head -c 20000 /dev/zero | tr '\\0' x >f$i; i=$((i + 1)); done; sleep 60; true", exceeded},
		{"in the last moment", "head -c 6000000 /dev/zero | tr '\\0' x >file; exit 0", exceeded},
		{"one file with many names", "head -c 2000000 /dev/zero | tr '\\0' x >file; ln file b; ln file c; ln file d; sleep 1; exit 0", ""},
		{"sparse", "truncate -s 4T file; sleep 1; exit 0", ""},
		{"outside", "head -c 6000000 /dev/zero | tr '\\0' x >../file; sleep 1; exit 0", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "workspace")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			c := shell(dir, tc.script)
			c.StdoutPath, c.StderrPath = filepath.Join(filepath.Dir(dir), "1"), filepath.Join(filepath.Dir(dir), "2")
			c.Limits, c.Timeout = shared.Limits{DiskBytes: limit, Require: shared.LevelBestEffort}, 20*time.Second
			result, _ := mustRun(t, c)
			if result.Limit != tc.want || (tc.want == "") != (result.Status == shared.StatusCompleted) {
				t.Errorf("end is %v, want limit %q", endOf(result), tc.want)
			}
		})
	}
}

// TestUnlimited shows that the attacks of the other tests succeed where nothing is asked for.
func TestUnlimited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		c := helper(t, t.TempDir(), "allocate", "105906176")
		c.Argv = append([]string{"/bin/sh", "-c", `"$0" "$@" >said & while [ ! -s said ]; do sleep 0.05; done; cat said; kill $!`}, c.Argv...)
		if _, events := mustRunBy(t, c, means{}); events.out() != "allocated\n" {
			t.Errorf("stdout is %q", events.out())
		}
	})
	t.Run("processes", func(t *testing.T) {
		t.Parallel()
		if _, events := mustRunBy(t, helper(t, t.TempDir(), "fork", "60"), means{}); events.out() != "60\n" {
			t.Errorf("%q processes were started", events.out())
		}
	})
	t.Run("file size and disk", func(t *testing.T) {
		t.Parallel()
		result, _ := mustRunBy(t, shell(dir, "head -c 6000000 /dev/zero >file; exit 0"), means{})
		if info, err := os.Stat(filepath.Join(dir, "file")); err != nil || info.Size() != 6000000 || endOf(result).Code != 0 {
			t.Errorf("end %v, error %v", endOf(result), err)
		}
	})
}

// TestUnlimitedCPU is not parallel: it wants the processors for itself.
func TestUnlimitedCPU(t *testing.T) {
	// One run above what TestCPULimit allows is enough.
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if result, _ := mustRunBy(t, helper(t, t.TempDir(), "spin"), means{}); result.CPU > 700*time.Millisecond {
			return
		}
	}
	var load float64
	data, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(data), &load)
	}
	if err == nil && load > 2*float64(runtime.NumCPU()) {
		t.Skipf("others use the processors: the load is %.1f", load)
	}
	t.Errorf("no run used more than the limit of another test; load %.1f, error %v", load, err)
}

// TestLimitThatIsGone takes the mechanism away after the probe.
func TestLimitThatIsGone(t *testing.T) {
	t.Parallel()
	c := shell(t.TempDir(), "exit 0")
	c.Limits = shared.Limits{WorkspaceOnly: true, Require: shared.LevelBestEffort}
	c.Writable = []string{filepath.Join(c.Dir, "gone")}
	for _, by := range []mechanism{byBox, byFilter} {
		t.Run(string(by), func(t *testing.T) {
			m := needs(t, by, shared.DimensionFilesystem)
			c.StdoutPath, c.StderrPath = filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")
			result, err := runner(t).run(t.Context(), c, m, nil)
			if err == nil || result.Status != "" || !strings.Contains(err.Error(), "a limit cannot be held any more") {
				t.Fatalf("error is %v, result %s", err, asJSON(result))
			}
			if !isUnsupported(err) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// TestGroupsAreRemoved is not parallel: it counts the control groups that this process has made.
func TestGroupsAreRemoved(t *testing.T) {
	m := needs(t, byGroup, shared.DimensionMemory, shared.DimensionProcesses, shared.DimensionCPU)
	for _, script := range []string{"exit 0", "setsid sleep 300 & exit 3", "kill -KILL $$", "cd /nowhere && exec /nowhere/program"} {
		c := shell(t.TempDir(), script)
		c.Limits = shared.Limits{MemoryBytes: 1 << 30, Processes: 100, CPU: 1}
		mustRunBy(t, c, m)
	}
	for _, controller := range []string{"memory", "pids", "cpu"} {
		h, err := hierarchyOf(controller)
		if err != nil {
			t.Fatal(err)
		}
		base, err := h.base(controller)
		if err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(base, fmt.Sprintf("%s%d-*", groupPrefix, os.Getpid())))
		if err != nil || len(left) > 0 {
			t.Errorf("left: %v, error %v", left, err)
		}
	}
}
