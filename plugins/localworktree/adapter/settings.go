package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/shared"
)

// settings are the arguments of an adapter "local_worktree" block that reach the adapter.
type settings struct {
	Repo          string           `json:"repo"`
	Base          string           `json:"base"`
	History       worktree.History `json:"history"`
	WorkspacesDir string           `json:"workspaces_dir"`
	GitTimeout    time.Duration    `json:"git_timeout"`
	// EnvPassthrough holds names; their values come beside the settings.
	EnvPassthrough []string `json:"env_passthrough"`
}

// parseSettings decodes strictly: an argument that is not known is refused, never dropped.
func parseSettings(raw []byte) (settings, error) {
	var s settings
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, invalid("", "the settings cannot be read: "+err.Error())
	}
	switch {
	case s.Repo == "":
		return s, invalid("repo", "the path of the repository is missing")
	case !filepath.IsAbs(s.Repo):
		return s, invalid("repo", fmt.Sprintf("%q is not absolute", s.Repo))
	case s.WorkspacesDir != "" && !filepath.IsAbs(s.WorkspacesDir):
		return s, invalid("workspaces_dir", fmt.Sprintf("%q is not absolute", s.WorkspacesDir))
	case s.GitTimeout < 0:
		return s, invalid("git_timeout", "it must be positive; leave it out for the default")
	}
	if s.History == "" {
		s.History = worktree.HistoryBase
	}
	switch s.History {
	case worktree.HistoryBase, worktree.HistoryFull, worktree.HistoryNone:
		return s, nil
	}
	return s, invalid("history", fmt.Sprintf("%q is none of base, full and none", s.History))
}

func invalid(field, message string) *shared.Error {
	return &shared.Error{
		Code: shared.CodeInvalid, Message: "the configuration of local_worktree cannot be used",
		Violations: []shared.Violation{{Field: field, Message: message}},
	}
}

// cacheDir is where workspaces and mirrors are kept unless the definition says otherwise.
func cacheDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "harness"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "harness"), nil
	}
	return "", invalid("workspaces_dir", "neither XDG_CACHE_HOME nor HOME is set, so there is no place for workspaces; name one")
}

// pins resolves the instance's own base and the refs of its tasks. All that cannot be resolved is told at once.
func pins(ctx context.Context, src *worktree.Source, base string, refs []string) ([]shared.Pin, error) {
	refused := &shared.Error{Code: shared.CodeInvalid, Message: "not every base can be resolved to a commit"}
	var out []shared.Pin
	resolve := func(ref, name, field string) error {
		pin, err := src.Resolve(ctx, name)
		switch {
		case errors.Is(err, worktree.ErrNoCommits), errors.Is(err, worktree.ErrUnknownRef), errors.Is(err, worktree.ErrAmbiguousRef):
			refused.Violations = append(refused.Violations, shared.Violation{Field: field, Message: err.Error()})
			return nil
		case err != nil:
			return precondition(err)
		}
		out = append(out, shared.Pin{Ref: ref, Commit: pin.Commit, Notices: notices(pin.Notices)})
		return nil
	}
	if err := resolve("", base, "base"); err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if err := resolve(ref, ref, fmt.Sprintf("ref[%q]", ref)); err != nil {
			return nil, err
		}
	}
	if len(refused.Violations) > 0 {
		return nil, refused
	}
	return out, nil
}

// sourceError tells a path that holds no usable repository, which the definition can mend, from a repository that
// git will not read as things stand.
func sourceError(err error) error {
	switch {
	case errors.Is(err, worktree.ErrNoRepository):
		return invalid("repo", err.Error())
	case errors.Is(err, worktree.ErrNoCommits):
		return invalid("base", err.Error())
	}
	return precondition(err)
}

func precondition(err error) *shared.Error {
	return &shared.Error{Code: shared.CodePrecondition, Cause: shared.CauseRepo, Message: err.Error(), Err: err}
}

func notices(in []worktree.Notice) []shared.Notice {
	var out []shared.Notice
	for _, n := range in {
		out = append(out, shared.Notice{Kind: shared.NoticeKind(n.Kind), Detail: n.Detail, Count: n.Count})
	}
	return out
}

// lookup reads a list of NAME=value.
func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, kv := range environ {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value
			}
		}
		return ""
	}
}
