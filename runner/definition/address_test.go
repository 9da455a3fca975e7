package definition_test

import (
	"strings"
	"testing"

	"cellharness/runner/definition"
)

func TestMatchAddress(t *testing.T) {
	t.Parallel()
	const slash = `solve/issue["a/b"]/claude/effort=high#3`
	for _, c := range []struct {
		glob, address string
		want          bool
	}{
		{slash, slash, true},
		{"solve/*/claude/effort=high#3", slash, true},
		{"solve/*", slash, false},
		{"solve/**", slash, true},
		{"**", slash, true},
		{"*", "x", true},
		{"*", "x/y", false},
		{"**/claude/**", slash, true},
		{"**#3", slash, true},
		{"**#4", slash, false},
		{`solve/issue["a/*"]/**`, slash, true},
		{`solve/issue[*]/*/*`, slash, true},
		{"solve/issue[a]/**", slash, false},
		{`x/t["q\"/q"]/v#1`, `x/t["q\"/q"]/v#1`, true},
		{"x/*/v#1", `x/t["q\"/q"]/v#1`, true},
		{"x/*/*#1", `x/t["q\\"]/v/a=b#1`, false},
		{"x/t/v@cloud#*", "x/t/v@cloud#12", true},
		{"x/t/v", "x/t/v#1", false},
		{"", "x", false},
		{"?/t/v#1", "x/t/v#1", false},
		{"é*", "éa", true},
	} {
		if got := definition.MatchAddress(c.glob, c.address); got != c.want {
			t.Errorf("MatchAddress(%q, %q) = %v", c.glob, c.address, got)
		}
	}
	if definition.MatchAddress(strings.Repeat("**a", 200)+"b", strings.Repeat("a", 2000)) {
		t.Error("many stars match what they should not")
	}
}
