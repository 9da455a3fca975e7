package definition

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// reader turns the fields of one block into Go values. What is wrong is reported at the field's place and leaves the
// zero value; failed tells that something was.
type reader struct {
	l      *loader
	names  map[string]cty.Value
	cell   string // address of the cell that is evaluated; empty outside of cells
	failed bool
}

// value evaluates a field. False: it was not given, is null, or is reported.
func (r *reader) value(f *field) (cty.Value, bool) {
	if f == nil {
		return cty.NilVal, false
	}
	v, ok := r.l.evaluate(f, r.names, r.cell)
	if !ok {
		r.failed = true
		return cty.NilVal, false
	}
	if !v.IsMarked() && v.IsNull() {
		if f.required {
			r.problem(f, f.name, errors.New("is null, and it is required"))
		}
		return cty.NilVal, false
	}
	return v, true
}

// problem reports that a field cannot be used. path names the part of it, such as `entrypoint[1]`.
func (r *reader) problem(f *field, path string, err error) {
	r.failed = true
	if errors.Is(err, errUnknown) && r.l.diagsHaveErrors() {
		return
	}
	detail := path
	if r.cell != "" {
		detail += " of " + r.cell
	}
	detail += " " + err.Error()
	if !strings.HasSuffix(detail, ".") && !strings.HasSuffix(detail, "?") {
		detail += "."
	}
	r.reportf(f, "Value cannot be used", "%s", detail)
}

func (r *reader) reportf(f *field, summary, format string, args ...any) {
	r.failed = true
	d := errorAt(f.expr.Range(), summary, fmt.Sprintf(format, args...))
	if r.cell != "" {
		d.Extra = about{r.cell}
	}
	if !f.bad {
		d.Expression, d.EvalContext = f.expr, r.l.context(f, r.names)
	}
	r.l.add(d)
}

// read is the common part of all readers of one value.
func read[T any](r *reader, f *field, convert func(cty.Value) (T, error)) (out T, given bool) {
	v, ok := r.value(f)
	if !ok {
		return out, false
	}
	out, err := convert(v)
	if err != nil {
		r.problem(f, f.name, err)
		return out, false
	}
	return out, true
}

func (r *reader) text(f *field) (string, bool)            { return read(r, f, toArgument) }
func (r *reader) bool(f *field) (bool, bool)              { return read(r, f, toBool) }
func (r *reader) duration(f *field) (time.Duration, bool) { return read(r, f, toDuration) }
func (r *reader) size(f *field) (int64, bool)             { return read(r, f, toSize) }
func (r *reader) share(f *field) (float64, bool)          { return read(r, f, toShare) }

func (r *reader) int(f *field, least int64) (int64, bool) {
	return read(r, f, func(v cty.Value) (int64, error) { return toInt(v, least) })
}

// oneOf reads a word out of a fixed set.
func (r *reader) oneOf(f *field, words ...string) (string, bool) {
	word, ok := r.text(f)
	if !ok {
		return "", false
	}
	for _, w := range words {
		if w == word {
			return word, true
		}
	}
	r.reportf(f, "Value cannot be used", "%s is %q; it must be one of %s.%s", f.name, word, strings.Join(words, ", "), suggest(word, words))
	return "", false
}

// texts reads a list of strings.
func (r *reader) texts(f *field) ([]string, bool) {
	v, ok := r.value(f)
	if !ok {
		return nil, false
	}
	return r.textsOf(f, v)
}

func (r *reader) textsOf(f *field, v cty.Value) ([]string, bool) {
	members, err := elements(v)
	if err != nil {
		r.problem(f, f.name, err)
		return nil, false
	}
	out := make([]string, 0, len(members))
	for i, m := range members {
		s, err := toArgument(m)
		if err != nil {
			r.problem(f, fmt.Sprintf("%s[%d]", f.name, i), err)
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// members reads a map and visits it in the order of its keys. What visit returns is reported for the key.
func (r *reader) members(f *field, visit func(key string, v cty.Value) error) {
	v, ok := r.value(f)
	if !ok {
		return
	}
	m, err := entries(v)
	if err != nil {
		r.problem(f, f.name, err)
		return
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		if err := visit(k, m[k]); err != nil {
			r.problem(f, fmt.Sprintf("%s[%q]", f.name, k), err)
			return
		}
	}
}

// textMap reads a map of strings.
func (r *reader) textMap(f *field) map[string]string {
	var out map[string]string
	r.members(f, func(key string, v cty.Value) error {
		s, err := toText(v)
		if err != nil {
			return err
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = s
		return nil
	})
	return out
}

// reference reads the address of an object of the definition, such as "variant.claude".
func toReference(v cty.Value, kind string) (string, error) {
	example := kind + ".NAME"
	if kind == "adapter" || kind == "credentials" {
		example = kind + ".KIND.NAME"
	}
	wanted := fmt.Errorf("must refer to a %s block, such as %s", kind, example)
	switch {
	case v.IsMarked():
		return "", errSensitive
	case v.IsNull():
		return "", errNull
	case !v.IsKnown():
		return "", errUnknown
	case !v.Type().IsObjectType() || !v.Type().HasAttribute("address"):
		return "", wanted
	}
	address, err := toText(v.GetAttr("address"))
	if err != nil || !strings.HasPrefix(address, kind+".") {
		return "", wanted
	}
	return address, nil
}

func (r *reader) reference(f *field, kind string) (string, bool) {
	return read(r, f, func(v cty.Value) (string, error) { return toReference(v, kind) })
}

// references reads a list of references, each of which may stand once. It answers those that can be used, so that what
// else is wrong with their cells is found as well.
func (r *reader) references(f *field, kind string) []string {
	v, ok := r.value(f)
	if !ok {
		return nil
	}
	list, err := elements(v)
	if err != nil {
		r.problem(f, f.name, err)
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for i, m := range list {
		address, err := toReference(m, kind)
		if err == nil && seen[address] {
			err = fmt.Errorf("is %s, which stands in the list already", address)
		}
		if err != nil {
			r.problem(f, fmt.Sprintf("%s[%d]", f.name, i), err)
			continue
		}
		seen[address] = true
		out = append(out, address)
	}
	return out
}
