package worktree

import (
	"fmt"
	"path"
	"strings"
)

// attributeHead makes git forget what the working tree's own .gitattributes say about the bytes of a file and about
// how it is compared. The rules of the base commit follow it and win over it.
//
// The file info/attributes has precedence over every .gitattributes, in all versions of git; --attr-source does the
// same since 2.41 only. The macro is git's own, defined here so that the working tree cannot define it differently.
const attributeHead = "[attr]binary -diff -merge -text\n" +
	"* !text !eol !crlf !ident !filter !working-tree-encoding !diff !whitespace\n"

// attributeRule is one line of a .gitattributes.
type attributeRule struct {
	pattern    string // without its quotes; for a macro, "[attr]NAME"
	attributes []string
}

func (r attributeRule) isMacro() bool { return strings.HasPrefix(r.pattern, "[attr]") }

// attributeText writes the rules of a commit's .gitattributes as one file for info/attributes.
func attributeText(files []attributeFile) string {
	var text strings.Builder
	text.WriteString(attributeHead)
	for _, file := range files {
		for _, r := range parseAttributes(file.data) {
			if r.isMacro() {
				if file.dir == "." {
					fmt.Fprintf(&text, "%s %s\n", r.pattern, strings.Join(r.attributes, " "))
				}
				continue
			}
			fmt.Fprintf(&text, "%s %s\n", attributeQuote(prefixPattern(file.dir, r.pattern)),
				strings.Join(r.attributes, " "))
		}
	}
	return text.String()
}

// parseAttributes reads the rules of a .gitattributes as git does: a comment only at the start of a line, a pattern
// that may be quoted, negative patterns ignored.
func parseAttributes(data []byte) []attributeRule {
	var rules []attributeRule
	for line := range strings.SplitSeq(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		line = strings.TrimLeft(line, " \t\r")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		pattern, rest, ok := cutPattern(line)
		if !ok {
			continue
		}
		if attributes := strings.Fields(rest); len(attributes) > 0 {
			rules = append(rules, attributeRule{pattern: pattern, attributes: attributes})
		}
	}
	return rules
}

func cutPattern(line string) (pattern, rest string, ok bool) {
	if line[0] == '"' {
		return unquoteC(line)
	}
	end := strings.IndexAny(line, " \t\r")
	if end < 0 {
		return line, "", true
	}
	return line[:end], line[end:], true
}

// prefixPattern turns a pattern of the .gitattributes in dir into one that means the same at the top.
func prefixPattern(dir, pattern string) string {
	if dir == "." {
		return pattern
	}
	dir = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
	if strings.Contains(strings.TrimSuffix(pattern, "/"), "/") {
		return "/" + dir + "/" + strings.TrimPrefix(pattern, "/")
	}
	return "/" + path.Join(dir, "**") + "/" + pattern
}

// attributeQuote quotes a pattern where git would read it differently without.
func attributeQuote(pattern string) string {
	if strings.ContainsAny(pattern, " \t\r\n\"") || strings.HasPrefix(pattern, "#") {
		return quoteC(pattern)
	}
	return pattern
}

// quoteC quotes s as git quotes names: C style, with octal escapes.
func quoteC(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&out, `\%03o`, c)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// unquoteC reads a C style quoted word at the start of s.
func unquoteC(s string) (word, rest string, ok bool) {
	escapes := map[byte]byte{
		'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '"': '"',
		'\\': '\\',
	}
	var out []byte
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return string(out), s[i+1:], true
		case s[i] != '\\':
			out = append(out, s[i])
		case i+3 < len(s) && s[i+1] >= '0' && s[i+1] <= '3':
			out = append(out, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
		case i+1 < len(s) && escapes[s[i+1]] != 0:
			i++
			out = append(out, escapes[s[i]])
		default:
			return "", "", false
		}
	}
	return "", "", false
}
