package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"cellharness/runner/plan"
	"cellharness/runner/redact"
	"cellharness/shared"
)

// The sources of SecretRef.Source.
const (
	sourceEnv  = "env"
	sourceFile = "file"
	sourceExec = "exec"
)

const (
	// maxSecret bounds a secret in bytes. Keys and tokens have less than 10 KiB; a larger file is the wrong one.
	maxSecret = 64 << 10
	// maxShown bounds what is shown of a program's stderr, in bytes.
	maxShown = 300
	// execTime bounds a program that fetches a secret, so that one that asks a question nobody sees ends.
	execTime = 10 * time.Second
	// execDrain is how long the output of a program is still read after its end when something it started holds it.
	execDrain = time.Second
)

// Resolve fetches the secret that ref refers to. env looks up a variable of the harness. One newline at the end of a
// file or of a program's output is cut. The error is a *shared.Error of CodeUnauthenticated, or of CodeCancelled when
// ctx ended; it names what the secret is for and its source.
//
// A program is started without a shell, in a process group of its own, with nothing on stdin and the environment of
// the harness; it has ten seconds and says one line.
func Resolve(ctx context.Context, ref plan.SecretRef, env func(string) (string, bool)) (shared.Secret, error) {
	value, err := fetch(ctx, ref, env)
	if err == nil {
		err = check(value)
	}
	if err == nil {
		return shared.NewSecret(value), nil
	}
	code := shared.CodeUnauthenticated
	if ctx.Err() != nil {
		code = shared.CodeCancelled
	}
	return shared.Secret{}, &shared.Error{
		Code: code, Cause: shared.CauseAuth, Err: err,
		Message: fmt.Sprintf("the secret %s, from %s: %v", ref.Name, describe(ref), err),
	}
}

func fetch(ctx context.Context, ref plan.SecretRef, env func(string) (string, bool)) (string, error) {
	if len(ref.Args) == 0 {
		return "", errors.New("the reference names nothing")
	}
	switch ref.Source {
	case sourceEnv:
		value, ok := env(ref.Args[0])
		if !ok {
			return "", errors.New("the variable is not set; export it")
		}
		return value, nil
	case sourceFile:
		return fromFile(ref.Args[0])
	case sourceExec:
		return fromExec(ctx, ref.Args, execTime)
	}
	return "", fmt.Errorf("there is no source %q", ref.Source)
}

// describe names the source as definitions spell it. The arguments of a program stay out: people put keys there.
func describe(ref plan.SecretRef) string {
	if len(ref.Args) == 0 {
		return "secret::" + ref.Source
	}
	if ref.Source == sourceExec {
		return fmt.Sprintf("secret::exec([%q, ...])", ref.Args[0])
	}
	return fmt.Sprintf("secret::%s(%q)", ref.Source, ref.Args[0])
}

// check refuses what cannot be a secret. What it says holds nothing of the value.
func check(value string) error {
	switch {
	case value == "":
		return errors.New("it is empty")
	case strings.ContainsAny(value, "\r\n"):
		return errors.New("it has more than one line; a secret is a single line")
	case strings.ContainsRune(value, 0):
		return errors.New("it holds a NUL byte, which no environment and no header can carry")
	}
	return nil
}

func fromFile(path string) (string, error) {
	info, err := os.Stat(path) // before opening: opening a pipe would wait for its writer
	if err != nil {
		return "", plain(err)
	}
	if info.IsDir() {
		return "", errors.New("it is a folder")
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", plain(err)
	}
	defer func() { _ = f.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", plain(err)
	}
	if len(text) > maxSecret {
		return "", fmt.Errorf("it has more than %d bytes, and so is no secret", maxSecret)
	}
	return cutNewline(string(text)), nil
}

// plain leaves the path out, which is named already.
func plain(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

func cutNewline(s string) string {
	if cut, ok := strings.CutSuffix(s, "\r\n"); ok {
		return cut
	}
	return strings.TrimSuffix(s, "\n")
}

func fromExec(ctx context.Context, argv []string, bound time.Duration) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := exec.CommandContext(bounded, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = execDrain
	stdout, stderr := &capped{most: maxSecret + 1}, &capped{most: maxSecret}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	value := cutNewline(stdout.kept.String())
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case bounded.Err() != nil:
		return "", fmt.Errorf("it said nothing within %s and was ended%s", bound, shown(stderr, value))
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("%w%s", plain(err), shown(stderr, value))
	case stdout.kept.Len() > maxSecret:
		return "", fmt.Errorf("it says more than %d bytes, and so no secret", maxSecret)
	}
	return value, nil
}

// shown is what a program said on stderr, as the end of a message: one line, escaped, cut, and nothing when it holds
// what may be the secret in any form.
func shown(stderr *capped, value string) string {
	said := strings.TrimSpace(stderr.kept.String())
	if said == "" {
		return ""
	}
	for _, line := range strings.Split(value, "\n") {
		hidden, err := holds(said, strings.TrimSpace(line))
		if err != nil || hidden {
			return "; what it says on stderr holds the secret and is not shown"
		}
	}
	if len(said) > maxShown {
		said = said[:maxShown] + "..."
	}
	return fmt.Sprintf("; it says on stderr %q", said)
}

func holds(text, secret string) (bool, error) {
	masker, err := redact.New([]shared.Secret{shared.NewSecret(secret)})
	if err != nil || masker == nil {
		return false, err
	}
	w := masker.Writer(io.Discard)
	if _, err := io.WriteString(w, text); err != nil {
		return false, err
	}
	if err := w.Close(); err != nil {
		return false, err
	}
	return w.Found() > 0, nil
}

// capped keeps the first bytes and takes the rest without keeping it, so that the program is not blocked.
type capped struct {
	kept bytes.Buffer
	most int
}

// Write takes all of p.
func (c *capped) Write(p []byte) (int, error) {
	if room := c.most - c.kept.Len(); room > 0 {
		_, _ = c.kept.Write(p[:min(room, len(p))]) // a buffer takes all
	}
	return len(p), nil
}
