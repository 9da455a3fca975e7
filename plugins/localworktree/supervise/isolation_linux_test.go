package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

// boundless is a context without an end, for what has none of a test.
type boundless struct{ context.Context }

func (boundless) Deadline() (time.Time, bool) { return time.Time{}, false }
func (boundless) Done() <-chan struct{}       { return nil }
func (boundless) Err() error                  { return nil }
func (boundless) Value(any) any               { return nil }

func isUnsupported(err error) bool { return errors.Is(err, shared.ErrUnsupported) }

// visibleDir makes a directory that a box does not hide.
func visibleDir(t *testing.T) string {
	t.Helper()
	dir := ""
	for _, parent := range visibleParents(t) {
		made, err := os.MkdirTemp(parent, "testdata-victim-")
		if err == nil {
			dir = made
			break
		}
		t.Logf("not in %s: %v", parent, err)
	}
	if dir == "" {
		t.Fatal("tests of isolation need a directory that can be written outside of /tmp, /var/tmp and /dev")
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// visibleParents are the places for a directory that a box does not hide: the one of the package, where the module was
// not put below a temporary directory, then the home directory.
func visibleParents(t *testing.T) []string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	parents := []string{here}
	if home, err := os.UserHomeDir(); err == nil {
		parents = append(parents, home)
	}
	return slices.DeleteFunc(append(parents, "/var/lib", "/opt"), func(dir string) bool {
		return slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/dev"}, func(hidden string) bool {
			return dir == hidden || strings.HasPrefix(dir, hidden+"/")
		})
	})
}

// victim makes a directory with the files that fileAttacks go for.
func victim(t *testing.T) string {
	t.Helper()
	dir := visibleDir(t)
	for _, name := range victimFiles() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("as it was"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fingerprint describes all that is in a directory.
func fingerprint(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(data)
		}
		all = append(all, fmt.Sprintf("%s %s %s %q", path, info.Mode(), info.ModTime(), text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// attackerIn returns a command in a box whose program is the test binary.
func attackerIn(t *testing.T, args ...string) Command {
	t.Helper()
	c := helper(t, t.TempDir(), args...)
	c.Argv[0] = "/proc/self/exe" // its directory may be hidden
	return c
}

func passed(events *recorder) []string { return strings.Fields(events.out()) }

func TestFilesOutside(t *testing.T) {
	t.Parallel()
	all := []string{"chmod", "chtimes", "create", "fifo", "link", "mkdir", "rename", "setxattr", "symlink", "take", "truncate", "unlink", "write"}
	for _, tc := range []struct {
		by   mechanism
		pass []string
	}{
		{byBox, nil},
		{byFilter, []string{"chmod", "chtimes", "setxattr"}},
		{byNothing, all},
	} {
		t.Run("by "+string(tc.by), func(t *testing.T) {
			t.Parallel()
			m := means{}
			target := victim(t)
			c := attackerIn(t, "files", target, "")
			if tc.by != byNothing {
				m = needs(t, tc.by, shared.DimensionFilesystem)
				c.Limits.WorkspaceOnly = true
			}
			// On the file system of the victim, so that nothing but the isolation stops a rename.
			c.Dir = visibleDir(t)
			c.Argv[len(c.Argv)-1] = c.Dir
			before := fingerprint(t, target)
			_, events := mustRunBy(t, c, m)
			if diff := cmp.Diff(tc.pass, passed(events), equateEmpty()); diff != "" {
				t.Errorf("what passed (-want +got):\n%s\n%s", diff, events.stderr)
			}
			if diff := cmp.Diff(before, fingerprint(t, target)); (diff == "") != (len(tc.pass) == 0) {
				t.Errorf("the victim (-before +after):\n%s", diff)
			}
		})
	}
}

func equateEmpty() cmp.Option {
	return cmp.FilterValues(func(a, b []string) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())
}

// TestBoxHolds tries to undo the isolation from within.
func TestBoxHolds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		limits shared.Limits
		by     map[shared.Dimension]mechanism
	}{
		{
			"filesystem",
			shared.Limits{WorkspaceOnly: true, FileBytes: 1 << 30},
			map[shared.Dimension]mechanism{shared.DimensionFilesystem: byBox, shared.DimensionFileSize: fileSizeMechanism()},
		},
		{
			"network",
			shared.Limits{NoNetwork: true, WorkspaceOnly: true},
			map[shared.Dimension]mechanism{shared.DimensionFilesystem: byBox, shared.DimensionNetwork: byBox},
		},
		{
			"control groups",
			shared.Limits{WorkspaceOnly: true, MemoryBytes: 1 << 30, Processes: 100, CPU: 1, FileBytes: 1 << 30},
			map[shared.Dimension]mechanism{
				shared.DimensionFilesystem: byBox, shared.DimensionFileSize: fileSizeMechanism(),
				shared.DimensionMemory: byBoxedGroup, shared.DimensionProcesses: byBoxedGroup, shared.DimensionCPU: byBoxedGroup,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := means{}
			for d, by := range tc.by {
				m[d] = needs(t, by, d)[d]
			}
			target := victim(t)
			c := attackerIn(t, "escape", target, "")
			c.Argv[len(c.Argv)-1] = c.Dir
			c.Limits = tc.limits
			before := fingerprint(t, target)
			result, events := mustRunBy(t, c, m)
			if got := passed(events); len(got) > 0 || endOf(result).Code != 0 {
				t.Errorf("passed: %q; end %v", got, endOf(result))
			}
			if diff := cmp.Diff(before, fingerprint(t, target)); diff != "" {
				t.Errorf("the victim (-before +after):\n%s", diff)
			}
		})
	}
}

func fileSizeMechanism() mechanism { return choices(os.Geteuid() == 0)[shared.DimensionFileSize][0].by }

// TestGroupHoldsInAnyBox has limits only: what else is outside can be changed, but not the groups.
func TestGroupHoldsInAnyBox(t *testing.T) {
	t.Parallel()
	m := needs(t, byBoxedGroup, shared.DimensionMemory, shared.DimensionProcesses, shared.DimensionCPU)
	c := attackerIn(t, "escape", nowhere, nowhere)
	c.Limits = shared.Limits{MemoryBytes: 1 << 30, Processes: 100, CPU: 1}
	_, events := mustRunBy(t, c, m)
	for _, name := range strings.Split(events.out(), "\n") {
		if name != "" && !strings.HasPrefix(name, "device /dev/") {
			t.Errorf("passed: %q", name)
		}
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTemporaryDirectory is about the one that comes with WorkspaceOnly.
func TestTemporaryDirectory(t *testing.T) {
	t.Parallel()
	for _, by := range []mechanism{byBox, byFilter} {
		t.Run(string(by), func(t *testing.T) {
			t.Parallel()
			m := needs(t, by, shared.DimensionFilesystem)
			dir := t.TempDir()
			cache, shown := visibleDir(t), t.TempDir()
			if err := os.WriteFile(filepath.Join(shown, "text"), []byte("shown"), 0o600); err != nil {
				t.Fatal(err)
			}
			c := shell(dir, `set -e; echo a >"$TMPDIR/a"; mkdir -p "$TMPDIR/x/y"; echo b >"$TMPDIR/x/y/z"; chmod 0 "$TMPDIR/x/y"; chmod 500 "$TMPDIR/x"
echo c >own; echo d >"$CACHE/shared"; : >/dev/null; (: >"$CACHE/../no") 2>/dev/null && exit 9
cat "$SHOWN/text"; (: >"$SHOWN/no") 2>/dev/null && exit 8; exit 0`)
			c.Env = append(c.Env, "TMPDIR=/elsewhere", "CACHE="+cache, "SHOWN="+shown)
			c.Limits.WorkspaceOnly, c.Writable = true, []string{cache}
			c.Visible = []string{shown}
			result, events := mustRunBy(t, c, m)
			if got := endOf(result); got != (end{shared.StatusCompleted, 0, "", ""}) || events.out() != "shown" {
				t.Errorf("end is %v: %s", got, events.stderr)
			}
			for _, path := range []string{filepath.Join(dir, "own"), filepath.Join(cache, "shared")} {
				if _, err := os.Stat(path); err != nil {
					t.Error(err)
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, "tmp-*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, error %v", left, err)
			}
		})
	}
}

// TestBoxEndsWithItsEntrance is not parallel: it looks for a child of this process.
func TestBoxEndsWithItsEntrance(t *testing.T) {
	m := needs(t, byBox, shared.DimensionFilesystem)
	dir := t.TempDir()
	c := shell(dir, escapees+`echo ready; sleep 300; true`)
	c.Limits.WorkspaceOnly = true
	before, err := children()
	if err != nil {
		t.Fatal(err)
	}
	var below []stat
	_, err = runner(t).run(t.Context(), c, m, func(e shared.Event) error {
		if e.Kind != shared.EventStdout {
			return nil
		}
		now, err := children()
		if err != nil {
			return err
		}
		entrance := slices.DeleteFunc(now, func(pid int) bool { return slices.Contains(before, pid) })
		if len(entrance) != 1 {
			return fmt.Errorf("children are %v", entrance)
		}
		below, err = descendants(entrance[0])
		return errors.Join(err, syscall.Kill(entrance[0], syscall.SIGKILL))
	})
	if !errors.Is(err, shared.OfCause(shared.CauseAmbiguous)) || !strings.Contains(err.Error(), "nothing of it is left") {
		t.Errorf("error is %v", err)
	}
	if len(below) < escapeeCount+2 {
		t.Errorf("%d processes were in the box", len(below))
	}
	eventually(t, 6*time.Second, "all of it is gone", func() bool {
		return !slices.ContainsFunc(below, func(s stat) bool { return alive(s.pid) })
	})
}

// TestAgainInABox runs the other tests with every command in a box, one after the other: see inBox.
func TestAgainInABox(t *testing.T) {
	t.Parallel()
	if boxTests() {
		t.Skip("this is the other run")
	}
	needs(t, byBox, shared.DimensionFilesystem, shared.DimensionNetwork)
	names := []string{
		"TestEndOfCommand", "TestSignalsAreEvents", "TestUseOfResources", "TestProgramIsLookedUpAsTheCommandWould",
		"TestProgramThatIsStillBeingWritten", "TestArgumentsAndEnvironmentAreBytes", "TestInheritedState", "TestSupervisorHidesItsMemory",
		"TestNamesOfProcessesAreHostile", "TestBothStreams", "TestBytesAreExact", "TestNoOutput", "TestStdin", "TestOutputLimit",
		"TestEscapeesAreEnded", "TestGrandchildHoldsOutput", "TestSurvivorWritesOnUntilItIsEnded",
		"TestTimeoutWithGrandchildHoldingThePipe", "TestRespawningChain", "TestManySessions", "TestNothingLeaks", "TestParentKilled/by_the_command_false",
	}
	again := exec.Command(self(t), "-test.parallel=1", "-test.run=^("+strings.Join(names, "|")+")$")
	again.Env = append(os.Environ(), boxVariable+"=1")
	out, err := again.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
