package shared

import (
	"fmt"
	"path"
	"sort"
	"strings"
)

// MaxComponent is the longest name of a file in bytes (NAME_MAX of Linux and macOS).
const MaxComponent = 255

// MaxPath is the longest path in bytes that a seed or an artifact may have, with room left below PATH_MAX (4096 on
// Linux) for the workspace's own directory.
const MaxPath = 3072

// DiffName stands for the patch in a list of artifacts. In definitions it is also spelled diff.
const DiffName = "__diff__"

// Path is a slash-separated path of a file inside a workspace, in its one canonical form. It is bytes, not text.
// The only way to get one from outside is ParsePath; an adapter checks it once more against links when it opens it.
type Path string

// Pattern is a Path whose components may hold the wildcards of path.Match, and ** for any number of directories.
type Pattern string

// ParsePath checks that s names a file inside the workspace: relative, no empty, "." or ".." component, no ".git"
// component in any case form (it would reach the workspace's git directory), no NUL, no component over MaxComponent
// and no more than MaxPath bytes.
func ParsePath(s string) (Path, error) {
	switch {
	case s == "":
		return "", fmt.Errorf("the path is empty")
	case len(s) > MaxPath:
		return "", fmt.Errorf("the path has %d bytes; at most %d are allowed", len(s), MaxPath)
	case strings.HasPrefix(s, "/"):
		return "", fmt.Errorf("the path %q is absolute; it must be relative to the workspace", s)
	case strings.ContainsRune(s, 0):
		return "", fmt.Errorf("the path %q holds a NUL byte", s)
	}
	for _, c := range strings.Split(s, "/") {
		if err := checkComponent(c); err != nil {
			return "", fmt.Errorf("the path %q %w", s, err)
		}
	}
	return Path(s), nil
}

func checkComponent(c string) error {
	switch {
	case c == "":
		return fmt.Errorf("has an empty component")
	case c == ".":
		return fmt.Errorf(`has a component "."`)
	case c == "..":
		return fmt.Errorf(`has a component ".."; nothing outside the workspace can be reached`)
	case strings.EqualFold(c, ".git"):
		return fmt.Errorf("reaches into %s, the workspace's git directory", c)
	case len(c) > MaxComponent:
		return fmt.Errorf("has a component of %d bytes; at most %d are allowed", len(c), MaxComponent)
	}
	return nil
}

// ParsePattern checks a pattern by the rules of ParsePath and its wildcards by those of path.Match.
func ParsePattern(s string) (Pattern, error) {
	if _, err := ParsePath(s); err != nil {
		return "", err
	}
	for _, c := range strings.Split(s, "/") {
		if _, err := path.Match(c, ""); err != nil {
			return "", fmt.Errorf("the pattern %q is malformed: %w", s, err)
		}
	}
	return Pattern(s), nil
}

// IsGlob tells whether the pattern holds a wildcard. One that does not names a single file.
func (p Pattern) IsGlob() bool { return strings.ContainsAny(string(p), `*?[\`) }

// Match tells whether name, a slash-separated path, is matched by the pattern. A name that equals the pattern byte
// for byte always matches, so a file whose name holds wildcards can be asked for.
func (p Pattern) Match(name string) bool {
	if string(p) == name {
		return true
	}
	return matchParts(strings.Split(string(p), "/"), strings.Split(name, "/"))
}

// matchParts matches by a table over suffixes rather than by recursion: a pattern of many ** takes no more than
// len(pattern) times len(name) steps.
func matchParts(pattern, name []string) bool {
	reach := make([]bool, len(name)+1)
	reach[len(name)] = true
	for i := len(pattern) - 1; i >= 0; i-- {
		next := make([]bool, len(name)+1)
		if pattern[i] == "**" {
			for j := len(name); j >= 0; j-- {
				next[j] = reach[j] || (j < len(name) && next[j+1])
			}
		} else {
			for j := range name {
				ok, err := path.Match(pattern[i], name[j])
				next[j] = err == nil && ok && reach[j+1]
			}
		}
		reach = next
	}
	return reach[0]
}

// CheckDistinct fails when two of the paths are equal or one is a directory of the other, since both cannot be files.
func CheckDistinct(paths []Path) error {
	// With "/" sorted below every other byte a directory stands right before what is inside it.
	key := func(p Path) string { return strings.ReplaceAll(string(p), "/", "\x00") }
	sorted := append([]Path(nil), paths...)
	sort.Slice(sorted, func(i, j int) bool { return key(sorted[i]) < key(sorted[j]) })
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1], sorted[i]
		if a == b {
			return fmt.Errorf("%q is there twice", a)
		}
		if strings.HasPrefix(string(b), string(a)+"/") {
			return fmt.Errorf("%q would have to be a file and a directory, because of %q", a, b)
		}
	}
	return nil
}
