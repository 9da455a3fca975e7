package adaptertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"cellharness/shared"
	"cellharness/shared/wire"
)

const (
	// startTimeout bounds the start of an adapter process, on a busy machine.
	startTimeout = time.Minute
	// stopTimeout is how long an adapter process may take to stop before it is killed.
	stopTimeout = 20 * time.Second
	// lifelineFD is the first descriptor after the standard ones, where exec.Cmd puts the first extra file.
	lifelineFD = 3
)

// Process starts an adapter process and returns the adapter in it. The process gets nothing but env, what the handshake
// needs and the suite's own variable; it is stopped at the end of the test, and dies with the test's process.
//
// binary is an adapter, or the test's own executable with a variable in env that makes its TestMain call an adapter's
// main function:
//
//	if os.Getenv("BE_ADAPTER") != "" {
//		os.Exit(adaptertest.FakeMain())
//	}
func Process(t *testing.T, binary string, env []string) shared.Adapter {
	t.Helper()
	// The address of a socket is short, the directory of a test may be long.
	dir, err := os.MkdirTemp("", "at")
	if err != nil {
		t.Fatalf("make a directory for the socket: %v", err)
	}
	lifeline, ours, err := os.Pipe()
	if err != nil {
		t.Fatalf("make the lifeline: %v", err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append([]string{
		"TMPDIR=" + dir, canaryName + "=" + canaryValue, fmt.Sprintf("%s=%d", wire.LifelineEnv, lifelineFD),
	}, env...)
	if race, ok := os.LookupEnv("GORACE"); ok {
		cmd.Env = append(cmd.Env, "GORACE="+race)
	}
	cmd.ExtraFiles = []*os.File{lifeline}
	var said log
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: wire.Handshake(), VersionedPlugins: wire.ClientPlugins(), Cmd: cmd, SkipHostEnv: true,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, AutoMTLS: true, GRPCDialOptions: wire.DialOptions(),
		StartTimeout: startTimeout, Stderr: &said, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(func() {
		stop(t, client, cmd)
		_ = lifeline.Close() // nothing was written to it
		_ = ours.Close()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the directory of the socket: %v", err)
		}
		if t.Failed() {
			t.Logf("the adapter process said:\n%s", said.text())
		}
	})
	return dispense(t, client)
}

func dispense(t *testing.T, client *plugin.Client) shared.Adapter {
	t.Helper()
	conn, err := client.Client()
	if err != nil {
		t.Fatalf("start the adapter process: %v", err)
	}
	service, err := conn.Dispense(wire.DispenseAdapter)
	if err != nil {
		t.Fatalf("dispense the adapter: %v", err)
	}
	a, ok := service.(shared.Adapter)
	if !ok {
		t.Fatalf("the process serves a %T, want an adapter", service)
	}
	return a
}

// stop stops the process. Kill of go-plugin waits without a bound, so it is waited for here.
func stop(t *testing.T, client *plugin.Client, cmd *exec.Cmd) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		client.Kill()
	}()
	select {
	case <-done:
		return
	case <-time.After(stopTimeout):
	}
	t.Errorf("the adapter process did not stop within %s", stopTimeout)
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("kill the adapter process: %v", err)
	}
	<-done
}

// log keeps what a process said. It may be written to and read at once.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
