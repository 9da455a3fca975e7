package supervise

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"cellharness/shared"
)

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestBothStreams(t *testing.T) {
	t.Parallel()
	result, events := mustRun(t, shell(t.TempDir(), `i=0; while [ $i -lt 200 ]; do echo out $i; echo err $i >&2; i=$((i + 1)); done`))
	if !strings.HasPrefix(events.out(), "out 0\nout 1\n") || !strings.HasSuffix(events.out(), "out 199\n") {
		t.Errorf("stdout is %q", events.out())
	}
	if !bytes.HasPrefix(events.stderr, []byte("err 0\n")) || !bytes.HasSuffix(events.stderr, []byte("err 199\n")) {
		t.Errorf("stderr is %q", events.stderr)
	}
	want := shared.Stream{Bytes: int64(len(events.stdout)), Stored: int64(len(events.stdout)), SHA256: digest(events.stdout)}
	if result.Stdout != want {
		t.Errorf("stdout is %+v, want %+v", result.Stdout, want)
	}
	if result.Stderr.SHA256 != digest(events.stderr) {
		t.Errorf("stderr is %+v", result.Stderr)
	}
}

func TestBytesAreExact(t *testing.T) {
	t.Parallel()
	_, events := mustRun(t, shell(t.TempDir(),
		`printf '\377\376\000abc\303'; printf '\342'; sleep 0.1; printf '\202\254\033]0;title\007\r\nend'`))
	if want := "\xff\xfe\x00abc\xc3\xe2\x82\xac\x1b]0;title\a\r\nend"; events.out() != want {
		t.Errorf("stdout is %q, want %q", events.out(), want)
	}
}

func TestNoOutput(t *testing.T) {
	t.Parallel()
	result, _ := mustRun(t, shell(t.TempDir(), "exit 0"))
	if want := (shared.Stream{SHA256: digest(nil)}); result.Stdout != want || result.Stderr != want {
		t.Errorf("streams are %+v and %+v", result.Stdout, result.Stderr)
	}
	if len(result.Notices) > 0 {
		t.Errorf("notices are %s", asJSON(result.Notices))
	}
}

// TestLargeOutput is not parallel: it looks at the memory of the whole process.
func TestLargeOutput(t *testing.T) {
	const size = 64 << 20
	hash := sha256.New()
	for range size >> 20 {
		hash.Write(testPattern())
	}
	want := shared.Stream{Bytes: size, Stored: size, SHA256: hex.EncodeToString(hash.Sum(nil))}
	c := helper(t, t.TempDir(), "write", "67108864")
	got, calls := sha256.New(), 0
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	result, err := runner(t).Run(t.Context(), c, func(e shared.Event) error {
		calls++
		_, err := got.Write(e.Data)
		return err
	})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if result.Stdout != want {
		t.Errorf("stdout is %+v, want %+v", result.Stdout, want)
	}
	if streamed := hex.EncodeToString(got.Sum(nil)); streamed != want.SHA256 {
		t.Errorf("%d events have the digest %s, want %s", calls, streamed, want.SHA256)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4<<20 {
		t.Errorf("%d bytes were allocated for %d bytes of output", allocated, size)
	}
}

func TestOutputArrivesWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The command goes on only when its output has been seen.
	c := shell(dir, `echo one; while [ ! -e "$HOME/seen" ]; do sleep 0.02; done; echo two`)
	c.Timeout = 20 * time.Second
	result, err := runner(t).Run(t.Context(), c, func(e shared.Event) error {
		return os.WriteFile(dir+"/seen", nil, 0o600)
	})
	if err != nil || result.Status != shared.StatusCompleted {
		t.Errorf("status %s, error %v", result.Status, err)
	}
}

func TestSlowSinkDoesNotSlowTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := helper(t, dir, "write", "8388608")
	c.Argv = []string{"/bin/sh", "-c", `"$@"; : >ended`, "sh", c.Argv[0], c.Argv[1], c.Argv[2], c.Argv[3]}
	held := false
	_, err := runner(t).Run(t.Context(), c, func(shared.Event) error {
		if held {
			return nil
		}
		held = true
		eventually(t, 20*time.Second, "the command has ended although its first event is still held", func() bool {
			_, err := os.Stat(dir + "/ended")
			return err == nil
		})
		return nil
	})
	if err != nil || !held {
		t.Errorf("held %t, error %v", held, err)
	}
}

func TestSinkErrorStopsEventsOnly(t *testing.T) {
	t.Parallel()
	c := shell(t.TempDir(), "echo one; sleep 0.3; echo two; sleep 0.3; echo three")
	calls := 0
	result, err := runner(t).Run(t.Context(), c, func(shared.Event) error {
		calls++
		return errors.New("no more")
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := os.ReadFile(c.StdoutPath)
	if err != nil {
		t.Fatal(err)
	}
	if calls != 1 || string(stored) != "one\ntwo\nthree\n" || result.Status != shared.StatusCompleted {
		t.Errorf("%d calls, stored %q, status %s", calls, stored, result.Status)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789"), 1<<20)
	for _, tc := range []struct {
		name, script string
		stdin        io.Reader
		want         string
		unread       bool
	}{
		{"none", "cat; echo end", nil, "end\n", false},
		{"none is /dev/null", "readlink /proc/self/fd/0", nil, "/dev/null\n", false},
		{"no bytes", "cat; echo end", strings.NewReader(""), "end\n", false},
		{"bytes without newline", "wc -c | tr -d ' '", strings.NewReader("hello"), "5\n", false},
		{"ten million bytes", "sha256sum | cut -c1-64", bytes.NewReader(large), digest(large) + "\n", false},
		{"one byte at a time", "cat", iotest.OneByteReader(strings.NewReader("slowly")), "slowly", false},
		{"little left unread", "exit 0", strings.NewReader("hello"), "", true},
		{"much left unread", "exit 0", bytes.NewReader(large), "", true},
		{"read in part", "head -c 3 >/dev/null; echo end", bytes.NewReader(large), "end\n", true},
		{"waits for the reader", "cat >/dev/null; test -p /proc/self/fd/0 && echo pipe", strings.NewReader("x"), "pipe\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := shell(t.TempDir(), tc.script)
			c.Stdin, c.Timeout = tc.stdin, 30*time.Second
			result, events := mustRun(t, c)
			if events.out() != tc.want {
				t.Errorf("stdout is %q, want %q", events.out(), tc.want)
			}
			if got, want := endOf(result), (end{shared.StatusCompleted, 0, "", ""}); got != want {
				t.Errorf("end is %v, want %v", got, want)
			}
			if n, ok := notice(result, shared.NoticeStdinUnread); ok != tc.unread || (ok && n.Count == 0) {
				t.Errorf("notices are %s, unread wanted: %t", asJSON(result.Notices), tc.unread)
			}
		})
	}
}

func TestStdinThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := shell(t.TempDir(), "cat")
	c.Stdin = io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("the file is gone")))
	_, err := runner(t).Run(t.Context(), c, nil)
	if !errors.Is(err, shared.OfCause(shared.CauseStorage)) || !strings.Contains(err.Error(), "the file is gone") {
		t.Errorf("error is %v", err)
	}
}

func TestStdinThatBlocks(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	defer write.Close()
	c := shell(t.TempDir(), "exit 0")
	c.Stdin = read
	begin := time.Now()
	result, err := runner(t).Run(t.Context(), c, nil)
	if err != nil || result.Status != shared.StatusCompleted || time.Since(begin) > 10*time.Second {
		t.Errorf("status %s, error %v, after %s", result.Status, err, time.Since(begin))
	}
}

func TestOutputLimit(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for _, tc := range []struct {
		name, script string
		stored       [2]int64
		over         bool
	}{
		{"flood of stdout", "yes flood", [2]int64{limit, 0}, true},
		{"flood of stderr", "yes flood >&2; true", [2]int64{0, limit}, true},
		{"flood of an escapee", "setsid yes flood & sleep 60; true", [2]int64{limit, 0}, true},
		{"one byte over and away", "head -c 1048577 /dev/zero", [2]int64{limit, 0}, true},
		{"exactly the limit", "head -c 1048576 /dev/zero; head -c 1048576 /dev/zero >&2", [2]int64{limit, limit}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := shell(t.TempDir(), tc.script)
			c.Limits = shared.Limits{OutputBytes: limit, Require: shared.LevelEnforced}
			result, _ := mustRun(t, c)
			if got := [2]int64{result.Stdout.Stored, result.Stderr.Stored}; got != tc.stored {
				t.Errorf("stored %v, want %v", got, tc.stored)
			}
			_, told := notice(result, shared.NoticeOutputTruncated)
			limited := result.Status == shared.StatusLimitExceeded && result.Limit == shared.DimensionOutput
			if told != tc.over || limited != tc.over {
				t.Errorf("status %s of %q, notices %s", result.Status, result.Limit, asJSON(result.Notices))
			}
			if tc.over != (result.Stdout.Bytes+result.Stderr.Bytes > result.Stdout.Stored+result.Stderr.Stored) {
				t.Errorf("streams are %+v and %+v", result.Stdout, result.Stderr)
			}
		})
	}
}

func TestOutputThatCannotBeStored(t *testing.T) {
	t.Parallel()
	var full, broken atomic.Int32
	p := newPump(bytes.NewReader(make([]byte, 100_000)), &shortWriter{room: 50_000}, 0,
		func() { full.Add(1) }, func() { broken.Add(1) })
	p.run()
	got := p.result()
	if got.Bytes != 100_000 || got.Stored != 50_000 || got.SHA256 != digest(make([]byte, 50_000)) || got.Err != "no space left" {
		t.Errorf("stored is %+v", got)
	}
	if full.Load() != 0 || broken.Load() != 1 {
		t.Errorf("full %d times, broken %d times", full.Load(), broken.Load())
	}
}

// shortWriter has room for some bytes only.
type shortWriter struct{ room int }

func (w *shortWriter) Write(p []byte) (int, error) {
	n := min(w.room, len(p))
	w.room -= n
	if n < len(p) {
		return n, errors.New("no space left")
	}
	return n, nil
}

func TestSpoolFileMustBeNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := shell(dir, "exit 0")
	if err := os.Symlink(dir+"/victim", c.StdoutPath); err != nil {
		t.Fatal(err)
	}
	_, err := runner(t).Run(t.Context(), c, nil)
	if !errors.Is(err, shared.OfCause(shared.CauseStorage)) {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(dir + "/victim"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
}
