package supervise

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

func TestCommandThatCannotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("plain.txt", "text\n", 0o600)
	write("bin/plain", "text\n", 0o600)
	write("nobang", "text\n", 0o700)
	write("lost", "#!/no/such/interpreter -x\n", 0o700)
	write("crlf", "#!/bin/sh\r\nexit 0\r\n", 0o700)
	for _, tc := range []struct {
		name   string
		change func(*Command)
		want   []string
		code   error
	}{
		{
			"missing program", func(c *Command) { c.Argv = []string{"no-such-program-0"} },
			[]string{`"no-such-program-0" was not found in its PATH`, "install it"},
			shared.ErrPrecondition,
		},
		{
			"no PATH", func(c *Command) { c.Argv, c.Env = []string{"true"}, nil },
			[]string{`"true" was not found`, "no PATH"},
			shared.ErrPrecondition,
		},
		{
			"missing file", func(c *Command) { c.Argv = []string{"./gone"} },
			[]string{`"./gone" was not found`, filepath.Join(dir, "gone")[1:5]},
			shared.ErrPrecondition,
		},
		{
			"file in the way", func(c *Command) { c.Argv = []string{"plain.txt/x"} },
			[]string{`"plain.txt/x" was not found`},
			shared.ErrPrecondition,
		},
		{
			"missing directory", func(c *Command) { c.Dir = filepath.Join(dir, "nowhere") },
			[]string{"its directory", "nowhere", "does not exist"},
			shared.ErrPrecondition,
		},
		{
			"not executable", func(c *Command) { c.Argv = []string{"./plain.txt"} },
			[]string{`"./plain.txt" is not executable`, "chmod +x"},
			shared.ErrPrecondition,
		},
		{
			"not executable in PATH", func(c *Command) { c.Argv, c.Env = []string{"plain"}, []string{"PATH=bin"} },
			[]string{`"plain" is not executable`, "bin/plain"},
			shared.ErrPrecondition,
		},
		{
			"no interpreter line", func(c *Command) { c.Argv = []string{"./nobang"} },
			[]string{`"./nobang" is not executable here`, "no #! line"},
			shared.ErrPrecondition,
		},
		{
			"missing interpreter", func(c *Command) { c.Argv = []string{"./lost"} },
			[]string{`"/no/such/interpreter -x"`, `"./lost"`, "was not found"},
			shared.ErrPrecondition,
		},
		{
			"carriage return", func(c *Command) { c.Argv = []string{"./crlf"} },
			[]string{`"./crlf"`, "carriage return"},
			shared.ErrPrecondition,
		},
		{
			"directory", func(c *Command) { c.Argv = []string{"./bin"} },
			[]string{`"./bin" is a directory`},
			shared.ErrPrecondition,
		},
		{
			"large argument", func(c *Command) { c.Argv = []string{"true", strings.Repeat("x", MaxArgument+1)} },
			[]string{"argument 1 has 131072 bytes", "stdin"},
			shared.ErrInvalid,
		},
		{"large together", func(c *Command) {
			for range 40 {
				c.Argv = append(c.Argv, strings.Repeat("x", MaxArgument))
			}
		}, []string{"too large together", "stdin"}, shared.ErrPrecondition},
		{
			"NUL", func(c *Command) { c.Env = append(c.Env, "A=\x00") },
			[]string{`"A" holds a NUL byte`},
			shared.ErrInvalid,
		},
		{"no program", func(c *Command) { c.Argv = nil }, []string{"names no program"}, shared.ErrInvalid},
		{"relative directory", func(c *Command) { c.Dir = "here" }, []string{"not absolute"}, shared.ErrInvalid},
		{"no timeout", func(c *Command) { c.Timeout = 0 }, []string{"timeout", "positive"}, shared.ErrInvalid},
		{"limit that cannot be enforced", func(c *Command) {
			c.Limits = shared.Limits{DiskBytes: 1 << 30, NoNetwork: true, Require: shared.LevelEnforced}
		}, []string{"disk", "best_effort", "network", "drop the limit"}, shared.ErrUnsupported},
		{"relative writable directory", func(c *Command) { c.Writable = []string{"cache"} }, []string{`"cache" to show is not absolute`}, shared.ErrInvalid},
		{"relative directory to measure", func(c *Command) { c.DiskRoot = "tree" }, []string{`"tree" to measure is not absolute`}, shared.ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := shell(t.TempDir(), "exit 0")
			c.Dir = dir
			tc.change(&c)
			result, err := runner(t).Run(t.Context(), c, nil)
			if !errors.Is(err, tc.code) {
				t.Fatalf("error is %v, result %s", err, asJSON(result))
			}
			for _, want := range append(tc.want, "the command was never started") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error %q", want, err)
				}
			}
			var e *shared.Error
			if errors.As(err, &e) && e.Cause != "" {
				t.Errorf("cause is %q; the phase decides it", e.Cause)
			}
		})
	}
}

func TestProgramIsLookedUpAsTheCommandWould(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, part := range []string{"bin", "dir/tool", "noexec"} {
		if err := os.MkdirAll(filepath.Join(dir, part), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script := []byte("#!/bin/sh\nprintf '%s ' \"$0\" \"$@\"\n")
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o700, "noexec/tool": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), script, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ name, program, path, want string }{
		{"relative part of PATH", "tool", "dir:noexec:/nowhere:bin", dir + "/bin/tool a b "},
		{"absolute part of PATH", "tool", dir + "/bin", dir + "/bin/tool a b "},
		{"path relative to the directory", "bin/tool", "", "bin/tool a b "},
		{"absolute path", dir + "/bin/tool", "", dir + "/bin/tool a b "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := shell(t.TempDir(), "")
			c.Dir, c.Argv, c.Env = dir, []string{tc.program, "a", "b"}, []string{"PATH=" + tc.path}
			if _, events := mustRun(t, c); events.out() != tc.want {
				t.Errorf("stdout is %q, want %q", events.out(), tc.want)
			}
		})
	}
}

func TestProgramThatIsStillBeingWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "fresh")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("#!/bin/sh\nexit 0\n"); err != nil {
		t.Fatal(err)
	}
	closed := time.AfterFunc(300*time.Millisecond, func() { _ = file.Close() })
	defer closed.Stop()
	c := shell(t.TempDir(), "")
	c.Dir, c.Argv = dir, []string{"./fresh"}
	if result, _ := mustRun(t, c); result.Status != shared.StatusCompleted {
		t.Errorf("result is %s", asJSON(result))
	}
}

func TestArgumentsAndEnvironmentAreBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := shell(dir, "")
	c.Argv = []string{"/usr/bin/env", "-u", "none", "printf", "%s|", "\xff\xfe", "", "a\nb", "é"}
	if _, events := mustRun(t, c); events.out() != "\xff\xfe||a\nb|é|" {
		t.Errorf("stdout is %q", events.out())
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	c := shell(t.TempDir(), "")
	c.Argv, c.Token = []string{"/usr/bin/env", "-0"}, "01TOKEN"
	c.Env = []string{"A=1", "B=x=\xff\n", "EMPTY="}
	_, events := mustRun(t, c)
	got := strings.Split(strings.TrimSuffix(events.out(), "\x00"), "\x00")
	if diff := cmp.Diff([]string{"A=1", "B=x=\xff\n", "EMPTY=", "HARNESS_CELL=01TOKEN"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// TestInheritedState runs a command below a parent that has files open, signals ignored and another umask.
func TestInheritedState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `
ls /proc/self/fd | wc -l >"$HOME/fds"
umask >"$HOME/umask"
pwd >"$HOME/cwd"
exec <&- 2>&-
grep -E '^Sig(Ign|Blk):' /proc/self/status >"$HOME/signals"
cut -d' ' -f1,4,5,6,7 /proc/$$/stat >"$HOME/stat"
cat /proc/$$/oom_score_adj >"$HOME/oom"
ulimit -c >"$HOME/core"
cat /proc/$PPID/environ 2>/dev/null | tr '\0' '\n' >"$HOME/parent-environ"
cat /proc/$PPID/cmdline | tr '\0' ' ' >"$HOME/parent-cmdline"
`
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command("/bin/sh", "-c",
		`trap '' HUP INT QUIT TERM USR1 PIPE TSTP; umask 0; exec 3</dev/null 4</dev/null 9</dev/null; exec "$@"`,
		"sh", self, helperArgument, "adapter", dir, script)
	parent.Env = append(os.Environ(), "CANARY=canary_0123456789")
	if out, err := parent.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	// ls itself has the directory open as a fourth.
	for name, want := range map[string]string{"fds": "4", "umask": "0022", "cwd": dir, "core": "0", "oom": "500"} {
		if got := read(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got, want := read("signals"), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000"; got != want {
		t.Errorf("signals are %q, want %q", got, want)
	}
	stat := strings.Fields(read("stat"))
	pid, ppid, group, session, tty := stat[0], stat[1], stat[2], stat[3], stat[4]
	if boxTests() {
		session = ppid // it is outside of the box, and has no number there
	}
	if group != pid || session != ppid || tty != "0" {
		t.Errorf("pid %s, parent %s, group %s, session %s, terminal %s", pid, ppid, group, session, tty)
	}
	if got := read("parent-cmdline"); strings.Contains(got, "sh -c") || strings.Contains(got, dir) {
		t.Errorf("the supervisor's command line is %q", got)
	}
	for _, variable := range strings.Fields(read("parent-environ")) { // none where it may not be read
		if !slices.Contains(runtimeSettings(), variable) {
			t.Errorf("the supervisor has a variable of %d bytes that is no setting of the runtime", len(variable))
		}
	}
}

func TestSupervisorHidesItsMemory(t *testing.T) {
	t.Parallel()
	if _, events := mustRun(t, helper(t, t.TempDir(), "isolate")); events.out() != "0\n" {
		t.Errorf("dumpable is %q", events.out())
	}
}

func TestMainRefusesStrangers(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, argument := range []string{supervisorArgument, probeArgument} {
		out, err := exec.Command(self, argument).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "harness starts it") {
			t.Errorf("%s: %v: %s", argument, err, out)
		}
	}
}

func TestOrderIsNotInArguments(t *testing.T) {
	t.Parallel()
	o := newOrder(Command{Dir: "/d\xff", Argv: []string{"a\xff", ""}, Limits: shared.Limits{CPU: 0.5}, Env: []string{"A=\x01"}, Token: "t"}, means{shared.DimensionCPU: {by: byGroup}})
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var back order
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o, back); diff != "" {
		t.Errorf("order (-sent +read):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"A=\x01", "HARNESS_CELL=t"}, toStrings(back.Env)); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestNamesOfProcessesAreHostile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, ") R 1 (x")
	if err := os.Symlink("/bin/sleep", name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("sleep ended well")
		}
	}()
	p, err := readStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.name != ") R 1 (x" || p.parent != os.Getpid() || p.dead() {
		t.Errorf("stat is %+v, parent wanted %s", p, strconv.Itoa(os.Getpid()))
	}
}
