package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Source is a repository of the user. It is only ever read.
type Source struct {
	git *Git
	// Root is the top of the working tree; of a bare repository, the repository itself.
	Root string
	// CommonDir is the git directory that all worktrees of the repository share.
	CommonDir string
	// ObjectFormat is "sha1" or "sha256".
	ObjectFormat string
	Bare         bool // there is no working tree
	Shallow      bool // history is cut
	Partial      bool // a clone with a filter: objects may be missing
}

// Open reads what kind of repository dir is in: its top, or any directory or symlink inside. Bare repositories and
// linked worktrees are fine. It fails with ErrNoRepository, ErrDubiousOwnership or ErrUnsupported.
func (g *Git) Open(ctx context.Context, dir string) (*Source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the repository %s: %w", dir, err)
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fail(ErrNoRepository, "the repository %s cannot be opened: %v", dir, errors.Unwrap(err))
	} else if !info.IsDir() {
		return nil, fail(ErrNoRepository, "%s is a file; name the directory of a git repository", dir)
	}
	s := &Source{git: g, Root: dir}
	if err := s.readFlags(ctx); err != nil {
		return nil, err
	}
	if s.CommonDir, err = s.output(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir"); err != nil {
		return nil, fmt.Errorf("find the git directory of %s: %w", dir, err)
	}
	_, err = s.output(ctx, "config", "--get-regexp", `^(extensions\.partialclone|remote\..*\.promisor)$`)
	if code := exitCode(err); code != 0 && code != 1 {
		return nil, fmt.Errorf("read the configuration of %s: %w", dir, err)
	}
	s.Partial = err == nil
	if s.Bare {
		s.Root = s.CommonDir
		return s, nil
	}
	if s.Root, err = s.output(ctx, "rev-parse", "--show-toplevel"); err != nil {
		return nil, fmt.Errorf("find the top of the working tree of %s: %w", dir, err)
	}
	return s, nil
}

func (s *Source) readFlags(ctx context.Context) error {
	out, err := s.output(ctx, "rev-parse", "--show-object-format", "--is-shallow-repository", "--is-inside-work-tree")
	if err != nil {
		return s.openError(err)
	}
	flags := strings.Split(out, "\n")
	if len(flags) != 3 {
		return fail(ErrUnsupported, "git answered %q for the repository %s", out, s.Root)
	}
	s.ObjectFormat = flags[0]
	s.Shallow = flags[1] == "true"
	s.Bare = flags[2] == "false"
	return nil
}

// openError tells apart why git does not open the directory. The name safe.directory and the words "not a git
// repository" are in git's text in every version; the locale is fixed.
func (s *Source) openError(err error) error {
	var exit *ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("open the repository %s: %w", s.Root, err)
	}
	switch {
	case strings.Contains(exit.Text, "safe.directory"):
		return fail(ErrDubiousOwnership, "the repository at %s belongs to another user, so git does not read it. "+
			"If you trust it, tell git: %s", s.Root, remedy(exit.Text))
	case strings.Contains(strings.ToLower(exit.Text), "not a git repository"):
		return fail(ErrNoRepository, "%s is not in a git repository; name one, or make one with %q", s.Root,
			"git -C "+shellQuote(s.Root)+" init")
	}
	return fail(ErrUnsupported, "git %s cannot read the repository at %s: %s", s.git.version, s.Root, exit.Text)
}

// remedy returns the command that git proposes. It is the last thing that git says, and may hold newlines.
func remedy(text string) string {
	if _, command, found := strings.Cut(text, "\tgit config "); found {
		return "git config " + command
	}
	return text
}

// output runs a git command that reads the repository.
func (s *Source) output(ctx context.Context, args ...string) (string, error) {
	return s.git.output(ctx, s.command(args...))
}

func (s *Source) command(args ...string) command {
	return command{args: args, dir: s.Root, source: true}
}
