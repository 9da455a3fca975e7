package shared

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxComponent)
	for name, want := range map[string]bool{
		"a": true, "a/b/c.txt": true, "a:b.txt": true, `a\b`: true, "-x": true, "*": true, "é\xff\n": true, ".gitignore": true,
		"git": true, ".github/x": true, long: true, "..a/b..": true, "...": true,
		"": false, ".": false, "./": false, "./a": false, "a/": false, "/a": false, "a//b": false, "..": false, "../a": false,
		"a/../b": false, "a/..": false, "a\x00b": false, ".git": false, ".git/config": false, "a/.git": false, ".GIT/x": false,
		"a/.Git/x": false, long + "x": false, strings.Repeat("a/", MaxPath/2) + "a": false,
	} {
		got, err := ParsePath(name)
		if (err == nil) != want {
			t.Errorf("ParsePath(%.40q): %v, want allowed %v", name, err, want)
		}
		if err == nil && string(got) != name {
			t.Errorf("ParsePath(%.40q) = %q", name, got)
		}
	}
}

// FuzzParsePath holds that what is accepted stays inside of whatever it is joined to, is in its one form, and reaches
// no git directory.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"a/b", "../x", "a/./b", ".GIT/x", "/abs", "a\x00", "a//b", "\xff/..", "..", "a/..b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePath(s)
		if err != nil {
			return
		}
		if !filepath.IsLocal(string(p)) || path.Clean(string(p)) != string(p) || strings.ContainsRune(string(p), 0) {
			t.Errorf("ParsePath accepts %q", s)
		}
		for _, c := range strings.Split(string(p), "/") {
			if strings.ToLower(c) == ".git" || len(c) > MaxComponent {
				t.Errorf("ParsePath accepts %q", s)
			}
		}
	})
}

func TestPattern_Match(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"out/*.json", "out/a.json", true},
		{"out/*.json", "out/a/b.json", false},
		{"**", "a/b/c", true},
		{"**/x", "x", true},
		{"**/x", "a/b/x", true},
		{"a/**/z", "a/z", true},
		{"a/**/z", "a/b/c/z", true},
		{"a/**/z", "b/z", false},
		{"[ab]?", "a1", true},
		{"[ab]?", "c1", false},
		{"a[1].txt", "a[1].txt", true}, // a name that holds wildcards can be asked for
		{"a[1].txt", "a1.txt", true},
		{"é*", "é\xff", true},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Errorf("ParsePattern(%q): %v", c.pattern, err)
			continue
		}
		if got := p.Match(c.name); got != c.want {
			t.Errorf("Pattern(%q).Match(%q) = %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

// TestPattern_MatchIsNotExponential would not end with a matcher that goes back for every "**".
func TestPattern_MatchIsNotExponential(t *testing.T) {
	t.Parallel()
	p := Pattern(strings.Repeat("**/a/", 200) + "b")
	if p.Match(strings.Repeat("a/", 400) + "c") {
		t.Error("matches a name that ends differently")
	}
}

func TestParsePattern_Refuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"[", "a/[x", "../*", "/*", "*/../*", ".git/*", `a\`} {
		if _, err := ParsePattern(s); err == nil {
			t.Errorf("ParsePattern(%q) is accepted", s)
		}
	}
}

func TestCheckDistinct(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		paths []Path
		want  bool
	}{
		{nil, true},
		{[]Path{"a", "b", "a.b", "ab"}, true},
		{[]Path{"a/b", "a/c", "a-b"}, true},
		{[]Path{"a", "b", "a"}, false},
		{[]Path{"a/b", "a-b", "a"}, false},
		{[]Path{"x/y/z", "x"}, false},
	} {
		if err := CheckDistinct(c.paths); (err == nil) != c.want {
			t.Errorf("CheckDistinct(%q) = %v, want allowed %v", c.paths, err, c.want)
		}
	}
}
