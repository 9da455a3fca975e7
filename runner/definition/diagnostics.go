package definition

import (
	"fmt"
	"sort"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Severity tells whether a diagnostic keeps the definition from being used.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is an error or a warning at a place in a definition. It shows no sensitive value.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Summary  string   `json:"summary"`
	Detail   string   `json:"detail,omitempty"`
	Range    Range    `json:"range,omitzero"` // zero where the cause is not in a file, such as --var
	Context  string   `json:"context,omitempty"`
	Snippet  string   `json:"snippet,omitempty"` // the source line
	Values   []string `json:"values,omitempty"`  // of the names in the expression, such as `each.key = "17"`
	Address  string   `json:"address,omitempty"` // the first cell that it is about, without the adapter

	mark span
}

// Range is a place in a file. Lines and columns count from 1, columns in characters as editors count them.
type Range struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	EndLine   int    `json:"end_line"`
	EndColumn int    `json:"end_column"`
}

// Diagnostics is a list of diagnostics, sorted by place.
type Diagnostics []Diagnostic

// HasErrors tells whether one of them is an error.
func (d Diagnostics) HasErrors() bool {
	for _, one := range d {
		if one.Severity == SeverityError {
			return true
		}
	}
	return false
}

// about is the Extra of a diagnostic that came up while a cell was evaluated.
type about struct{ cell string }

// fail reports an error at place; nil for one that is not in a file.
func (l *loader) fail(place *hcl.Range, summary, detail string) {
	l.add(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: place})
}

func (l *loader) warn(place *hcl.Range, summary, detail string) {
	l.add(&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: detail, Subject: place})
}

func errorAt(place hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &place}
}

func (l *loader) diagsHaveErrors() bool { return l.diags.HasErrors() }

// add keeps a diagnostic unless there is one at the same place already: what follows from an earlier error, or comes up
// again for the next cell, says nothing new.
func (l *loader) add(d *hcl.Diagnostic) {
	if d.Subject != nil {
		key := fmt.Sprintf("%d %s:%d", d.Severity, d.Subject.Filename, d.Subject.Start.Byte)
		if l.reported[key] {
			return
		}
		l.reported[key] = true
	}
	l.diags = append(l.diags, d)
}

func (l *loader) addAll(diags hcl.Diagnostics, cell string) {
	for _, d := range diags {
		d = improve(d)
		if cell != "" {
			d.Extra = about{cell}
		}
		if _, sensitive := involved(d); sensitive {
			// The library's own texts quote the arguments of functions.
			d.Detail = "The expression refers to a sensitive value, so what is wrong with it is not shown."
		}
		l.add(d)
	}
}

// report turns what was found into what is shown, and empties the list.
func (l *loader) report() Diagnostics {
	out := make(Diagnostics, 0, len(l.diags))
	for _, d := range l.diags {
		if l.follows(d) {
			continue
		}
		out = append(out, l.present(d))
	}
	l.diags = nil
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i].Range, out[j].Range
		if a.File != b.File {
			return a.File < b.File
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
	return out
}

// follows tells whether a diagnostic may come from a syntax error that is reported already.
func (l *loader) follows(d *hcl.Diagnostic) bool {
	if d.Subject == nil {
		return false
	}
	s, ok := l.sources[d.Subject.Filename]
	_, syntax := d.Extra.(syntaxError)
	return ok && s.broken && !syntax && d.Summary != "Nesting too deep"
}

// present adds the source line, the enclosing blocks and the values, and hides what must not be seen.
func (l *loader) present(d *hcl.Diagnostic) Diagnostic {
	out := Diagnostic{Severity: SeverityError, Summary: d.Summary, Detail: d.Detail}
	if d.Severity == hcl.DiagWarning {
		out.Severity = SeverityWarning
	}
	if d.Summary == "Invalid template interpolation value" && !strings.Contains(d.Detail, "have secret") {
		out.Detail += " " + shellHint // a name of the definition may have been meant for the shell
	}
	if a, ok := d.Extra.(about); ok {
		out.Address = a.cell
	}
	out.Values, _ = involved(d)
	if d.Subject != nil {
		out.Range = Range{
			File: d.Subject.Filename, Line: d.Subject.Start.Line, Column: d.Subject.Start.Column,
			EndLine: d.Subject.End.Line, EndColumn: d.Subject.End.Column,
		}
		if s := l.sources[d.Subject.Filename]; s != nil {
			out.Context = context(s, d.Subject.Start)
			out.Snippet, out.mark = l.snippet(s, *d.Subject, inCredentials(out.Context))
			if inCredentials(out.Context) {
				out.Summary, out.Detail = l.hideWords(out.Summary, s, *d.Subject), l.hideWords(out.Detail, s, *d.Subject)
			}
		}
	}
	out.Summary, out.Detail = l.hide(out.Summary), l.hide(out.Detail)
	for i, v := range out.Values {
		out.Values[i] = l.hide(v)
	}
	return out
}

// context names the blocks around a place, such as `trial "solve", cell`.
func context(s *source, pos hcl.Pos) string {
	if s.file == nil {
		return ""
	}
	if _, native := s.file.Body.(*hclsyntax.Body); !native {
		return ""
	}
	var names []string
	for _, b := range s.file.BlocksAtPos(pos) {
		name := b.Type
		for _, label := range b.Labels {
			name += fmt.Sprintf(" %q", label)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// involved lists the plain values that the expression of a diagnostic refers to, and tells whether one is sensitive.
func involved(d *hcl.Diagnostic) (values []string, sensitive bool) {
	if d.Expression == nil || d.EvalContext == nil {
		return nil, false
	}
	seen := map[string]bool{}
	for _, t := range d.Expression.Variables() {
		v, diags := t.TraverseAbs(d.EvalContext)
		if diags.HasErrors() {
			continue
		}
		if v.ContainsMarked() {
			sensitive = true
			continue
		}
		text, name := showPlain(v), traversalText(t)
		if text == "" || seen[name] {
			continue
		}
		seen[name] = true
		values = append(values, name+" = "+text)
	}
	return values, sensitive
}

// showPlain shows a short value of a primitive type; empty for any other.
func showPlain(v cty.Value) string {
	const longest = 80 // characters
	if !v.IsKnown() || !v.Type().IsPrimitiveType() {
		return ""
	}
	if v.IsNull() {
		return "null"
	}
	text, err := toText(v)
	if err != nil {
		return ""
	}
	text = first(text, longest)
	if v.Type() == cty.String {
		return fmt.Sprintf("%q", text)
	}
	return text
}

// suggest returns ` Did you mean "x"?` for the nearest name, where one is near enough: at most a third of its letters
// differ.
func suggest(given string, names []string) string {
	best, distance := "", len(given)+1
	for _, n := range names {
		if d := levenshtein.Distance(given, n, nil); d < distance {
			best, distance = n, d
		}
	}
	if best == "" || distance*3 > max(len(given), len(best)) {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}

// enumerate joins names with commas and a last "and".
func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
