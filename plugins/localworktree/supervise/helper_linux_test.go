package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

// helperArgument makes the test binary one of the helpers below.
const helperArgument = "__test_helper"

// helperMain does the work of a helper process.
func helperMain() (code int, ok bool) {
	if len(os.Args) < 3 || os.Args[1] != helperArgument {
		return 0, false
	}
	switch os.Args[2] {
	case "adapter":
		return helperAdapter(os.Args[3], os.Args[4]), true
	case "isolate":
		return helperIsolate(), true
	case "write":
		return helperWrite(os.Args[3]), true
	case "allocate":
		return helperAllocate(os.Args[3]), true
	}
	if code, ok := attackerMain(os.Args[2:]); ok {
		return code, true
	}
	return 2, true
}

// helperAdapter is a parent of supervisors that tests may kill: it runs script in dir.
func helperAdapter(dir, script string) int {
	// As an adapter does, to keep its secrets.
	err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := errors.Join(err, BecomeSubreaper()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r, err := New(Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, err = r.Run(context.Background(), inBox(shell(dir, script)), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// helperIsolate isolates itself as a supervisor does, and prints whether it is dumpable.
func helperIsolate() int {
	if err := isolate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	fmt.Println(dumpable)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// helperWrite writes the pattern of testPattern to stdout.
func helperWrite(size string) int {
	left, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return 2
	}
	for block := testPattern(); left > 0; left -= int64(len(block)) {
		block = block[:min(int64(len(block)), left)]
		if _, err := os.Stdout.Write(block); err != nil {
			return 1
		}
	}
	return 0
}

func testPattern() []byte {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i*7 + i>>8)
	}
	return block
}

// helperAllocate touches size bytes and waits to be killed.
func helperAllocate(size string) int {
	n, err := strconv.Atoi(size)
	if err != nil {
		return 2
	}
	memory := bytes.Repeat([]byte{1}, n)
	fmt.Println("allocated")
	time.Sleep(time.Minute)
	return int(memory[n/2]) - 1
}

// theRunner is shared by the tests, since a process has one Runner.
var theRunner = sync.OnceValues(func() (*Runner, error) { return New(Options{}) })

func runner(t testing.TB) *Runner {
	t.Helper()
	r, err := theRunner()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shell returns a command that runs script in dir.
func shell(dir, script string) Command {
	return Command{
		Dir: dir, Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir},
		StdoutPath: filepath.Join(dir, ".stdout"), StderrPath: filepath.Join(dir, ".stderr"),
		Timeout: time.Minute, Grace: 10 * time.Second,
	}
}

// helper returns a command that runs the test binary as a helper.
func helper(t testing.TB, dir string, args ...string) Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := shell(dir, "")
	c.Argv = append([]string{self, helperArgument}, args...)
	return c
}

// recorder keeps the events of a run.
type recorder struct {
	mu      sync.Mutex
	stdout  []byte
	stderr  []byte
	signals []string
	bad     error
}

func (r *recorder) sink(e shared.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	stream := &r.stdout
	switch e.Kind {
	case shared.EventSignal:
		r.signals = append(r.signals, e.Signal)
		return nil
	case shared.EventStderr:
		stream = &r.stderr
	}
	if e.Offset != int64(len(*stream)) || len(e.Data) == 0 || len(e.Data) > shared.MaxOutputFrame {
		r.bad = errors.Join(r.bad, fmt.Errorf("event of %d bytes at %d, expected at %d", len(e.Data), e.Offset, len(*stream)))
	}
	*stream = append(*stream, e.Data...)
	return nil
}

func (r *recorder) out() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.stdout)
}

// mustRun runs c and fails the test on an error, and when the events are not what was stored.
func mustRun(t *testing.T, c Command) (shared.Result, *recorder) {
	t.Helper()
	result, events := mustRunBy(t, inBox(c), nil)
	if boxTests() {
		result.Notices = slices.DeleteFunc(result.Notices, func(n shared.Notice) bool { return n.Kind == shared.NoticeLimitNotSupported })
		if len(result.Notices) == 0 {
			result.Notices = nil
		}
	}
	return result, events
}

// mustRunBy does the same with given means, those of this machine when they are nil.
func mustRunBy(t *testing.T, c Command, m means) (shared.Result, *recorder) {
	t.Helper()
	events := &recorder{}
	var result shared.Result
	var err error
	if m == nil {
		result, err = runner(t).Run(t.Context(), c, events.sink)
	} else {
		result, err = runner(t).run(t.Context(), c, m, events.sink)
	}
	if err != nil {
		t.Fatal(err)
	}
	if events.bad != nil {
		t.Error(events.bad)
	}
	for path, got := range map[string][]byte{c.StdoutPath: events.stdout, c.StderrPath: events.stderr} {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: events have %d bytes, the file %d, or they differ", path, len(got), len(want))
		}
	}
	return result, events
}

// notice returns the notice of kind.
func notice(r shared.Result, kind shared.NoticeKind) (shared.Notice, bool) {
	for _, n := range r.Notices {
		if n.Kind == kind {
			return n, true
		}
	}
	return shared.Notice{}, false
}

// pids reads the numbers in a file that a script has written, one a line.
func pids(t *testing.T, path string) []int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, field := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}

// boxVariable in the environment makes the tests run their commands in a box.
const boxVariable = "HARNESS_TEST_BOX"

// boxTests tells whether commands run in a box here.
func boxTests() bool { return os.Getenv(boxVariable) != "" }

// inBox isolates a command, where that is asked for, without taking away what tests look at.
func inBox(c Command) Command {
	if !boxTests() {
		return c
	}
	c.Limits.WorkspaceOnly, c.Limits.NoNetwork = true, true
	c.Limits.Require = min(c.Limits.Require, shared.LevelBestEffort) // all that the network can be had at
	c.Writable = append(c.Writable, filepath.Dir(c.StdoutPath), filepath.Dir(c.Argv[0]))
	if !filepath.IsAbs(c.Argv[0]) || strings.HasPrefix(c.Argv[0], "/bin/") || strings.HasPrefix(c.Argv[0], "/usr/") {
		c.Writable = c.Writable[:len(c.Writable)-1]
	}
	return c
}

// alive tells whether a process exists and is no zombie. In a box the number is that of the box, whose processes are
// the only ones with two numbers; tests in boxes run one after the other.
func alive(pid int) bool {
	if boxTests() {
		return aliveInBox(pid)
	}
	p, err := readStat(pid)
	return err == nil && !p.dead()
}

func aliveInBox(pid int) bool {
	below, _ := descendants(os.Getpid())
	for _, p := range below {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid)) // it may have ended
		for line := range strings.Lines(string(data)) {
			numbers, ok := strings.CutPrefix(line, "NSpid:")
			if fields := strings.Fields(numbers); ok && len(fields) > 1 && fields[len(fields)-1] == strconv.Itoa(pid) {
				return true
			}
		}
	}
	return false
}

// wantGone fails the test for each process that lives.
func wantGone(t *testing.T, list []int, count int) {
	t.Helper()
	if len(list) != count {
		t.Errorf("%d processes were recorded, want %d", len(list), count)
	}
	for _, pid := range list {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s", within, what)
		}
	}
}

// asJSON shows a value in messages of tests.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
