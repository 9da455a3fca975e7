package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellharness/shared"
	"cellharness/shared/worktreepb"
)

// adapterCommand returns the command that starts this test binary as an adapter of the given mode.
func adapterCommand(t *testing.T, mode string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(bounded(t), self)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), adapterEnv + "=" + mode, markEnv + "=" + filepath.Join(t.TempDir(), "mark"), "TMPDIR=" + t.TempDir()}, env...)
	return cmd
}

// handshakeEnv is what go-plugin gives an adapter, without TLS.
func handshakeEnv(t *testing.T) []string {
	t.Helper()
	hs := Handshake()
	return []string{hs.MagicCookieKey + "=" + hs.MagicCookieValue, "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR=" + t.TempDir()}
}

// launch starts an adapter process through go-plugin, as a host does.
func launch(t *testing.T, mode string) *plugin.Client {
	t.Helper()
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: Handshake(), VersionedPlugins: ClientPlugins(), Cmd: adapterCommand(t, mode), AutoMTLS: true,
		SkipHostEnv: true, AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, GRPCDialOptions: DialOptions(),
		Logger: hclog.NewNullLogger(), StartTimeout: patience, UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: t.TempDir()},
	})
	t.Cleanup(client.Kill)
	return client
}

func dispense[T any](t *testing.T, client *plugin.Client, service string) T {
	t.Helper()
	protocol, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protocol.Dispense(service)
	if err != nil {
		t.Fatal(err)
	}
	return raw.(T)
}

func TestServe_Process(t *testing.T) {
	t.Parallel()
	client := launch(t, "")
	adapter := dispense[shared.Adapter](t, client, DispenseAdapter)
	d, err := adapter.Negotiate(bounded(t), shared.HostInfo{})
	if err != nil {
		t.Fatal(err)
	}
	var state processState
	if err := json.Unmarshal([]byte(d.Reason), &state); err != nil {
		t.Fatal(err)
	}
	// The descriptor above 2 is the one through which ls reads the directory.
	want := processState{Stdout: "/dev/null", Child: "0077\n0\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0 1 2 3 "}
	if diff := cmp.Diff(want, state); diff != "" {
		t.Errorf("the process: -want +got:\n%s", diff)
	}
	result, err := adapter.RunCell(bounded(t), shared.Handle{}, execCell(), ignoreEvents)
	if err != nil || *result.ExitCode != 0 {
		t.Errorf("RunCell = %+v, %v", result, err)
	}
	pid := client.ReattachConfig().Pid
	if f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err == nil && os.Getuid() != 0 {
		t.Errorf("the memory of the adapter can be read: %v", f.Close())
	}
	client.Kill()
	if !client.Exited() {
		t.Error("the adapter lives after Kill")
	}
}

func TestServe_NoiseOnStdout(t *testing.T) {
	t.Parallel()
	adapter := dispense[shared.Adapter](t, launch(t, ""), DispenseAdapter)
	for range 2 {
		if _, err := adapter.Teardown(bounded(t), shared.Handle{}); err != nil {
			t.Errorf("a call that writes 2 MiB to fd 1: %v", err)
		}
	}
}

func TestServe_Worktree(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]codes.Code{"worktree": codes.OK, "": codes.Unimplemented} {
		worktree := dispense[worktreepb.WorktreeClient](t, launch(t, mode), DispenseWorktree)
		if _, err := worktree.Get(bounded(t), &worktreepb.GetRequest{}); status.Code(err) != want {
			t.Errorf("in the mode %q Get says %v, want %v", mode, err, want)
		}
		if mode == "" {
			continue
		}
		_, err := worktree.Discard(bounded(t), &worktreepb.DiscardRequest{})
		if got := FromStatus(err); !errors.Is(got, shared.ErrPrecondition) || !Spoken(got) {
			t.Errorf("Discard says %v, want its own error", got)
		}
	}
}

func TestServe_ByHand(t *testing.T) {
	t.Parallel()
	cmd := adapterCommand(t, "")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != exitByHand {
		t.Errorf("%v, want the exit code %d", err, exitByHand)
	}
	for _, want := range []string{"stub", shared.Version, "started by harness"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr %q does not say %q", &stderr, want)
		}
	}
	if stdout.Len() > 0 {
		t.Errorf("stdout %q, want nothing", &stdout)
	}
}

// startByHand starts an adapter with the handshake of a host, and waits for its line.
func startByHand(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended already, unless the test failed
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "1|1|unix|") {
		t.Fatalf("the handshake is %q, %v", line, err)
	}
}

func marks(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	for _, v := range cmd.Env {
		if path, ok := strings.CutPrefix(v, markEnv+"="); ok {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	return ""
}

func TestServe_HostGone(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "slow end"} {
		t.Run("mode "+mode, func(t *testing.T) {
			t.Parallel()
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := adapterCommand(t, mode, append(handshakeEnv(t), LifelineEnv+"=3")...)
			cmd.ExtraFiles = []*os.File{read}
			startByHand(t, cmd)
			if err := errors.Join(read.Close(), write.Close()); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitHostGone {
				t.Errorf("%v, want the exit code %d", err, exitHostGone)
			}
			if took := time.Since(start); took > 3*2*time.Second {
				t.Errorf("the adapter lived for %v after its host", took)
			}
			if got := marks(t, cmd); got != "host gone\n" {
				t.Errorf("what happened is %q", got)
			}
		})
	}
}

// TestServe_Signals holds that SIGINT and SIGPIPE do nothing, and that SIGTERM drains.
func TestServe_Signals(t *testing.T) {
	t.Parallel()
	cmd := adapterCommand(t, "", handshakeEnv(t)...)
	startByHand(t, cmd)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGPIPE, syscall.SIGTERM} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, want the exit code 0", err)
	}
	if got := marks(t, cmd); got != "drain 10s\n" {
		t.Errorf("what happened is %q", got)
	}
}

func TestServe_CannotServe(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]string{
		"the lifeline is no number":   LifelineEnv + "=three",
		"the lifeline is not open":    LifelineEnv + "=77",
		"the lifeline is stderr":      LifelineEnv + "=2",
		"there is no place to listen": "PLUGIN_UNIX_SOCKET_DIR=/dev/null/missing",
	} {
		cmd := adapterCommand(t, "", append(handshakeEnv(t), env)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
			t.Errorf("%s: %v, want the exit code %d", name, err, exitFailed)
		}
		if !strings.Contains(stderr.String(), `"@level":"error"`) {
			t.Errorf("%s: stderr says %q", name, &stderr)
		}
	}
}
