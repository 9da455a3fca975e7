package definition

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/text/width"
)

// span is a part of a source line in display columns.
type span struct{ pad, mark string }

// Write prints the diagnostics for a person, with the source lines, and the count of errors at the end. It returns the
// first error of w.
func (d Diagnostics) Write(w io.Writer, color bool) error {
	var b bytes.Buffer
	files := map[string]bool{}
	errs := 0
	for _, one := range d {
		one.write(&b, color)
		if one.Severity == SeverityError {
			errs++
			files[one.Range.File] = true
		}
	}
	if errs > 0 {
		delete(files, "")
		fmt.Fprintf(&b, "%s%s; nothing was started.\n", plural(errs, "error"), inFiles(len(files)))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func inFiles(n int) string {
	if n == 0 {
		return ""
	}
	return " in " + plural(n, "file")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func (d Diagnostic) write(b *bytes.Buffer, color bool) {
	title, paint, reset := "Error", "\x1b[1;31m", "\x1b[0m"
	if d.Severity == SeverityWarning {
		title, paint = "Warning", "\x1b[1;33m"
	}
	if !color {
		paint, reset = "", ""
	}
	fmt.Fprintf(b, "%s%s:%s %s\n\n", paint, title, reset, d.Summary)
	if d.Range.File != "" {
		fmt.Fprintf(b, "  on %s line %d", d.Range.File, d.Range.Line)
		if d.Context != "" {
			fmt.Fprintf(b, ", in %s", d.Context)
		}
		b.WriteString(":\n")
		if d.Snippet != "" {
			number := fmt.Sprintf("%5d: ", d.Range.Line)
			fmt.Fprintf(b, "%s%s\n%s%s%s%s%s\n", number, d.Snippet, strings.Repeat(" ", len(number)), d.mark.pad, paint, d.mark.mark, reset)
		}
	}
	for _, v := range d.Values {
		fmt.Fprintf(b, "  with %s\n", v)
	}
	if d.Address != "" {
		fmt.Fprintf(b, "  for %s\n", d.Address)
	}
	if d.Detail != "" {
		fmt.Fprintf(b, "%s\n", d.Detail)
	}
	b.WriteString("\n")
}

// maxSnippet is the most characters of a source line on each side of the mark, and of the mark itself.
const maxSnippet = 100

// snippet returns the source line of a place, with secrets hidden and control characters made visible, and where in
// it the mark goes.
func (l *loader) snippet(s *source, r hcl.Range, credentials bool) (string, span) {
	from, to := s.lineOf(r)
	start := min(max(r.Start.Byte, 0), len(s.bytes))
	end := min(max(r.End.Byte, start), to)
	before, marked, after := visible(s.bytes[from:start]), visible(s.bytes[start:end]), visible(s.bytes[end:to])
	line := strings.TrimRight(before+marked+after, "\r")
	if shown := l.hideLine(line, credentials); shown != line {
		// The columns no longer fit, so the whole line is marked.
		text := strings.TrimLeft(shown, " \t")
		before, marked, after = shown[:len(shown)-len(text)], text, ""
	}
	before, marked, after = last(before, maxSnippet), first(marked, maxSnippet), first(after, maxSnippet)
	line = strings.TrimRight(before+marked+after, "\r")
	return line, span{pad: blanks(before), mark: strings.Repeat("~", max(1, columns(strings.TrimRight(marked, "\r"))))}
}

// lineOf returns where the line begins and ends on which a place starts.
func (s *source) lineOf(r hcl.Range) (from, to int) {
	start := min(max(r.Start.Byte, 0), len(s.bytes))
	from = bytes.LastIndexByte(s.bytes[:start], '\n') + 1
	if n := bytes.IndexByte(s.bytes[start:], '\n'); n >= 0 {
		return from, start + n
	}
	return from, len(s.bytes)
}

// first cuts text behind its first n characters.
func first(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return text
}

// last cuts text before its last n characters.
func last(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return "…" + string(runes[len(runes)-n:])
	}
	return text
}

// visible drops control characters, which could move the cursor or reorder the text.
func visible(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && r != '\r' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(string(b), "�"))
}

// blanks is white space as wide as text, with its tabs kept.
func blanks(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\t' {
			b.WriteByte('\t')
			continue
		}
		b.WriteString(strings.Repeat(" ", columns(string(r))))
	}
	return b.String()
}

// columns is the width of text on a terminal, where wide characters take two cells and combining ones none.
func columns(text string) int {
	n := 0
	for _, r := range text {
		if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
			continue
		}
		n++
		if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
			n++
		}
	}
	return n
}
