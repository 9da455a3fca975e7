package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// grace is the time a git command has between SIGTERM, on which it removes its lock files, and SIGKILL.
const grace = 2 * time.Second

// textLimit is how much of the end of a command's stderr is kept, in bytes.
const textLimit = 8 << 10

// command is one git call.
type command struct {
	args   []string
	dir    string    // working directory; "/" where empty
	env    []string  // over the neutral environment
	stdin  io.Reader // nil: /dev/null
	stdout io.Writer // nil: discarded
	// source tells that a repository of the user is read, for which the user's safe.directory settings count.
	source bool
	// fetch allows the transport between local repositories.
	fetch bool
	// userConfig lets git read the configuration of user and machine. Only to look safe.directory up.
	userConfig bool
}

func (c command) protocol() string {
	if c.fetch {
		return "file"
	}
	return "none"
}

// run runs one git command to its end, or to the end of ctx or the timeout: then its whole process group gets
// SIGTERM and, after the grace, SIGKILL. It returns what the command wrote to stderr, and for an exit code other than
// 0 an *ExitError.
func (g *Git) run(ctx context.Context, c command) (stderr string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.timeout, ErrTimeout)
	defer cancel()
	text := &tail{limit: textLimit}
	cmd := g.command(ctx, c)
	cmd.Stderr = text
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start git %s: %w", c.args[0], err)
	}
	stopKill := make(chan struct{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		endGroup(ctx, cmd.Process.Pid, stopKill)
	}()
	err = cmd.Wait()
	close(stopKill)
	<-killed
	if ctx.Err() != nil {
		return text.String(), g.interrupted(ctx, c)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return text.String(), &ExitError{Command: c.args[0], Code: exit.ExitCode(), Text: text.String()}
	}
	if err != nil {
		return text.String(), fmt.Errorf("run git %s: %w", c.args[0], err)
	}
	return text.String(), nil
}

func (g *Git) command(ctx context.Context, c command) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.program, append(settings(c), c.args...)...)
	cmd.Env = g.environment(c)
	cmd.Dir = c.dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stdin = c.stdin
	cmd.Stdout = c.stdout
	if c.source && g.safe != nil {
		cmd.ExtraFiles = []*os.File{g.safe}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// endGroup does the work; this keeps os/exec from killing git before git could remove its lock files.
	cmd.Cancel = func() error { return nil }
	// A child that keeps a pipe open after git itself ended does not delay us longer than this.
	cmd.WaitDelay = 2 * grace
	return cmd
}

func (g *Git) interrupted(ctx context.Context, c command) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrTimeout) {
		return fail(ErrTimeout, "git %s did not end within %v", c.args[0], g.timeout)
	}
	return fmt.Errorf("git %s was ended: %w", c.args[0], cause)
}

// endGroup waits for done or the end of ctx. In the latter case it ends the process group of leader.
func endGroup(ctx context.Context, leader int, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	// The only error of these calls is that no process of the group is left, which is the aim.
	_ = syscall.Kill(-leader, syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	_ = syscall.Kill(-leader, syscall.SIGKILL)
}

// output runs a command and returns what it wrote to stdout, without one newline at the end: a path may end in
// another one.
func (g *Git) output(ctx context.Context, c command) (string, error) {
	var out bytes.Buffer
	c.stdout = &out
	if _, err := g.run(ctx, c); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// tail keeps the last bytes of what is written to it.
type tail struct {
	limit int
	data  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - t.limit; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.data)) }
