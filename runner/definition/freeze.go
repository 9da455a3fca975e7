package definition

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"cellharness/runner/plan"
)

// freeze keeps an expression for later, with the values of everything in it that is known now. It is evaluated once
// with the names of late as unknown values of their types, so that a wrong name or type is found before anything is
// paid for.
func (r *reader) freeze(f *field, late map[string]cty.Type, want cty.Type) plan.Expr {
	if f == nil {
		return plan.Expr{}
	}
	names := map[string]cty.Value{}
	for n, v := range r.names {
		names[n] = v
	}
	for n, t := range late {
		names[n] = cty.UnknownVal(t)
	}
	v, ok := r.l.evaluate(f, names, r.cell)
	if !ok {
		r.failed = true
		return plan.Expr{}
	}
	if !v.IsMarked() && v.IsNull() {
		if f.required {
			r.problem(f, f.name, errors.New("is null, and it is required"))
		}
		return plan.Expr{}
	}
	r.checkType(f, v, want)
	scope, err := r.capture(f, late)
	if err != nil {
		r.problem(f, f.name, err)
		return plan.Expr{}
	}
	return r.expression(f, scope)
}

// checkType reports a value that can never become one of the wanted type.
func (r *reader) checkType(f *field, v cty.Value, want cty.Type) {
	v, _ = v.UnmarkDeep()
	if v.IsNull() || v.Type() == cty.DynamicPseudoType {
		return
	}
	if v.Type() != want && convert.GetConversionUnsafe(v.Type(), want) == nil {
		r.problem(f, f.name, fmt.Errorf("must be %s, not %s", want.FriendlyName(), v.Type().FriendlyName()))
	}
}

// expression is the source of a field, checked to read the same on its own.
func (r *reader) expression(f *field, scope []byte) plan.Expr {
	place := f.expr.Range()
	s := r.l.sources[place.Filename]
	if s == nil || !place.CanSliceBytes(s.bytes) {
		r.problem(f, f.name, fmt.Errorf("cannot be kept for later; put its parts into locals"))
		return plan.Expr{}
	}
	e := plan.Expr{Source: string(place.SliceBytes(s.bytes)), Scope: scope, File: place.Filename, Line: place.Start.Line}
	if !f.readable {
		if _, err := parseLate(e); err != nil {
			r.problem(f, f.name, fmt.Errorf("cannot be kept for later (%w); put its parts into locals", err))
		}
		f.readable = true
	}
	return e
}

// captured is a tree of names; a leaf has a value.
type captured struct {
	value    *cty.Value
	children map[string]*captured
}

// capture writes the values that a field mentions, and no others: a cell's params may hold whole test suites.
func (r *reader) capture(f *field, late map[string]cty.Type) ([]byte, error) {
	root := &captured{}
	for _, t := range f.expr.Variables() {
		if _, later := late[t.RootName()]; later {
			continue
		}
		v, ok := r.names[t.RootName()]
		if !ok {
			v = r.l.globals[t.RootName()]
		}
		root.add(t, v)
	}
	if root.children == nil {
		return nil, nil
	}
	v := root.object()
	switch {
	case v.ContainsMarked():
		return nil, errSensitive
	case !v.IsWhollyKnown():
		return nil, errUnknown
	}
	scope, err := ctyjson.Marshal(v, cty.DynamicPseudoType)
	if err != nil {
		return nil, fmt.Errorf("refers to a value that cannot be recorded: %w", err)
	}
	return scope, nil
}

// add puts the value that a reference leads to at its place in the tree. It follows names as far as they go.
func (c *captured) add(t hcl.Traversal, v cty.Value) {
	node := c.child(t.RootName())
	for _, step := range t[1:] {
		name, ok := stepName(step)
		if node.value != nil || !ok || v.IsMarked() || !v.IsKnown() || v.IsNull() || !v.Type().IsObjectType() || !v.Type().HasAttribute(name) {
			break
		}
		v = v.GetAttr(name)
		node = node.child(name)
	}
	if node.value == nil {
		node.value, node.children = &v, nil
	}
}

func (c *captured) child(name string) *captured {
	if c.value != nil {
		return c
	}
	if c.children == nil {
		c.children = map[string]*captured{}
	}
	if c.children[name] == nil {
		c.children[name] = &captured{}
	}
	return c.children[name]
}

func (c *captured) object() cty.Value {
	if c.value != nil {
		return *c.value
	}
	out := map[string]cty.Value{}
	for name, child := range c.children {
		out[name] = child.object()
	}
	return cty.ObjectVal(out)
}
