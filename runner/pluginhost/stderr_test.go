package pluginhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

func TestStderrLog(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		wrote  string
		file   string
		tail   []string
		reason string
	}{
		"nothing": {"", "", []string{}, ""},
		"plain lines, the last one unfinished": {
			"one\ntwo\nthree\nfour",
			"[info] one\n[info] two\n[info] three\n[info] four\n",
			[]string{"one", "two", "three", "four"},
			"two | three | four",
		},
		"levels": {
			`{"@level":"debug","@message":"detail","@timestamp":"t"}` + "\n" + `{"@level":"error","@message":"bad","n":1,"a":"x"}` + "\n[DEBUG] old style\n",
			`[debug] {"@level":"debug","@message":"detail","@timestamp":"t"}` + "\n" + `[error] {"@level":"error","@message":"bad","n":1,"a":"x"}` + "\n[debug] [DEBUG] old style\n",
			[]string{"detail", "bad a=x n=1", "[DEBUG] old style"},
			"bad a=x n=1",
		},
		"hostile JSON": {
			`{"@message":1}` + "\n" + `{"@level":[]}` + "\n" + `{"@timestamp":{}}` + "\n{\n",
			`[info] {"@message":1}` + "\n" + `[info] {"@level":[]}` + "\n" + `[info] {"@timestamp":{}}` + "\n[info] {\n",
			[]string{`{"@message":1}`, `{"@level":[]}`, `{"@timestamp":{}}`, "{"},
			`{"@level":[]} | {"@timestamp":{}} | {`,
		},
		"bytes that act": {
			"\x1b]0;title\a\x00\xff\u0085é\ttab\n",
			"[info] \\x1b]0;title\\x07\\x00\\xff\\xc2\\x85é\ttab\n",
			[]string{"\\x1b]0;title\\x07\\x00\\xff\\xc2\\x85é\ttab"},
			"\\x1b]0;title\\x07\\x00\\xff\\xc2\\x85é\ttab",
		},
		"panic": {
			"working\npanic: oh no\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:1\nexit status 2\n",
			"[info] working\n[error] panic: oh no\n[info] \n[info] goroutine 1 [running]:\n[info] main.main()\n[info] \t/x.go:1\n[info] exit status 2\n",
			[]string{"working", "panic: oh no", "", "goroutine 1 [running]:", "main.main()", "\t/x.go:1", "exit status 2"},
			"panic: oh no",
		},
		"signal": {"SIGQUIT: quit\nPC=0x1\n", "[error] SIGQUIT: quit\n[info] PC=0x1\n", []string{"SIGQUIT: quit", "PC=0x1"}, "SIGQUIT: quit"},
	}
	for name, test := range tests {
		for _, size := range []int{1, 7, 1 << 20} {
			t.Run(fmt.Sprintf("%s, writes of %d", name, size), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				l, err := openStderrLog(dir, "x.log")
				if err != nil {
					t.Fatal(err)
				}
				for rest := []byte(test.wrote); len(rest) > 0; rest = rest[min(size, len(rest)):] {
					_, _ = l.Write(rest[:min(size, len(rest))])
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				file, err := os.ReadFile(filepath.Join(dir, "x.log"))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.file, string(file)); diff != "" {
					t.Errorf("file, -want +got:\n%s", diff)
				}
				if diff := cmp.Diff(test.tail, l.lastLines()); diff != "" {
					t.Errorf("last lines, -want +got:\n%s", diff)
				}
				if diff := cmp.Diff(test.reason, l.reason()); diff != "" {
					t.Errorf("reason, -want +got:\n%s", diff)
				}
			})
		}
	}
}

func TestStderrLog_Bounds(t *testing.T) {
	t.Parallel()
	l := &stderrLog{}
	for i := range 1000 {
		_, _ = fmt.Fprintf(l, "%d %s\n", i, strings.Repeat("y", 600))
	}
	_, _ = l.Write([]byte(strings.Repeat("z", 1<<20) + "\nend\n"))
	lines, size := l.lastLines(), 0
	for _, line := range lines {
		size += len(line)
	}
	if len(lines) > maxTailLines || size > maxTailBytes || lines[len(lines)-1] != "end" {
		t.Errorf("%d lines of %d bytes are kept, the last is %q", len(lines), size, lines[len(lines)-1])
	}
	if cap(l.line) > 2*maxBufferedLine {
		t.Errorf("%d bytes are held for one line", cap(l.line))
	}
}

func FuzzStderrLog(f *testing.F) {
	for _, seed := range []string{"", "\n", "{\"@message\":1}\n", "{\"@level\":[]}\n{", "\x1b\xff\x00", "panic: x\nSIGQUIT:"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &stderrLog{}
		_, _ = l.Write(data)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for _, line := range append(l.lastLines(), l.reason()) {
			if !utf8.ValidString(line) || strings.ContainsAny(line, "\x00\x1b\n\r") {
				t.Errorf("%q is shown", line)
			}
		}
	})
}

func TestStderr_OfAProcess(t *testing.T) {
	t.Parallel()
	const long = 10 << 20
	canary := "canary-0123456789abcdef"
	h := newTestHost(t, program(t,
		`stderr "{\"@message\":1}\n{\"@level\":[]}\n{\"@timestamp\":{}}\n\x00\x1b[31m\xff\n"`, fmt.Sprint("longline ", long), "sleep 200ms"), nil)
	p, err := h.Start(testContext(t), Instance{Name: "a/b", Kind: testKind().Name, Configuration: shared.Configuration{
		Secrets: map[string]shared.Secret{"key": shared.NewSecret(canary)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t, p, "say", `{"@message":1}`+"\nfrom a call\n"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(h.cfg.LogDir, "a%2Fb.log")
	var text string
	eventually(t, 20*time.Second, "the whole log", func() bool {
		b, err := os.ReadFile(file)
		text = string(b)
		return err == nil && strings.Contains(text, "[info] secret key is *** here\n")
	})
	if err := h.Stop(testContext(t)); err != nil {
		t.Errorf("Stop(): %v", err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = string(b)
	for _, want := range []string{`[info] {"@timestamp":{}}` + "\n", `\x00\x1b[31m\xff` + "\n", strings.Repeat("z", long) + "\n", "[info] from a call\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %.60q", want)
		}
	}
	if strings.Contains(text, canary) {
		t.Error("the log holds a secret")
	}
}
