package pluginhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
)

const (
	// maxHandshake bounds the one line of stdout that go-plugin gets to see. A handshake with a certificate has about
	// 1 KiB; over 64 KiB go-plugin's scanner stops and the next writer of stdout blocks for good.
	maxHandshake = 4 << 10
	// drainAfterExit is how long the outputs of a dead process are still read when another process holds them open.
	drainAfterExit = 250 * time.Millisecond
	// timeToDie is how long a process that closed its stdout may take to end by itself: a crash that writes its
	// trace takes some 10 ms.
	timeToDie = 500 * time.Millisecond
)

var _ runner.Runner = (*child)(nil)

// child is one adapter process as go-plugin sees it: a runner.Runner. In contrast to go-plugin's own it never waits
// for whoever else holds the process's outputs, and hands nothing of stderr on.
type child struct {
	path   string
	stderr io.WriteCloser // takes what the process writes to stderr

	handshakeRead, stderrRead   *io.PipeReader // what go-plugin reads
	handshakeWrite, stderrWrite *io.PipeWriter
	done                        chan struct{} // closed once the process is reaped and its output is read
	starting                    sync.Locker   // held while the process is started
	reaped                      func()        // called once the process is reaped, before done is closed

	mu        sync.Mutex // guards what follows
	env       []string
	socketDir string
	cmd       *exec.Cmd
	lifeline  *os.File // write end: the adapter ends when it is closed
	cancelled bool     // killed by us; not started any more
	ended     bool     // no signal may be sent any more
	startErr  error
	stdout    []byte // what came first on stdout, at most maxHandshake bytes
	sealed    bool   // stdout ended by itself, or has all that is kept of it
	logErr    error
}

func newChild(path string, stderr io.WriteCloser, starting sync.Locker, reaped func()) *child {
	c := &child{path: path, stderr: stderr, done: make(chan struct{}), starting: starting, reaped: reaped}
	c.handshakeRead, c.handshakeWrite = io.Pipe()
	c.stderrRead, c.stderrWrite = io.Pipe()
	return c
}

// adopt takes what go-plugin wants the process to have.
func (c *child) adopt(env []string, socketDir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env, c.socketDir = env, socketDir
}

// Start starts the process in a session of its own, with nothing on stdin and the lifeline on descriptor 3.
func (c *child) Start(context.Context) error {
	c.starting.Lock()
	defer c.starting.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled {
		c.startErr = errors.New("killed before its start")
		close(c.done)
		return c.startErr
	}
	pipes, err := c.start()
	if err != nil {
		c.startErr = errors.Join(err, c.stderr.Close())
		close(c.done)
		return c.startErr
	}
	go c.reap(pipes)
	return nil
}

// outputs are our ends of the process's stdout and stderr, and the ends that belong to the process alone.
type outputs struct {
	stdout, stderr *os.File
	theirs         []*os.File
}

func (c *child) start() (_ outputs, err error) {
	var opened []*os.File
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err == nil {
				opened = append(opened, r, w)
			}
		}
		return r, w
	}
	outRead, outWrite := pipe()
	errRead, errWrite := pipe()
	lifeRead, lifeWrite := pipe()
	cmd := &exec.Cmd{
		Path: c.path, Args: []string{c.path}, Env: c.env, Dir: "/",
		Stdout: outWrite, Stderr: errWrite, ExtraFiles: []*os.File{lifeRead},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		for _, f := range opened {
			err = errors.Join(err, f.Close())
		}
		return outputs{}, err
	}
	c.cmd, c.lifeline = cmd, lifeWrite
	return outputs{outRead, errRead, []*os.File{outWrite, errWrite, lifeRead}}, nil
}

// reap owns the process and its outputs until both have ended.
func (c *child) reap(out outputs) {
	var err error
	for _, f := range out.theirs {
		err = errors.Join(err, f.Close())
	}
	var readers sync.WaitGroup
	readers.Go(func() { c.readStdout(out.stdout) })
	readers.Go(func() { _, _ = io.Copy(c.stderr, out.stderr) }) // ends with the pipe; the log keeps its own failure
	read := make(chan struct{})
	go func() { readers.Wait(); close(read) }()

	awaitExit(c.cmd)
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	_ = c.cmd.Wait() // how it ended is read from ProcessState
	patience := time.NewTimer(drainAfterExit)
	defer patience.Stop()
	select {
	case <-read:
	case <-patience.C:
	}
	err = errors.Join(err, c.lifeline.Close(), out.stdout.Close(), out.stderr.Close())
	<-read
	err = errors.Join(err, c.stderr.Close())
	c.mu.Lock()
	c.logErr = err
	c.mu.Unlock()
	_, _ = c.handshakeWrite.Close(), c.stderrWrite.Close() // always nil
	c.reaped()
	close(c.done)
}

// readStdout hands the first line to go-plugin and drops the rest. When there is none, go-plugin's reader ends at once,
// so that it fails now and not at its time limit.
func (c *child) readStdout(r io.Reader) {
	buf := make([]byte, maxHandshake)
	var line []byte
	for {
		n, err := r.Read(buf)
		line = append(line, buf[:min(n, maxHandshake-len(line))]...)
		end := bytes.IndexByte(line, '\n')
		if end >= 0 {
			line = line[:end+1]
		}
		ended := end >= 0 || err != nil || len(line) == maxHandshake
		c.saw(line, ended)
		if !ended {
			continue
		}
		if end >= 0 {
			_, _ = c.handshakeWrite.Write(line) // an error means that go-plugin gave up on this launch
		} else {
			_ = c.handshakeWrite.Close() // always nil
		}
		_, _ = io.Copy(io.Discard, r) // ends with the pipe
		return
	}
}

func (c *child) saw(line []byte, sealed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stdout = bytes.Clone(line)
	c.sealed = sealed && !c.cancelled
}

// Diagnose says nothing: the host makes its own diagnosis, from more than go-plugin asks for.
func (c *child) Diagnose(context.Context) string { return "" }

// Stdout carries the handshake line and then nothing until the process is gone.
func (c *child) Stdout() io.ReadCloser { return c.handshakeRead }

// Stderr carries nothing until the process is gone.
func (c *child) Stderr() io.ReadCloser { return c.stderrRead }

// Name is the path of the program.
func (c *child) Name() string { return c.path }

// ID is the process id, empty before the start.
func (c *child) ID() string {
	if pid := c.pid(); pid > 0 {
		return strconv.Itoa(pid)
	}
	return ""
}

func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return 0
	}
	return c.cmd.Process.Pid
}

// Wait returns once the process is reaped and its output is read.
func (c *child) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill ends the process for go-plugin, which calls it as soon as stdout ended without a handshake. A process that is
// dying by itself at that moment is given the time to do so, since how it ended is the reason that people want to see.
func (c *child) Kill(context.Context) error {
	if text, sealed := c.said(); sealed && !strings.Contains(text, "\n") {
		dying := time.NewTimer(timeToDie)
		defer dying.Stop()
		select {
		case <-c.done:
		case <-dying.C:
		}
	}
	return c.kill()
}

// kill ends the process group at once, and prevents a start that has not happened.
func (c *child) kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.cancelled = true
	if c.cmd == nil {
		return nil
	}
	if err := syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process group %d: %w", c.cmd.Process.Pid, err)
	}
	return nil
}

// PluginToHost lets go-plugin connect to a socket in the private directory and to nothing else.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if network != "unix" || filepath.Dir(filepath.Clean(address)) != filepath.Clean(c.socketDir) {
		return "", "", fmt.Errorf("address %s %s is outside %s", network, address, c.socketDir)
	}
	return network, address, nil
}

// HostToPlugin leaves addresses as they are: both sides see one file system.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// ending says how the process ended, and whether by itself rather than by our kill.
func (c *child) ending() (how string, byItself bool) {
	select {
	case <-c.done:
	default:
		return "still there", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil || c.cmd.ProcessState == nil {
		return "end unknown", false
	}
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return c.cmd.ProcessState.String(), true
	}
	signal := status.Signal()
	how = fmt.Sprintf("killed by signal %d, %s", signal, unix.SignalName(signal))
	if status.CoreDump() {
		how += ", core dumped"
	}
	return how, !c.cancelled || signal != syscall.SIGKILL
}

// said returns what came first on stdout, and whether that is all that will be looked at.
func (c *child) said() (text string, sealed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.stdout), c.sealed
}
