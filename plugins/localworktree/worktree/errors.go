package worktree

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure that a caller tells apart with errors.Is. The error that matches one carries the message for a
// person.
var (
	ErrGit              = errors.New("git cannot be used")             // no git program, or one that is too old
	ErrNoRepository     = errors.New("not a git repository")           // the directory given is none
	ErrDubiousOwnership = errors.New("repository of another owner")    // git refuses to read it
	ErrUnsupported      = errors.New("repository that cannot be read") // damaged, or newer than this git
	ErrNoCommits        = errors.New("no commits")                     // HEAD names a branch without commits
	ErrUnknownRef       = errors.New("unknown ref")                    // no commit of that name
	ErrAmbiguousRef     = errors.New("ambiguous ref")                  // a branch and a tag that differ
	ErrIncomplete       = errors.New("incomplete repository")          // a partial clone that lacks objects
	ErrInsideRepository = errors.New("inside a repository")            // a root from which tools walk up into files of the user
	ErrMirror           = errors.New("mirror that cannot be trusted")  // changed or gone since it was made
	ErrExists           = errors.New("exists already")                 // a workspace of that name
	ErrNotFound         = errors.New("no such workspace")              // none of that name
	ErrVanished         = errors.New("workspace that is gone")         // removed, moved or replaced
	ErrPatch            = errors.New("patch that does not apply")      // to the base of the workspace

	// ErrTimeout is a git call that passed Options.Timeout. It is a context.DeadlineExceeded as well.
	ErrTimeout = fmt.Errorf("git call that passed its limit: %w", context.DeadlineExceeded)
)

// kindError gives a message for a person the identity of one of the kinds above.
type kindError struct {
	kind    error
	message string
}

func (e *kindError) Error() string { return e.message }
func (e *kindError) Unwrap() error { return e.kind }

func fail(kind error, format string, args ...any) error {
	return &kindError{kind: kind, message: fmt.Sprintf(format, args...)}
}

// ExitError is a git command that ended with an exit code other than 0.
type ExitError struct {
	Command string // the subcommand, such as "read-tree"
	Code    int    // -1 where a signal ended it
	Text    string // the end of its stderr, for a person
}

// Error names the command, its exit code and what it said.
func (e *ExitError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("git %s ended with exit code %d", e.Command, e.Code)
	}
	return fmt.Sprintf("git %s ended with exit code %d: %s", e.Command, e.Code, e.Text)
}

// exitCode returns the exit code in err: 0 for nil, and -1 where there is none.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	return -1
}

// shellQuote makes s one word of a shell command that a person can copy from a message.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
