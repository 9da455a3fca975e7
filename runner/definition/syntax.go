package definition

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// syntaxError is the Extra of a diagnostic that the parser made.
type syntaxError struct{}

// shellHint is what to do about shell text that the language takes for a template.
const shellHint = "For text that the shell shall see write $${ instead of ${ (and %%{ instead of %{)."

// shellText finds a template that is rather an expansion of the shell, such as ${HOME}, ${1:-x} or ${#list[@]}.
var shellText = regexp.MustCompile(`(^|[^$])\$\{([A-Z_][A-Z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*(:[-+=?]|%|#|/|\^|,|@)|[0-9@*#!?$-])`)

// syntaxErrors keeps the first error of a file and says how many follow from it: the parser seldom finds its feet
// again. Shell text is found line by line, so that all of its places are told at once.
func syntaxErrors(s *source, diags hcl.Diagnostics) hcl.Diagnostics {
	var first *hcl.Diagnostic
	var duplicates hcl.Diagnostics
	follow := 0
	for _, d := range diags {
		d.Extra = syntaxError{}
		switch {
		case d.Severity != hcl.DiagError:
		case d.Summary == "Attribute redefined":
			duplicates = append(duplicates, d)
		case first == nil:
			first = d
		default:
			follow++
		}
	}
	if first == nil {
		return duplicates
	}
	out := append(duplicates, shellPlaces(s)...)
	for _, d := range out {
		if d.Subject.Start.Line == first.Subject.Start.Line {
			return out
		}
	}
	out = append(out, improveSyntax(s, first))
	if follow > 0 {
		first.Detail += fmt.Sprintf(" (%d more may follow from it.)", follow)
	}
	return out
}

// shellPlaces reports every piece of shell text in a file that could not be parsed.
func shellPlaces(s *source) hcl.Diagnostics {
	if isJSON(s.name) {
		return nil
	}
	var out hcl.Diagnostics
	for _, m := range shellText.FindAllSubmatchIndex(s.bytes, -1) {
		start := m[4] - len("${")
		place := rangeAt(s.name, s.bytes, start)
		detail := shellHint
		if name := strings.TrimSuffix(string(s.bytes[m[4]:m[5]]), "}"); hclsyntax.ValidIdentifier(name) {
			detail = noSuchName(name) + " " + shellHint
		}
		if n := bytes.IndexAny(s.bytes[start:], "}\n"); n >= 0 && s.bytes[start+n] == '}' {
			place.End.Byte, place.End.Column = start+n+1, place.Start.Column+n+1
		}
		out = append(out, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Shell text is read as a template", Detail: detail, Subject: &place, Extra: syntaxError{},
		})
	}
	return out
}

func noSuchName(name string) string {
	return fmt.Sprintf("There is no variable %q here, and env() stands only in the default of a variable block.", name)
}

// improveSyntax says what is probably meant where the parser's own words do not help.
func improveSyntax(s *source, d *hcl.Diagnostic) *hcl.Diagnostic {
	line := lineAt(s.bytes, d.Subject.Start.Byte)
	switch {
	case d.Summary == "Missing newline after argument":
		name, value, ok := strings.Cut(line, "=")
		if ok && !strings.Contains(value, `"`) {
			d.Detail = fmt.Sprintf("A string needs quotes: %s = %q. Otherwise an argument ends with its line.",
				strings.TrimSpace(name), strings.TrimSpace(value))
		}
	case strings.Contains(line, "${") || strings.Contains(line, "%{"):
		d.Detail += " " + shellHint
	case strings.HasPrefix(d.Summary, "Unterminated template string") && d.Subject.Start.Byte >= len(s.bytes)-1:
		if place, ok := lastHeredoc(s); ok {
			d.Subject = &place
			d.Detail = "This text is not closed: its closing word must stand alone on a line that ends in a line break."
		}
	}
	return d
}

// lastHeredoc is the place where the last heredoc of a file opens. The parser reports one that is never closed at the
// end of the file.
func lastHeredoc(s *source) (hcl.Range, bool) {
	tokens, _ := hclsyntax.LexConfig(s.bytes, s.name, hcl.InitialPos)
	for i := len(tokens) - 1; i >= 0; i-- {
		if tokens[i].Type == hclsyntax.TokenOHeredoc {
			return tokens[i].Range, true
		}
	}
	return hcl.Range{}, false
}

func lineAt(src []byte, offset int) string {
	offset = min(offset, len(src))
	from := bytes.LastIndexByte(src[:offset], '\n') + 1
	line, _, _ := bytes.Cut(src[from:], []byte("\n"))
	return strings.TrimRight(string(line), "\r")
}

// improve puts the library's words into those of the project where a reader gains by it.
func improve(d *hcl.Diagnostic) *hcl.Diagnostic {
	switch d.Summary {
	case "Unsupported argument":
		d.Summary = "Argument not expected here"
	case "Unsupported block type":
		d.Summary = "Block not expected here"
		if strings.Contains(d.Detail, `"dynamic"`) {
			d.Detail = "There are no dynamic blocks. Use for_each on a task, or an axis in the trial."
		}
	case "Call to unknown function":
		d.Summary = "No such function"
		if strings.HasSuffix(d.Detail, "in namespace secret::.") {
			d.Detail += " There are secret::env, secret::file and secret::exec."
		}
	}
	return d
}
