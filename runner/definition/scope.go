package definition

import (
	"fmt"
	"regexp"
	"sort"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"cellharness/runner/plan"
	"cellharness/shared"
)

// loader holds what one load has found so far. It is used by one goroutine.
type loader struct {
	opts     Options
	kinds    []shared.Kind
	root     string // absolute directory of the first path
	sources  map[string]*source
	order    []*source
	diags    hcl.Diagnostics
	reported map[string]bool // places that have a diagnostic

	globals     map[string]cty.Value // values of the names that stand everywhere
	inputs      map[string]string    // plan.Input values by name
	secretNames *regexp.Regexp       // of settings, wherever they stand
	hidden      []string             // texts that are never shown
	files       map[string]fileText  // what file() has read, by absolute path
	functions   map[functionsOf]map[string]function.Function
	contexts    map[functionsOf]*hcl.EvalContext
	profiles    []*profile
	instances   []*instance
	tasks       []*task
	variants    []*variant
	blobs       plan.Blobs // every text that a cell may need
}

func newLoader(opts Options) *loader {
	if opts.Kinds == nil {
		opts.Kinds = shared.Kinds()
	}
	if opts.LookupEnv == nil {
		opts.LookupEnv = func(string) (string, bool) { return "", false }
	}
	return &loader{
		opts: opts, kinds: opts.Kinds, secretNames: secretNamePattern(opts.Kinds),
		sources: map[string]*source{}, reported: map[string]bool{},
		globals: map[string]cty.Value{
			"var": cty.EmptyObjectVal, "local": cty.EmptyObjectVal, "diff": cty.StringVal(shared.DiffName),
		},
		inputs: map[string]string{}, files: map[string]fileText{},
		functions: map[functionsOf]map[string]function.Function{},
		contexts:  map[functionsOf]*hcl.EvalContext{},
		blobs:     plan.Blobs{},
	}
}

// place says what an expression may use where it stands: the names, as types whose attributes are known, and the
// functions that are special.
type place struct {
	names   map[string]cty.Type
	special special
}

// special says which of the functions that read from outside do their work at a place. Elsewhere they stand as
// functions that say where they may be used.
type special uint8

const (
	specialNone   special = iota
	specialEnv            // env(), in the default of a variable
	specialSecret         // secret::env and its kin
	specialLate           // an expression that is evaluated after a run: no file can be read there
)

// with returns a place that has more names.
func (p place) with(more map[string]cty.Type) place {
	names := make(map[string]cty.Type, len(p.names)+len(more))
	for n, t := range p.names {
		names[n] = t
	}
	for n, t := range more {
		names[n] = t
	}
	return place{names, p.special}
}

func (p place) allowing(s special) place { return place{p.names, s} }

// basics is the place of everything that is evaluated once: variables, locals and functions.
func (l *loader) basics() place { return l.naming("var", "local", "path") }

// naming is a place with the given globals.
func (l *loader) naming(globals ...string) place {
	names := map[string]cty.Type{}
	for _, n := range globals {
		if v, ok := l.globals[n]; ok {
			names[n] = shape(v)
		}
	}
	return place{names: names}
}

// shape is the type of a global as far as its names go: objects of objects, and anything below.
func shape(v cty.Value) cty.Type {
	if v.IsKnown() && !v.IsNull() && v.Type().IsObjectType() {
		return v.Type()
	}
	return cty.DynamicPseudoType
}

// field is an argument of a block. A nil field was not given.
type field struct {
	name     string
	expr     hcl.Expression
	place    place
	required bool // null is an error
	bad      bool // it is reported already, so evaluating it says nothing new

	readable bool // its source was found to read the same on its own
}

func (l *loader) field(content *hcl.BodyContent, name string, at place) *field {
	attr, ok := content.Attributes[name]
	if !ok {
		return nil
	}
	return l.fieldOf(name, attr.Expr, at)
}

// required is field for an argument that may not be null. That it was not given is for the schema of its block to report.
func (l *loader) required(content *hcl.BodyContent, name string, at place) *field {
	f := l.field(content, name, at)
	if f != nil {
		f.required = true
	}
	return f
}

// fieldOf checks the names in an expression once, before it is evaluated: evaluation alone misses what && and ? skip.
func (l *loader) fieldOf(name string, expr hcl.Expression, at place) *field {
	f := &field{name: name, expr: expr, place: at}
	for _, t := range expr.Variables() {
		if l.checkNames(f, t) {
			continue
		}
		f.bad = true
	}
	return f
}

// checkNames walks a reference through the types of its place.
func (l *loader) checkNames(f *field, t hcl.Traversal) bool {
	root := t.RootName()
	typ, ok := f.place.names[root]
	r := t.SourceRange()
	if !ok {
		l.fail(&r, "No such name", l.unknownRoot(f, t))
		return false
	}
	shown := root
	for _, step := range t[1:] {
		name, ok := stepName(step)
		if !ok || !typ.IsObjectType() {
			return true
		}
		if !typ.HasAttribute(name) {
			step := step.SourceRange()
			l.fail(&step, "No such name", l.unknownAttribute(shown, name, typ))
			return false
		}
		typ = typ.AttributeType(name)
		shown += "." + name
	}
	return true
}

// stepName is the name that a step of a reference goes to; false where it is no name.
func stepName(step hcl.Traverser) (string, bool) {
	switch s := step.(type) {
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() && !s.Key.IsMarked() {
			return s.Key.AsString(), true
		}
	}
	return "", false
}

func (l *loader) unknownRoot(f *field, t hcl.Traversal) string {
	root, r := t.RootName(), t.SourceRange()
	if l.insideTemplate(r) {
		return noSuchName(root) + suggest(root, sortedNames(f.place.names)) + " " + shellHint
	}
	whole := f.expr.Range()
	if l.secretNames.MatchString(f.name + "=") {
		return "A secret may not be written down: say where it is, such as secret::env(\"NAME\")."
	}
	if len(t) == 1 && whole.Start.Byte == r.Start.Byte && whole.End.Byte == r.End.Byte {
		return fmt.Sprintf("There is no name %q here. A string needs quotes: %q.", root, root)
	}
	return fmt.Sprintf("There is no name %q here; there are %s.%s", root, enumerate(sortedNames(f.place.names)),
		suggest(root, sortedNames(f.place.names)))
}

func (l *loader) unknownAttribute(shown, name string, typ cty.Type) string {
	if shown == "each.adapter" && name == "capabilities" {
		return "Capabilities may be asked only in requires, so that what runs does not depend on where it runs."
	}
	names := sortedNames(typ.AttributeTypes())
	if len(names) == 0 {
		return fmt.Sprintf("%s has no %q; it has nothing at all.", shown, name)
	}
	const most = 12
	listed := names
	if len(listed) > most {
		listed = append(append([]string{}, names[:most]...), "others")
	}
	return fmt.Sprintf("%s has no %q; it has %s.%s", shown, name, enumerate(listed), suggest(name, names))
}

// insideTemplate tells whether a reference stands right behind "${".
func (l *loader) insideTemplate(r hcl.Range) bool {
	s := l.sources[r.Filename]
	if s == nil || r.Start.Byte > len(s.bytes) {
		return false
	}
	i := r.Start.Byte
	for i > 0 && (s.bytes[i-1] == ' ' || s.bytes[i-1] == '\t' || s.bytes[i-1] == '~') {
		i--
	}
	return i >= 2 && string(s.bytes[i-2:i]) == "${"
}

// evaluate computes a field with the values of its place. False means that it cannot be used and that this is reported.
func (l *loader) evaluate(f *field, names map[string]cty.Value, cell string) (cty.Value, bool) {
	if f.bad {
		return cty.NilVal, false
	}
	v, diags := f.expr.Value(l.context(f, names))
	l.addAll(diags, cell)
	if diags.HasErrors() {
		return cty.NilVal, false
	}
	return v, true
}

// context puts the names of a place over those that stand everywhere.
func (l *loader) context(f *field, names map[string]cty.Value) *hcl.EvalContext {
	key := functionsOf{special: f.place.special}
	if s := l.sources[f.expr.Range().Filename]; s != nil {
		key.dir = s.dir
	}
	base, ok := l.contexts[key]
	if !ok {
		base = &hcl.EvalContext{Variables: l.globals, Functions: l.functionTable(key)}
		l.contexts[key] = base
	}
	if len(names) == 0 {
		return base
	}
	child := base.NewChild()
	child.Variables = names
	return child
}

// planInputs lists what the plan depends on from outside the definition.
func (l *loader) planInputs() []plan.Input {
	var out []plan.Input
	for _, name := range sortedNames(l.inputs) {
		out = append(out, plan.Input{Name: name, Value: l.inputs[name]})
	}
	return out
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// traversalText shows a reference as it is written.
func traversalText(t hcl.Traversal) string {
	text := ""
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			text += s.Name
		case hcl.TraverseAttr:
			text += "." + s.Name
		case hcl.TraverseIndex:
			if k, err := toText(s.Key); err == nil {
				if s.Key.Type() == cty.String {
					k = fmt.Sprintf("%q", k)
				}
				text += "[" + k + "]"
			}
		}
	}
	return text
}
