package supervise

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cellharness/shared"
)

// TokenVariable is the environment variable that carries Command.Token into the command and its children, so that they
// can be recognised later. It is a hint only: a command may clear its environment.
const TokenVariable = "HARNESS_CELL"

// MaxArgument is the most bytes of one argument or environment variable, its closing NUL excluded (MAX_ARG_STRLEN of
// Linux is 32 pages).
const MaxArgument = 131_071

// Options say how a Runner starts supervisors.
type Options struct {
	// Executable is the program that is executed as a supervisor; its main must call Main first. Empty: os.Executable.
	Executable string
	// Argv0 is the name the supervisor is started under; empty: os.Args[0]. A program that looks at its own name to
	// decide what it is has to be started under the same one.
	Argv0 string
	// SpoolDir is the directory that relative Command.StdoutPath and Command.StderrPath lie in; empty: the current one.
	SpoolDir string
	// Log takes what went wrong beside the commands; nil: nothing is logged.
	Log *slog.Logger
}

// Command is one command to run.
type Command struct {
	Dir string // absolute
	// Argv is the program and its arguments, as bytes. A program without a slash is looked up in the PATH of Env, one
	// with a slash relative to Dir.
	Argv []string
	Env  []string // NAME=value, the whole environment; nothing is inherited
	// Stdin is what the command reads; nil: /dev/null. Its Read must not block for long.
	Stdin io.Reader
	// StdoutPath and StderrPath are the files that the output is stored in. They must not exist yet.
	StdoutPath, StderrPath string
	Timeout                time.Duration // positive
	Grace                  time.Duration // between SIGTERM and SIGKILL; zero: SIGKILL follows at once
	// Limits are held by the best mechanism that works on this machine, see Probe. Some need namespaces: the command
	// then sees its own processes only, /sys and /proc/sys read-only, gains no rights from setuid programs, and as root
	// has no rights over the machine itself.
	Limits shared.Limits
	// DiskRoot is the directory that Limits.DiskBytes is about; empty: Dir.
	DiskRoot string
	// Writable are directories, beside Dir, that can be written under Limits.WorkspaceOnly. HOME is writable only when
	// it lies below one of them. A temporary directory is always there: TMPDIR names it, and it ends with the command.
	Writable []string
	// Visible are directories that can be read under Limits.WorkspaceOnly although they lie below /tmp or /var/tmp,
	// where the temporary directory covers everything else.
	Visible []string
	Token   string // value of TokenVariable; empty: the variable is not set
}

// check refuses what could not be started.
func (c Command) check() error {
	if why := c.unusable(); why != "" {
		return &shared.Error{Code: shared.CodeInvalid, Message: "the command was never started: " + why}
	}
	return nil
}

// heldBy refuses limits that cannot be held as strictly as they require.
func (c Command) heldBy(m means) error {
	unmet := m.unmet(c.Limits)
	if len(unmet) == 0 {
		return nil
	}
	return &shared.Error{
		Code:    shared.CodeUnsupported,
		Message: "the command was never started: " + strings.Join(unmet, "; ") + "; lower require, or drop the limit",
	}
}

func (c Command) unusable() string {
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return "it names no program"
	case !filepath.IsAbs(c.Dir):
		return fmt.Sprintf("its directory %q is not absolute", c.Dir)
	case c.Timeout <= 0:
		return fmt.Sprintf("its timeout is %s; it must be positive", c.Timeout)
	case c.Grace < 0:
		return fmt.Sprintf("its grace is %s; it must not be negative", c.Grace)
	case c.DiskRoot != "" && !filepath.IsAbs(c.DiskRoot):
		return fmt.Sprintf("the directory %q to measure is not absolute", c.DiskRoot)
	}
	for _, dir := range slices.Concat(c.Writable, c.Visible) {
		if !filepath.IsAbs(dir) {
			return fmt.Sprintf("the directory %q to show is not absolute", dir)
		}
	}
	for i, arg := range c.Argv {
		if why := unusableText(arg); why != "" {
			return fmt.Sprintf("argument %d %s", i, why)
		}
	}
	for _, entry := range c.Env {
		name, _, _ := strings.Cut(entry, "=")
		if why := unusableText(entry); why != "" {
			return fmt.Sprintf("the variable %q %s", name, why)
		}
	}
	return ""
}

func unusableText(s string) string {
	if strings.ContainsRune(s, 0) {
		return "holds a NUL byte"
	}
	if len(s) > MaxArgument {
		return fmt.Sprintf("has %d bytes, at most %d are possible; hand large text over in stdin or seed_inputs", len(s), MaxArgument)
	}
	return ""
}

// environment returns the whole environment of the command. Of variables with one name the last one counts.
func (c Command) environment() []string {
	if c.Token == "" {
		return c.Env
	}
	return setVariable(c.Env, TokenVariable, c.Token)
}

// setVariable returns env with name set to value.
func setVariable(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, entry := range env {
		if !strings.HasPrefix(entry, name+"=") {
			out = append(out, entry)
		}
	}
	return append(out, name+"="+value)
}
