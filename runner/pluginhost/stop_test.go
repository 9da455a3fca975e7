package pluginhost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

// TestLeaks runs before the parallel tests, so that what it counts is its own.
func TestLeaks(t *testing.T) {
	h := newTestHost(t, program(t), nil)
	p := start(t, h, "a")
	cycle := func() {
		p.Succeeded()
		if err := run(t, p, "kill"); !errors.Is(err, shared.OfCause(shared.CauseAdapterCrashed)) {
			t.Fatalf("RunCell() = %v, want CauseAdapterCrashed", err)
		}
		<-p.disposed
		p = acquire(t, h)
	}
	cycle() // what is made once is there now
	settled := func() string {
		entries, err := os.ReadDir(h.socketDir)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d descriptors, %d children, %d socket directories", countFDs(t), len(livingChildren()), len(entries))
	}
	goroutines, before := runtime.NumGoroutine(), settled()
	for range 20 {
		cycle()
	}
	eventually(t, 10*time.Second, "goroutines, descriptors, children and directories as before", func() bool {
		return runtime.NumGoroutine() <= goroutines && settled() == before
	})
	if err := h.Stop(testContext(t)); err != nil {
		t.Errorf("Stop(): %v", err)
	}
	if left := livingChildren(); len(left) > 0 {
		t.Errorf("children %v are left after Stop", left)
	}
	if _, err := os.Stat(h.socketDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the sockets is left after Stop: %v", err)
	}
}

func countFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestStop(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		behaviour string
		within    time.Duration
		want      string // in the error; empty: no error
	}{
		"clean":          {"", 5 * time.Second, ""},
		"leaks":          {"leak 2", 5 * time.Second, "adapter test_adapter.b may have left 2 workspaces; the open leases in the journal of the run name them"},
		"hangs in drain": {"stopin drain", 12 * time.Second, "drain adapter test_adapter.a: adapter test_adapter.a did not answer within"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen crashes
			h := newTestHost(t, program(t, test.behaviour), func(c *Config) { c.OnCrash = seen.add })
			h.timing.drain = 2 * time.Second
			a, b := start(t, h, "a"), start(t, h, "b")
			began := time.Now()
			err := h.Stop(testContext(t))
			if took := time.Since(began); took > test.within {
				t.Errorf("Stop() took %s, want at most %s", took, test.within)
			}
			if (test.want == "") != (err == nil) || !strings.Contains(errorText(err), test.want) {
				t.Errorf("Stop() = %v, want %q", err, test.want)
			}
			if !gone(a.child.pid()) || !gone(b.child.pid()) {
				t.Error("an adapter is there after Stop")
			}
			if got := seen.all(); len(got) > 0 {
				t.Errorf("OnCrash got %+v, want nothing: the end was meant", got)
			}
			if _, err := h.Acquire(testContext(t), "a"); !errors.Is(err, shared.ErrCancelled) {
				t.Errorf("Acquire() after Stop = %v, want CodeCancelled", err)
			}
			if _, err := h.Start(testContext(t), Instance{Name: "c", Kind: testKind().Name}); !errors.Is(err, shared.ErrCancelled) {
				t.Errorf("Start() after Stop = %v, want CodeCancelled", err)
			}
		})
	}
}

func TestStop_StoppedProcess(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, program(t), nil)
	p := start(t, h, "a")
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	began := time.Now()
	if err := h.Stop(ctx); err != nil {
		t.Errorf("Stop(cancelled) = %v, want nil", err)
	}
	if took := time.Since(began); took > 5*time.Second || !gone(p.child.pid()) {
		t.Errorf("Stop(cancelled) took %s, process gone: %t", took, gone(p.child.pid()))
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	dir := program(t)
	h := newTestHost(t, dir, nil)
	p := start(t, h, "a")
	behave(t, dir, "sleep 1m")
	launching := make(chan error, 1)
	go func() {
		_, err := h.Start(testContext(t), Instance{Name: "b", Kind: testKind().Name})
		launching <- err
	}()
	running := make(chan error, 1)
	go func() { running <- run(t, p, "block") }()
	eventually(t, 10*time.Second, "the second process", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for c := range h.children {
			if c != p.child && c.pid() > 0 {
				return true
			}
		}
		return false
	})
	began := time.Now()
	h.Kill()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Kill() took %s", took)
	}
	for what, result := range map[string]chan error{"Start()": launching, "RunCell()": running} {
		if err := <-result; !errors.Is(err, shared.ErrCancelled) {
			t.Errorf("%s under Kill = %v, want CodeCancelled", what, err)
		}
	}
}

func TestHostKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(self, program(t))
	host.Args[0] = hostBinary
	host.Env = append(os.Environ(), "XDG_RUNTIME_DIR=", "TMPDIR=/tmp")
	stdout, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the host said %q: %v", line, err)
	}
	var pid int
	var socketDir string
	if _, err := fmt.Sscan(line, &pid, &socketDir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(socketDir) })
	if gone(pid) {
		t.Fatal("the adapter is not there before the host's death")
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Second, "the adapter gone after its host was killed", func() bool { return gone(pid) })
	_ = host.Wait() // it was killed
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	given := []string{
		"PATH=/bin", "HOME=/h", "TMPDIR=/tmp", "LANG=de", "LC_ALL=de", "LC_TIME=de", "TZ=UTC", "USER=u", "LOGNAME=u",
		"XDG_CACHE_HOME=/c", "SSL_CERT_FILE=/f", "SSL_CERT_DIR=/d", "DAYTONA_API_KEY=canary", "GIT_DIR=canary",
		"HTTPS_PROXY=canary", "SSH_AUTH_SOCK=canary", "LD_PRELOAD_X=canary", "GOFLAGS=canary", "GOTRACEBACK=all", "PLUGIN_MIN_PORT=canary", "HARNESS_X=canary", "odd",
	}
	want := []string{
		"GOTRACEBACK=all", "HARNESS_ADAPTER_COOKIE", "HARNESS_LIFELINE", "HOME=/h", "LANG=de", "LC_ALL=C", "LOGNAME=u", "PATH=/bin", "PLUGIN_CLIENT_CERT",
		"PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR", "SSL_CERT_DIR=/d", "SSL_CERT_FILE=/f",
		"TMPDIR=/tmp", "TZ=UTC", "USER=u", "XDG_CACHE_HOME=/c",
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "environ")
	script := "#!/bin/sh\ncat /proc/$$/environ >'" + out + "'\nls -l /proc/$$/fd >'" + out + ".fds'\nexit 5\n"
	writeScript(t, filepath.Join(dir, adapterBinary), script)
	h := newTestHost(t, dir, func(c *Config) { c.Environ = given })
	if _, err := h.Start(testContext(t), Instance{Name: "a", Kind: testKind().Name}); err == nil {
		t.Fatal("Start() of a script that exits succeeded")
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "canary") {
		t.Errorf("a canary reached the adapter")
	}
	got := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	for i, kv := range got {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "PLUGIN_") || strings.HasPrefix(name, "HARNESS_") {
			got[i] = name
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment of the adapter, -want +got:\n%s", diff)
	}
	fds, err := os.ReadFile(out + ".fds")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(fds), " 0 -> /dev/null\n") || !strings.Contains(string(fds), " 3 -> pipe:") {
		t.Errorf("descriptors of the adapter:\n%swant /dev/null on 0 and a pipe on 3", fds)
	}
}

func TestSocketDir(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), strings.Repeat("a", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("/tmp", "with blank")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	missing := filepath.Join(short, "missing")
	t.Run("next candidate", func(t *testing.T) {
		t.Parallel()
		h := newTestHost(t, program(t), func(c *Config) { c.RuntimeDirs = []string{long, missing, "relative", short} })
		start(t, h, "a")
		info, err := os.Stat(h.socketDir)
		if err != nil || filepath.Dir(h.socketDir) != short || info.Mode().Perm() != 0o700 {
			t.Errorf("the sockets are in %s, %v (%v), want below %s and 0700", h.socketDir, info.Mode(), err, short)
		}
		if entries, err := os.ReadDir(long); err != nil || len(entries) > 0 {
			t.Errorf("%s holds %v (%v), want nothing", long, entries, err)
		}
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		_, err := New(Config{RuntimeDirs: []string{long, missing}})
		if !errors.Is(err, shared.ErrUnavailable) || !strings.Contains(errorText(err), missing+" (no such file or directory)") ||
			!strings.Contains(errorText(err), long+" (too long for a socket by ") {
			t.Errorf("New() = %v, want CodeUnavailable that lists what was tried", err)
		}
	})
	t.Run("from the environment", func(t *testing.T) {
		t.Parallel()
		got := runtimeDirs([]string{"TMPDIR=/first", "XDG_RUNTIME_DIR=/run/u", "TMPDIR=/t"})
		if diff := cmp.Diff([]string{"/run/u", "/t", "/tmp"}, got); diff != "" {
			t.Errorf("runtimeDirs(), -want +got:\n%s", diff)
		}
	})
}

func TestWorktree(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, program(t, "services adapter worktree"), nil)
	if client, err := start(t, h, "a").Worktree(); err != nil || client == nil {
		t.Errorf("Worktree() = %v, %v; want a client", client, err)
	}
	h = newTestHost(t, program(t), nil)
	_, err := start(t, h, "a").Worktree()
	if !errors.Is(err, shared.ErrUnsupported) || !strings.Contains(errorText(err), "adapter test_adapter.a has no worktree sessions") {
		t.Errorf("Worktree() = %v, want CodeUnsupported that names the adapter", err)
	}
}
