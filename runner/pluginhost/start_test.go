package pluginhost

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

func TestStart_BadProgram(t *testing.T) {
	t.Parallel()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	otherMachine := append([]byte(nil), self[:1<<20]...)
	otherMachine[18], otherMachine[19] = byte(elf.EM_S390), 0
	write := func(content string, mode os.FileMode) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(content), mode) }
	}
	own, known := machineOf(bytes.NewReader(self))
	if !known {
		t.Fatal("this program does not say its machine")
	}
	tests := map[string]struct {
		make func(path string) error
		want string // after the path
	}{
		"missing":            {func(string) error { return nil }, "does not exist; install the adapter there, from the same build as the harness"},
		"not executable":     {write(string(self), 0o644), "is not executable; chmod +x it, or install the adapter again"},
		"folder":             {func(p string) error { return os.Mkdir(p, 0o755) }, "is a folder, not a program; install the adapter in its place"},
		"text":               {write("this is no program\n", 0o755), "is no program, neither an executable nor a script; install the adapter again"},
		"empty":              {write("", 0o755), "is an empty file; install the adapter again"},
		"cut short":          {write(string(self[:5000]), 0o755), "is damaged: the file is shorter than its header says; install the adapter again"},
		"cut in its header":  {write(string(self[:40]), 0o755), "is damaged: the file is shorter than its header says; install the adapter again"},
		"link to nowhere":    {func(p string) error { return os.Symlink("nowhere", p) }, `is a link to nowhere ("nowhere"); install the adapter there`},
		"other machine":      {write(string(otherMachine), 0o755), "is built for another machine (EM_S390 ELFCLASS64, this one is " + own + "); install the adapter of this machine"},
		"no interpreter":     {write("#!/no/such/interpreter\n", 0o755), `is a script whose interpreter "/no/such/interpreter" is not there`},
		"carriage returns":   {write("#!/bin/sh\r\nexit 0\r\n", 0o755), `is a script with carriage returns at the ends of its lines, which its interpreter is not found for; save it with "\n" alone`},
		"not a regular file": {func(p string) error { return os.Symlink("/dev/null", p) }, "is not a regular file; install the adapter in its place"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, adapterBinary)
			if err := test.make(path); err != nil {
				t.Fatal(err)
			}
			h := newTestHost(t, dir, nil)
			_, err := h.Start(testContext(t), Instance{Name: "here", Kind: testKind().Name})
			if !errors.Is(err, shared.ErrUnavailable) {
				t.Errorf("Start() = %#v, want CodeUnavailable", err)
			}
			if diff := cmp.Diff("adapter test_adapter.here: "+path+" "+test.want, errorText(err)); diff != "" {
				t.Errorf("Start(), -want +got:\n%s", diff)
			}
			checkNothingLeft(t, h)
		})
	}
}

func TestStart_FailsBeforeReady(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		behaviour []string
		want      string // a regular expression over what follows "adapter test_adapter.here"
	}{
		"banner on stdout": {
			[]string{`stdout "license banner v1\n"`},
			`: \S+ wrote "license banner v1" to stdout in place of its handshake; what an adapter has to say belongs on stderr`,
		},
		"binary banner on stdout": {
			[]string{`stdout "\x00\x1b[31m\xff` + strings.Repeat("x", 9000) + `"`, "sleep 1m"},
			`: \S+ wrote "\\x00\\x1b\[31m\\xffx+"… \(4096 bytes\) and more to stdout in place of .*`,
		},
		"unfinished line on stdout": {
			[]string{`stdout "loading..."`, "sleep 1m"},
			`: \S+ wrote "loading\.\.\." to stdout in place of its handshake; .*`,
		},
		"exit": {
			[]string{`stderr "no licence found\n"`, "exit 3"},
			`: \S+ ended before its handshake \(exit status 3\); its last lines: no licence found; its log is \S+/here\.log`,
		},
		"silent exit 0": {
			[]string{"exit 0"},
			`: \S+ ended before its handshake \(exit status 0\); its log is .*`,
		},
		"panic": {
			[]string{"panic out of luck"},
			`: \S+ ended before its handshake \(exit status 2\); its last lines: panic: out of luck; its log is .*`,
		},
		"killed": {
			[]string{"signal 9"},
			`: \S+ ended before its handshake \(killed by signal 9, SIGKILL\); its log is .*`,
		},
		"closed stdout": {
			[]string{"closestdout", "sleep 1m"},
			`: \S+ closed its stdout without a handshake; its log is .*`,
		},
		"silence": {
			[]string{"sleep 1m"},
			`: \S+ said nothing within 2s of its start; its log is .*`,
		},
		"other contract": {
			[]string{`stdout "1|2|unix|/tmp/x|grpc|\n"`, "sleep 1m"},
			`: \S+ speaks version "2" of the adapter contract, this harness speaks version 1; install both from one build`,
		},
		"socket elsewhere": {
			[]string{`stdout "1|1|tcp|127.0.0.1:1|grpc|\n"`, "sleep 1m"},
			`: \S+ made a handshake that cannot be used: address tcp 127\.0\.0\.1:1 is outside .*`,
		},
		"other name": {
			[]string{"name daytona"},
			`: \S+ is the adapter "daytona", not test_adapter; install the adapters of one build, each under its own name`,
		},
		"does not fit": {
			[]string{"unfit it speaks handles of version 7 only"},
			`: \S+ does not fit this harness: it speaks handles of version 7 only`,
		},
		"no cells": {
			[]string{"services worktree"},
			`: \S+ serves no cells; install .*`,
		},
		"hangs in Negotiate": {
			[]string{"stopin negotiate"},
			` did not answer within \S+ and was ended during Negotiate; its log is .*`,
		},
		"hangs in Configure": {
			[]string{"stopin configure"},
			` did not answer within \S+ and was ended during Configure; its log is .*`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, program(t, test.behaviour...), nil)
			h.timing.handshake = 2 * time.Second
			h.timing.negotiate, h.timing.configure = 3*time.Second, 3*time.Second
			_, err := h.Start(testContext(t), Instance{Name: "here", Kind: testKind().Name})
			if !errors.Is(err, shared.ErrUnavailable) {
				t.Errorf("Start() = %#v, want CodeUnavailable", err)
			}
			if want := "^adapter test_adapter.here" + test.want + "$"; !regexp.MustCompile(want).MatchString(errorText(err)) {
				t.Errorf("Start() = %q\nwant %q", errorText(err), want)
			}
			checkNothingLeft(t, h)
		})
	}
}

func TestStart_RetriesOnce(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, program(t, "exitonce 7"), nil)
	if p := start(t, h, "a"); p.Generation() != 1 {
		t.Errorf("Generation() = %d, want 1: the launch that failed brought none", p.Generation())
	}
}

func TestStart_SlowHandshake(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, program(t, "sleep 3s"), nil)
	start(t, h, "a")
}

func TestStart_Interrupted(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, program(t, "sleep 1m"), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := h.Start(ctx, Instance{Name: "a", Kind: testKind().Name})
	if !errors.Is(err, shared.ErrTimeout) {
		t.Errorf("Start() = %v, want CodeTimeout", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("Start() took %s, want the caller's bound", took)
	}
	checkNothingLeft(t, h)
}

func TestStart_Violations(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, program(t, "refuse base"), nil)
	_, err := h.Start(testContext(t), Instance{Name: "a", Kind: testKind().Name})
	var got *shared.Error
	if !errors.As(err, &got) || got.Code != shared.CodeInvalid {
		t.Fatalf("Start() = %#v, want CodeInvalid", err)
	}
	if diff := cmp.Diff([]shared.Violation{{Field: "base", Message: "is bad"}}, got.Violations); diff != "" {
		t.Errorf("violations, -want +got:\n%s", diff)
	}
}

func TestStart_UnknownKindAndTwice(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, program(t), nil)
	if _, err := h.Start(testContext(t), Instance{Name: "a", Kind: "nobody"}); !errors.Is(err, shared.ErrInvalid) {
		t.Errorf("Start(unknown kind) = %v, want CodeInvalid", err)
	}
	start(t, h, "a")
	if _, err := h.Start(testContext(t), Instance{Name: "a", Kind: testKind().Name}); !errors.Is(err, shared.ErrExists) {
		t.Errorf("Start(again) = %v, want CodeExists", err)
	}
	if _, err := h.Acquire(testContext(t), "b"); !errors.Is(err, shared.ErrPrecondition) {
		t.Errorf("Acquire(never started) = %v, want CodePrecondition", err)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	dir := program(t, "stopin configure", "services adapter worktree")
	h := newTestHost(t, dir, nil)
	d, digest, err := h.Describe(testContext(t), testKind().Name)
	if err != nil || d.Name != testKind().Name || !d.Serves(shared.ServiceWorktree) || len(digest) != 64 {
		t.Errorf("Describe() = %+v, %q, %v", d, digest, err)
	}
	checkNothingLeft(t, h)
	behave(t, dir, "name other")
	_, _, err = h.Describe(testContext(t), testKind().Name)
	if !errors.Is(err, shared.ErrUnavailable) || !strings.HasPrefix(errorText(err), "adapter test_adapter: "+dir) {
		t.Errorf("Describe(other name) = %v, want CodeUnavailable that names kind and path", err)
	}
	checkNothingLeft(t, h)
}

func TestStart_NotThePlannedProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	marker := filepath.Join(dir, "ran")
	script := fmt.Sprintf("#!/bin/sh\ntouch '%s'\n", marker)
	writeScript(t, filepath.Join(dir, adapterBinary), script)
	h := newTestHost(t, dir, nil)
	planned := strings.Repeat("0", 64)
	_, err := h.Start(testContext(t), Instance{Name: "a", Kind: testKind().Name, Digest: planned})
	if !errors.Is(err, shared.OfCause(shared.CauseProtocol)) || !strings.Contains(errorText(err), planned) {
		t.Errorf("Start() = %v, want CauseProtocol and both digests", err)
	}
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program ran")
	}
}

func TestStart_ThroughAScript(t *testing.T) {
	t.Parallel()
	dir := program(t)
	path := filepath.Join(dir, adapterBinary)
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{adapterBinary, behaviourFile} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, "real", name)); err != nil {
			t.Fatal(err)
		}
	}
	script := "#!/bin/sh\necho license banner v1 >&2\nexec \"$(dirname \"$0\")/real/" + adapterBinary + "\"\n"
	writeScript(t, path, script)
	h := newTestHost(t, dir, nil)
	start(t, h, "here")
	log := filepath.Join(h.cfg.LogDir, "here.log")
	eventually(t, 5*time.Second, "banner in the log", func() bool {
		text, _ := os.ReadFile(log)
		return strings.Contains(string(text), "[info] license banner v1\n")
	})
}

// checkNothingLeft looks for processes and sockets of failed launches.
func checkNothingLeft(t *testing.T, h *Host) {
	t.Helper()
	h.mu.Lock()
	children := len(h.children)
	h.mu.Unlock()
	if children != 0 {
		t.Errorf("%d processes are still in the host's care", children)
	}
	entries, err := os.ReadDir(h.socketDir)
	if err != nil || len(entries) != 0 {
		t.Errorf("the directory of the sockets holds %v (%v), want nothing", entries, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
