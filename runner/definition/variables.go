package definition

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// sensitiveMark is on every value that must not be seen.
const sensitiveMark = "sensitive"

// variable is a variable block.
type variable struct {
	name      string
	block     *hcl.Block
	content   *hcl.BodyContent
	typ       cty.Type
	defaults  *typeexpr.Defaults
	sensitive bool
}

// loadVariables gives every variable its value: from --var, from --var-file, or its default.
func (l *loader) loadVariables(blocks []*hcl.Block) {
	given := l.givenVariables()
	values := map[string]cty.Value{}
	for _, b := range blocks {
		v := l.declareVariable(b)
		value, ok := l.variableValue(v, given)
		if !ok {
			value = cty.DynamicVal
		}
		if v.sensitive && ok {
			l.conceal(value)
			value = value.Mark(sensitiveMark)
		}
		if _, taken := values[v.name]; taken {
			continue
		}
		values[v.name] = value
		if ok {
			l.inputs["var."+v.name] = showInput(value)
			l.validateVariable(v, value)
		}
	}
	l.globals["var"] = cty.ObjectVal(values)
	for _, name := range sortedNames(given) {
		if _, ok := values[name]; !ok {
			l.fail(nil, "No such variable", fmt.Sprintf("%s sets the variable %q, which the definition does not have.%s",
				given[name].from, name, suggest(name, sortedNames(values))))
		}
	}
}

func (l *loader) declareVariable(b *hcl.Block) *variable {
	v := &variable{name: b.Labels[0], block: b, typ: cty.DynamicPseudoType}
	v.content = l.content(b.Body, schema([]string{"type", "default", "description", "sensitive"}, header("validation")))
	if attr, ok := v.content.Attributes["type"]; ok {
		typ, defaults, diags := typeexpr.TypeConstraintWithDefaults(attr.Expr)
		l.addAll(diags, "")
		if !diags.HasErrors() {
			v.typ, v.defaults = typ, defaults
		}
	}
	r := &reader{l: l}
	v.sensitive, _ = r.bool(l.field(v.content, "sensitive", place{}))
	r.text(l.field(v.content, "description", place{}))
	return v
}

// givenValue is a value from the command line, which has no place in the definition.
type givenValue struct {
	text  string // HCL or plain text, where value is nil
	value *cty.Value
	from  string
}

func (l *loader) givenVariables() map[string]givenValue {
	given := map[string]givenValue{}
	for _, file := range l.opts.VarFiles {
		l.readVarFile(file, given)
	}
	for name, text := range l.opts.Vars {
		given[name] = givenValue{text: text, from: "--var"}
	}
	return given
}

func (l *loader) readVarFile(file string, given map[string]givenValue) {
	src, err := readBounded(file, MaxFile)
	if err != nil {
		l.fail(nil, "File of variables cannot be read", err.Error())
		return
	}
	l.sources[file] = &source{name: file, bytes: src}
	if d := checkNesting(file, src); d != nil {
		l.add(d)
		return
	}
	parsed, diags := parse(file, src)
	l.addAll(diags, "")
	if diags.HasErrors() {
		return
	}
	l.sources[file].file = parsed
	attrs, diags := parsed.Body.JustAttributes()
	l.addAll(diags, "")
	for name, attr := range attrs {
		v, diags := attr.Expr.Value(nil)
		l.addAll(diags, "")
		if !diags.HasErrors() {
			given[name] = givenValue{value: &v, from: "--var-file " + file}
		}
	}
}

// variableValue finds the value of a variable and converts it to its type.
func (l *loader) variableValue(v *variable, given map[string]givenValue) (cty.Value, bool) {
	g, ok := given[v.name]
	if !ok {
		return l.defaultValue(v)
	}
	value, err := g.parse(v.typ)
	if err == nil {
		value, err = v.convert(value)
	}
	if err != nil {
		detail := fmt.Sprintf("%s gives %q a value that cannot be used: %v.", g.from, v.name, err)
		if v.sensitive {
			l.concealText(g.text)
			detail = fmt.Sprintf("%s gives %q a value that cannot be used.", g.from, v.name)
		}
		l.fail(&v.block.DefRange, "Value cannot be used", detail)
		return cty.NilVal, false
	}
	return value, true
}

// parse reads the text of --var: as it is for a variable of a primitive or unknown type, as HCL for any other.
func (g givenValue) parse(typ cty.Type) (cty.Value, error) {
	if g.value != nil {
		return *g.value, nil
	}
	if typ.IsPrimitiveType() || typ == cty.DynamicPseudoType {
		return cty.StringVal(g.text), nil
	}
	if d := checkNesting("--var", []byte(g.text)); d != nil {
		return cty.NilVal, fmt.Errorf("the nesting of the value is too deep")
	}
	expr, diags := hclsyntax.ParseExpression([]byte(g.text), "--var", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal, fmt.Errorf("it must be written as HCL, such as [\"a\", \"b\"]: %s", diags[0].Detail)
	}
	value, diags := expr.Value(nil)
	if diags.HasErrors() {
		return cty.NilVal, fmt.Errorf("it must be written as HCL, such as [\"a\", \"b\"]: %s", diags[0].Detail)
	}
	return value, nil
}

func (v *variable) convert(value cty.Value) (cty.Value, error) {
	if v.defaults != nil && !value.IsNull() {
		value = v.defaults.Apply(value)
	}
	return convert.Convert(value, v.typ)
}

func (l *loader) defaultValue(v *variable) (cty.Value, bool) {
	f := l.field(v.content, "default", place{special: specialEnv})
	if f == nil {
		l.fail(&v.block.DefRange, "Variable without a value", fmt.Sprintf(
			"%q has no default and nothing gives it a value; run again with --var %s=VALUE.", v.name, v.name))
		return cty.NilVal, false
	}
	value, ok := l.evaluate(f, nil, "")
	if !ok {
		return cty.NilVal, false
	}
	if v.sensitive {
		l.conceal(value)
	}
	converted, err := v.convert(value)
	if err != nil {
		place := f.expr.Range()
		l.fail(&place, "Value cannot be used", fmt.Sprintf("The default does not fit the type of %q: %v.", v.name, err))
		return cty.NilVal, false
	}
	return converted, true
}

// validateVariable checks the conditions that the definition itself sets for a variable.
func (l *loader) validateVariable(v *variable, value cty.Value) {
	for _, b := range v.content.Blocks {
		content := l.content(b.Body, schema([]string{"!condition", "!error_message"}))
		own := map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{v.name: value})}
		at := place{names: map[string]cty.Type{"var": cty.Object(map[string]cty.Type{v.name: cty.DynamicPseudoType})}}
		condition, message := l.field(content, "condition", at), l.field(content, "error_message", at)
		if condition == nil || message == nil {
			continue
		}
		r := &reader{l: l, names: own}
		result, ok := r.value(condition)
		if !ok {
			continue
		}
		// Whether a sensitive value is allowed may be told; what it is may not.
		result, _ = result.UnmarkDeep()
		holds, err := toBool(result)
		if err != nil {
			r.problem(condition, "condition", err)
			continue
		}
		if text, ok := r.text(message); ok && !holds {
			l.fail(&v.block.DefRange, "Variable has a value that is not allowed", text)
		}
	}
}

// showInput shows a value as HCL, the way a plan records it.
func showInput(v cty.Value) string {
	if v.ContainsMarked() {
		return hiddenText
	}
	if !v.IsWhollyKnown() {
		return ""
	}
	return string(hclwrite.TokensForValue(v).Bytes())
}

// loadLocals evaluates locals in the order of their dependencies.
func (l *loader) loadLocals(blocks []*hcl.Block) {
	locals := map[string]*hcl.Attribute{}
	shapes := map[string]cty.Type{}
	for _, b := range blocks {
		attrs, diags := b.Body.JustAttributes()
		l.addAll(diags, "")
		for _, name := range sortedNames(attrs) {
			attr := attrs[name]
			if before, ok := locals[name]; ok {
				l.fail(&attr.NameRange, "Defined twice", fmt.Sprintf("local.%s is defined already at %s.", name, at(before.NameRange)))
				continue
			}
			locals[name] = attr
			shapes[name] = cty.DynamicPseudoType
		}
	}
	e := &localEvaluator{
		l: l, attrs: locals, values: map[string]cty.Value{},
		place: l.naming("var", "path").with(map[string]cty.Type{"local": cty.Object(shapes)}),
	}
	names := sortedNames(locals)
	for _, name := range names {
		e.evaluate(name, nil)
	}
	l.globals["local"] = cty.ObjectVal(e.values)
}

type localEvaluator struct {
	l      *loader
	attrs  map[string]*hcl.Attribute
	values map[string]cty.Value
	place  place
}

// evaluate computes a local after the locals that it refers to. chain is how it was reached.
func (e *localEvaluator) evaluate(name string, chain []string) {
	if _, done := e.values[name]; done {
		return
	}
	attr, ok := e.attrs[name]
	if !ok {
		return
	}
	for i, before := range chain {
		if before == name {
			e.reportCycle(append(chain[i:], name))
			return
		}
	}
	chain = append(chain, name)
	for _, t := range attr.Expr.Variables() {
		if t.RootName() != "local" || len(t) < 2 {
			continue
		}
		if dependency, ok := stepName(t[1]); ok {
			e.evaluate(dependency, chain)
		}
	}
	if _, done := e.values[name]; done {
		return
	}
	f := e.l.fieldOf("local."+name, attr.Expr, e.place)
	value, ok := e.l.evaluate(f, map[string]cty.Value{"local": cty.ObjectVal(e.values)}, "")
	if ok && isHuge(value) {
		e.l.fail(&attr.NameRange, "Value too large", fmt.Sprintf("local.%s comes to more than %d MiB. Keep large inputs in files that a cell reads, or in seeds.", name, maxValue>>20))
		ok = false
	}
	if !ok {
		value = cty.DynamicVal
	}
	e.values[name] = value
}

// maxValue bounds the bytes of one local. Locals that each repeat the one before ten times are a few lines long and would
// take all memory; stopped here they have taken ten times this.
const maxValue = 64 << 20

// elementSize is what an element of a collection takes at the least.
const elementSize = 16

// isHuge tells whether a value has more than maxValue bytes.
func isHuge(v cty.Value) bool {
	bare, _ := v.UnmarkDeep()
	size := 0
	tooLarge := errors.New("too large")
	err := cty.Walk(bare, func(_ cty.Path, v cty.Value) (bool, error) {
		size += elementSize
		if v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
			size += len(v.AsString())
		}
		if size > maxValue {
			return false, tooLarge
		}
		return true, nil
	})
	return err != nil
}

// reportCycle names a circle link by link and gives its locals a value, so that they are not reported again.
func (e *localEvaluator) reportCycle(circle []string) {
	var links []string
	for _, name := range circle {
		links = append(links, fmt.Sprintf("local.%s (%s)", name, at(e.attrs[name].NameRange)))
		e.values[name] = cty.DynamicVal
	}
	place := e.attrs[circle[0]].NameRange
	e.l.fail(&place, "Locals refer to each other in a circle", strings.Join(links, " needs ")+".")
}

// numberJSON is a number in JSON, digit by digit.
func numberJSON(v cty.Value) (stdjson.Number, error) {
	f, err := toNumber(v)
	if err != nil {
		return "", err
	}
	return stdjson.Number(f.Text('f', -1)), nil
}
