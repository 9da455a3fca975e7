package supervise

import (
	"fmt"

	"cellharness/shared"
)

// mechanism is how a dimension is held.
type mechanism string

const (
	byNothing    mechanism = ""
	bySupervisor mechanism = "supervisor" // while it supervises: deadline, count, sweep
	bySampling   mechanism = "sampling"
	byRlimit     mechanism = "rlimit"
	byGroup      mechanism = "cgroup"
	byBoxedGroup mechanism = "cgroup in a box" // the command cannot leave it
	byBoxedLimit mechanism = "rlimit in a box" // the command has no right to raise it
	byBox        mechanism = "box"             // namespaces
	byFilter     mechanism = "filter"          // Landlock, and for the network seccomp
)

// boxed tells whether the mechanism needs the command to run in namespaces of its own.
func (m mechanism) boxed() bool { return m == byBoxedGroup || m == byBoxedLimit || m == byBox }

// grouped tells whether the mechanism is a control group.
func (m mechanism) grouped() bool { return m == byGroup || m == byBoxedGroup }

// held is how one dimension is held, and how well that is.
type held struct {
	by mechanism
	shared.Support
}

// means say how each dimension is held.
type means map[shared.Dimension]held

// of returns the mechanisms for the dimensions that l limits.
func (m means) of(l shared.Limits) map[shared.Dimension]mechanism {
	by := map[shared.Dimension]mechanism{}
	for _, d := range l.Dimensions() {
		by[d] = m[d].by
	}
	return by
}

// supports returns the levels alone.
func (m means) supports() map[shared.Dimension]shared.Support {
	levels := make(map[shared.Dimension]shared.Support, len(m))
	for d, h := range m {
		levels[d] = h.Support
	}
	return levels
}

// unmet says which limits cannot be held at the level that they require.
func (m means) unmet(l shared.Limits) []string {
	var unmet []string
	for _, d := range l.Dimensions() {
		if h := m[d]; h.Level < l.Require {
			unmet = append(unmet, fmt.Sprintf("a limit of %s is asked for at level %s and can be had at level %s (%s)",
				d, l.Require, h.Level, h.Reason))
		}
	}
	return unmet
}

// notices tell which of the limits asked for are held at a lower level than enforced.
func (m means) notices(l shared.Limits) []shared.Notice {
	var notices []shared.Notice
	for _, d := range l.Dimensions() {
		if h := m[d]; h.Level < shared.LevelEnforced {
			notices = append(notices, shared.Notice{
				Kind:   shared.NoticeLimitNotSupported,
				Detail: string(d) + " is held at level " + h.Level.String() + ": " + h.Reason,
			})
		}
	}
	return notices
}
