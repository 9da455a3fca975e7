package shared

import (
	"errors"
	"strings"
	"testing"
)

func local() Capabilities {
	return Capabilities{
		Provisions: true, Streaming: true, HostsPromptCells: true, StartsFromPatch: true,
		Limits: map[Dimension]Support{DimensionMemory: {Level: LevelBestEffort, Reason: "bursts escape"}},
	}
}

func remote() Capabilities {
	return Capabilities{
		Provisions: true, Streaming: true,
		Limits: map[Dimension]Support{DimensionMemory: {Level: LevelEnforced}},
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	memory := func(level Level) []Limits { return []Limits{{}, {MemoryBytes: 1, Require: level}} }
	for name, c := range map[string]struct {
		needs Needs
		want  int // of [remote, local]
		why   string
	}{
		"exec cell takes the first":   {Needs{Kind: ExecCell}, 0, ""},
		"prompt cell needs a host":    {Needs{Kind: PromptCell}, 1, ""},
		"fresh verify needs a patch":  {Needs{Kind: ExecCell, FreshVerify: true}, 1, ""},
		"a limit that has to hold":    {Needs{Kind: ExecCell, Limits: memory(LevelEnforced)}, 0, ""},
		"a limit as a wish":           {Needs{Kind: PromptCell, Limits: memory(LevelNone)}, 1, ""},
		"prompt cell, enforced limit": {Needs{Kind: PromptCell, Limits: memory(LevelEnforced)}, -1, "bursts escape"},
		"a limit nobody speaks of":    {Needs{Kind: ExecCell, Limits: []Limits{{CPU: 1, Require: LevelObserved}}}, -1, "does not mention it"},
		"a condition of the definition": {
			Needs{Kind: ExecCell, Requires: func(c Candidate) string {
				if c.Instance == "remote" {
					return "not this one"
				}
				return ""
			}}, 1, "",
		},
	} {
		got, err := Select(c.needs, []Candidate{{Instance: "remote", Capabilities: remote()}, {Instance: "local", Capabilities: local()}})
		if got != c.want || (err == nil) != (c.want >= 0) {
			t.Errorf("%s: candidate %d, %v; want %d", name, got, err, c.want)
		}
		if err != nil && (!errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, want a reason with %q", name, err, c.why)
		}
	}
}

func TestSelect_ReasonPerCandidate(t *testing.T) {
	t.Parallel()
	_, err := Select(Needs{Kind: ExecCell}, []Candidate{{Instance: "a", Unavailable: "it is gone"}, {Instance: "b"}})
	var e *Error
	if !errors.As(err, &e) || len(e.Violations) != 2 || e.Violations[0].Message != "it is gone" || e.Violations[1].Message == "" {
		t.Errorf("Select = %v, want one reason for each of two candidates", err)
	}
	if _, err := Select(Needs{Kind: ExecCell}, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Select of nothing = %v", err)
	}
}

// TestLimits_Dimensions holds that no limit can be set without being asked about.
func TestLimits_Dimensions(t *testing.T) {
	t.Parallel()
	all := Limits{
		MemoryBytes: 1, Processes: 1, CPU: 1, DiskBytes: 1, FileBytes: 1, OutputBytes: 1, WorkspaceOnly: true, NoNetwork: true,
	}
	if got := all.Dimensions(); len(got) != 8 {
		t.Errorf("eight limits are set, %v are asked about", got)
	}
	if got := (Limits{Require: LevelEnforced}).Dimensions(); len(got) != 0 {
		t.Errorf("no limit is set, %v are asked about", got)
	}
}

func TestKinds_AreTwo(t *testing.T) {
	t.Parallel()
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	if strings.Join(names, " ") != "local_worktree daytona" {
		t.Errorf("the registry holds %v", names)
	}
	if _, ok := KindByName(Kinds(), "docker"); ok {
		t.Error("there is an adapter docker")
	}
}

func TestLabels_Match(t *testing.T) {
	t.Parallel()
	have := Labels{Owner: "o", Run: "r", Instance: "i", Cell: "c", Attempt: 2}
	for _, c := range []struct {
		want Labels
		ok   bool
	}{
		{Labels{}, true},
		{have, true},
		{Labels{Run: "r"}, true},
		{Labels{Owner: "x"}, false},
		{Labels{Run: "r", Attempt: 1}, false},
		{Labels{Instance: "j"}, false},
		{Labels{Cell: "d"}, false},
	} {
		if got := have.Match(c.want); got != c.ok {
			t.Errorf("Match(%+v) = %v, want %v", c.want, got, c.ok)
		}
	}
}

func TestLevel_Text(t *testing.T) {
	t.Parallel()
	for l := LevelNone; l <= LevelEnforced; l++ {
		text, err := l.MarshalText()
		if back, ok := ParseLevel(string(text)); err != nil || !ok || back != l {
			t.Errorf("level %d is written %q and read as %d", l, text, back)
		}
	}
	if _, ok := ParseLevel("unspecified"); ok {
		t.Error("unspecified is read as a level")
	}
}
