package worktree

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Pin says which commit a ref stood for.
type Pin struct {
	Ref      string // as asked for; "HEAD" where nothing was
	FullName string // such as "refs/heads/main"; "HEAD" when detached; empty for a commit id
	Commit   string // full id
	Notices  []Notice
}

// Notice is something a reader of a result should know. It is no failure.
type Notice struct {
	Kind   string // one of the kinds below
	Detail string // for a person
	Count  int64  // of what Detail speaks of; 0 where there is nothing to count
}

// The kinds of notice.
const (
	NoticeDirtySource      = "dirty_source"       // uncommitted changes that are not in the commit
	NoticeSubmodule        = "submodule"          // submodules that are not checked out, or files inside of one
	NoticeFilterNotApplied = "filter_not_applied" // files are given as stored
	NoticeHistory          = "history"            // what history a workspace can reach
	NoticeNestedRepository = "nested_repository"  // a repository inside the workspace
	NoticeUnreadable       = "unreadable"         // entries that are not in the snapshot
)

// Resolve finds the commit that ref stands for; an empty ref is HEAD. It fails with ErrNoCommits, ErrUnknownRef,
// ErrAmbiguousRef, or with ErrIncomplete where a partial clone lacks what has to be read.
func (s *Source) Resolve(ctx context.Context, ref string) (Pin, error) {
	if ref == "" {
		ref = "HEAD"
	}
	if strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, "\x00\n") {
		return Pin{}, s.unknownRef(ref)
	}
	both, err := s.branchAndTag(ctx, ref)
	if err != nil {
		return Pin{}, err
	}
	commit, err := s.commit(ctx, ref)
	if exitCode(err) > 0 {
		return Pin{}, s.unresolved(ctx, ref)
	}
	if err != nil {
		return Pin{}, fmt.Errorf("resolve %q in %s: %w", ref, s.Root, err)
	}
	pin := Pin{Ref: ref, Commit: commit}
	pin.FullName, err = s.output(ctx, "rev-parse", "--symbolic-full-name", "--verify", "-q", "--end-of-options", ref)
	if err != nil && exitCode(err) < 1 {
		return Pin{}, fmt.Errorf("find the full name of %q in %s: %w", ref, s.Root, err)
	}
	if both {
		pin.FullName = "refs/tags/" + ref // which git takes, and does not say
	}
	if pin.Notices, err = s.notices(ctx, commit); err != nil {
		return Pin{}, err
	}
	return pin, nil
}

// Commit finds the commit that ref stands for now, and nothing else of what Resolve tells. An empty ref is HEAD.
func (s *Source) Commit(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		ref = "HEAD"
	}
	commit, err := s.commit(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("resolve %q in %s: %w", ref, s.Root, err)
	}
	return commit, nil
}

// commit resolves name to a commit. This form alone refuses option-like names, peels tags, and fails for a branch
// without commits.
func (s *Source) commit(ctx context.Context, name string) (string, error) {
	return s.output(ctx, "rev-parse", "--verify", "-q", "--end-of-options", name+"^{commit}")
}

// branchAndTag tells whether a name is a branch and a tag, of which git would silently take the tag. Where they differ
// it fails with ErrAmbiguousRef.
func (s *Source) branchAndTag(ctx context.Context, ref string) (bool, error) {
	branch, err := s.commit(ctx, "refs/heads/"+ref)
	if exitCode(err) > 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a branch %q in %s: %w", ref, s.Root, err)
	}
	tag, err := s.commit(ctx, "refs/tags/"+ref)
	if exitCode(err) > 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a tag %q in %s: %w", ref, s.Root, err)
	}
	if tag == branch {
		return true, nil
	}
	return false, fail(ErrAmbiguousRef, "%q is a branch (%.12s) and a tag (%.12s) of %s; write refs/heads/%s or refs/tags/%s",
		ref, branch, tag, s.Root, ref, ref)
}

func (s *Source) unknownRef(ref string) error {
	return fail(ErrUnknownRef, "%q is no branch, tag or commit of %s; see %q", ref, s.Root,
		"git -C "+shellQuote(s.Root)+" branch --all")
}

// unresolved says why ref is no commit: an unborn branch is another thing than an unknown name.
func (s *Source) unresolved(ctx context.Context, ref string) error {
	head, err := s.output(ctx, "symbolic-ref", "-q", "HEAD")
	if err != nil && exitCode(err) < 1 {
		return fmt.Errorf("read HEAD of %s: %w", s.Root, err)
	}
	branch := strings.TrimPrefix(head, "refs/heads/")
	if head == "" || (ref != "HEAD" && ref != head && ref != branch) {
		return s.unknownRef(ref)
	}
	if _, err := s.commit(ctx, head); err == nil {
		return s.unknownRef(ref)
	}
	return fail(ErrNoCommits, "branch %q of %s has no commits yet; commit something, or name a branch that has", branch,
		s.Root)
}

func (s *Source) notices(ctx context.Context, commit string) ([]Notice, error) {
	dirty, err := s.dirty(ctx, commit)
	if err != nil {
		return nil, fmt.Errorf("look for uncommitted changes in %s: %w", s.Root, err)
	}
	listing, err := readListing(ctx, s.git, s.command(), commit)
	if err != nil && s.Partial {
		return nil, s.incomplete(commit)
	}
	if err != nil {
		return nil, fmt.Errorf("read the tree of %s in %s: %w", commit, s.Root, err)
	}
	notices := append(dirty, listing.notices()...)
	if s.Shallow {
		notices = append(notices, Notice{
			Kind:   NoticeHistory,
			Detail: "the repository is a shallow clone, so its history is cut",
		})
	}
	return notices, nil
}

func (s *Source) incomplete(commit string) error {
	return fail(ErrIncomplete, "%s is a partial clone that lacks objects of commit %.12s, and nothing is fetched on "+
		"your behalf; complete it with %q", s.Root, commit,
		"git -C "+shellQuote(s.Root)+" fetch --refetch --no-filter")
}

// dirty counts what is uncommitted where commit is the one that is checked out.
func (s *Source) dirty(ctx context.Context, commit string) ([]Notice, error) {
	if s.Bare {
		return nil, nil
	}
	if head, err := s.commit(ctx, "HEAD"); exitCode(err) > 0 || (err == nil && head != commit) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	filters, err := s.filterSettings(ctx)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	status := s.command("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal",
		"--ignore-submodules=dirty")
	status.stdout = &out
	status.env = filters
	if _, err := s.git.run(ctx, status); err != nil {
		return nil, err
	}
	return countDirty(out.String()), nil
}

// filterSettings disables the clean filters that the repository configures itself, so that looking at it starts no
// program.
func (s *Source) filterSettings(ctx context.Context) ([]string, error) {
	out, err := s.output(ctx, "config", "-z", "--name-only", "--get-regexp", `^filter\..*\.(clean|process|required)$`)
	if code := exitCode(err); code != 0 && code != 1 {
		return nil, err
	}
	keys := strings.FieldsFunc(out, func(r rune) bool { return r == 0 })
	slices.Sort(keys)
	keys = slices.Compact(keys)
	env := []string{fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(keys))}
	for i, key := range keys {
		value := ""
		if strings.HasSuffix(key, ".required") {
			value = "false"
		}
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return env, nil
}

func countDirty(porcelain string) []Notice {
	var staged, unstaged, untracked int64
	for entry := range strings.SplitSeq(porcelain, "\x00") {
		switch {
		case len(entry) < 2:
		case entry[:2] == "??":
			untracked++
		default:
			if entry[0] != ' ' {
				staged++
			}
			if entry[1] != ' ' {
				unstaged++
			}
		}
	}
	if staged+unstaged+untracked == 0 {
		return nil
	}
	return []Notice{{
		Kind: NoticeDirtySource,
		Detail: fmt.Sprintf("uncommitted changes are not in the commit: %d staged, %d unstaged, %d untracked", staged,
			unstaged, untracked),
		Count: staged + unstaged + untracked,
	}}
}
