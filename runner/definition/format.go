package definition

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format puts blanks and line breaks of HCL into the canonical form and changes nothing else. A file with syntax errors,
// or one that is JSON, is answered with errors and no bytes.
func Format(name string, src []byte) ([]byte, Diagnostics) {
	l := newLoader(Options{})
	s := &source{name: name, bytes: src}
	l.sources[name] = s
	switch d := checkNesting(name, src); {
	case isJSON(name):
		l.fail(nil, "File cannot be formatted", name+" is JSON; only HCL has a canonical form.")
	case d != nil:
		l.add(d)
	default:
		file, diags := parse(name, src)
		s.file, s.broken = file, diags.HasErrors()
		l.diags = append(l.diags, syntaxErrors(s, diags)...)
	}
	if diags := l.report(); diags.HasErrors() {
		return nil, diags
	}
	return hclwrite.Format(src), nil
}
