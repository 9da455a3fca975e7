package shared

import (
	"fmt"
	"strings"
)

// Needs are what a cell asks of the adapter that takes it.
type Needs struct {
	Kind        CellKind
	Limits      []Limits // of setup, cell and verify
	FreshVerify bool
	// Requires is the definition's own condition on the candidate: the reason why it is not met, empty where it is.
	Requires func(Candidate) string
}

// Candidate is an adapter instance that a cell may be placed on.
type Candidate struct {
	Instance     string // name of the adapter block, such as "local_worktree.here"
	Capabilities Capabilities
	Unavailable  string // why it could not be launched or configured; empty where it could
}

// Select returns the index of the first candidate that fits. It reads capabilities only, never a name, and provisions
// nothing. When none fits the error is an *Error of CodeUnsupported with one Violation per candidate.
func Select(needs Needs, candidates []Candidate) (int, error) {
	refused := &Error{Code: CodeUnsupported}
	for i, c := range candidates {
		reason := needs.unmet(c)
		if reason == "" {
			return i, nil
		}
		refused.Violations = append(refused.Violations, Violation{Field: c.Instance, Message: reason})
	}
	if len(candidates) == 0 {
		refused.Message = "no adapter is named for it"
		return -1, refused
	}
	refused.Message = "no adapter can take it"
	return -1, refused
}

// unmet returns why the candidate cannot take the cell, empty where it can.
func (n Needs) unmet(c Candidate) string {
	if c.Unavailable != "" {
		return c.Unavailable
	}
	if n.Kind == PromptCell && !c.Capabilities.HostsPromptCells {
		return "it does not host prompt cells on this machine; use an exec cell, or an adapter that does"
	}
	if !c.Capabilities.Provisions {
		return "this build of the adapter makes no workspaces; it can be negotiated and configured only"
	}
	if n.FreshVerify && !c.Capabilities.StartsFromPatch {
		return `it cannot start a workspace from a patch, which verify with workspace = "fresh" needs`
	}
	if reason := n.unmetLimits(c.Capabilities); reason != "" {
		return reason
	}
	if n.Requires != nil {
		return n.Requires(c)
	}
	return ""
}

func (n Needs) unmetLimits(have Capabilities) string {
	var unmet []string
	for _, l := range n.Limits {
		unmet = append(unmet, l.unmet(have)...)
	}
	return strings.Join(unmet, "; ")
}

// unmet says why the limits cannot be had at the level that they require.
func (l Limits) unmet(have Capabilities) []string {
	var unmet []string
	for _, d := range l.Dimensions() {
		s := have.Support(d)
		if s.Level >= l.Require {
			continue
		}
		reason := s.Reason
		if reason == "" {
			reason = "no reason given"
		}
		unmet = append(unmet, fmt.Sprintf("a limit of %s is asked for at level %s and can be had at level %s (%s)",
			d, l.Require, s.Level, reason))
	}
	return unmet
}
