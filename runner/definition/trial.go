package definition

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// maxCells is the most cells that one definition may expand to. A plan of more would fill the memory.
const maxCells = 1_000_000

// trial is a trial block, and the cells it expands to.
type trial struct {
	l        *loader
	name     string
	block    *hcl.Block
	adapters *field
	tasks    []*task
	variants []*variant
	baseline string
	repeat   int
	warmup   int
	axes     []axis
	exclude  []*field

	setup, cell, verify *step
	needs               dependencies // of everything that is evaluated for a cell
	requiresNeeds       dependencies

	bodies  map[world]*body
	checked map[world]bool // whether requires was evaluated
	cells   []pending
}

// axis is one dimension of a trial.
type axis struct {
	name   string
	values []axisValue
}

type axisValue struct {
	text  string // as records show it
	value cty.Value
}

// Types of the parts of `each`.
var (
	taskType = cty.Object(map[string]cty.Type{
		"address": cty.String, "name": cty.String, "key": cty.String, "prompt": cty.String, "ref": cty.String,
		"labels": cty.DynamicPseudoType, "params": cty.DynamicPseudoType,
	})
	variantType = cty.Object(map[string]cty.Type{
		"address": cty.String, "name": cty.String, "params": cty.DynamicPseudoType,
	})
	adapterType = cty.Object(map[string]cty.Type{"address": cty.String, "name": cty.String, "kind": cty.String})
)

// withCapabilities is the type of `each` where the capabilities of its adapter may be asked.
func withCapabilities(each cty.Type) cty.Type {
	parts := map[string]cty.Type{}
	for n, t := range each.AttributeTypes() {
		parts[n] = t
	}
	adapter := map[string]cty.Type{"capabilities": capabilitiesType()}
	for n, t := range adapterType.AttributeTypes() {
		adapter[n] = t
	}
	parts["adapter"] = cty.Object(adapter)
	return cty.Object(parts)
}

// loadTrials reads the trial blocks.
func (l *loader) loadTrials(blocks []*hcl.Block) []*trial {
	if len(blocks) == 0 && !l.diagsHaveErrors() {
		l.fail(nil, "No trial", "The definition has no trial block, so there is nothing to run.")
	}
	var out []*trial
	for _, b := range blocks {
		out = append(out, l.loadTrial(b))
	}
	return out
}

func (l *loader) loadTrial(b *hcl.Block) *trial {
	t := &trial{l: l, name: b.Labels[0], block: b, bodies: map[world]*body{}, checked: map[world]bool{}}
	content := l.content(b.Body, schema(
		[]string{"!adapters", "!tasks", "!variants", "baseline", "repeat", "warmup"},
		header("axis", "name"), header("exclude"), header("setup"), header("cell"), header("verify")))
	once := l.naming("var", "local", "path", "task", "variant", "adapter", "diff")
	t.loadAxes(content, once)
	t.loadLists(content, once)
	axes := map[string]cty.Type{}
	for _, a := range t.axes {
		axes[a.name] = cty.DynamicPseudoType
	}
	combination := map[string]cty.Type{"task": taskType, "variant": variantType, "axis": cty.Object(axes)}
	t.loadPlacement(content, once.with(map[string]cty.Type{"each": cty.Object(combination)}))
	combination["repeat"], combination["adapter"] = cty.Number, adapterType
	t.loadSteps(content, once.with(map[string]cty.Type{"each": cty.Object(combination)}))
	return t
}

// loadLists reads the arguments that are the same for all cells.
func (t *trial) loadLists(content *hcl.BodyContent, at place) {
	l, r := t.l, &reader{l: t.l}
	tasks, variants := l.required(content, "tasks", at), l.required(content, "variants", at)
	for _, address := range r.references(tasks, "task") {
		for _, k := range l.tasks {
			if k.address() == address {
				t.tasks = append(t.tasks, k)
			}
		}
	}
	for _, address := range r.references(variants, "variant") {
		for _, v := range l.variants {
			if v.address() == address {
				t.variants = append(t.variants, v)
			}
		}
	}
	if !r.failed && len(t.tasks) == 0 && tasks != nil {
		r.problem(tasks, "tasks", errors.New("is empty; nothing would run"))
	}
	if !r.failed && len(t.variants) == 0 && variants != nil {
		r.problem(variants, "variants", errors.New("is empty; nothing would run"))
	}
	t.loadBaseline(r, l.field(content, "baseline", at))
	t.repeat = t.count(r, l.field(content, "repeat", at), 1, 1)
	t.warmup = t.count(r, l.field(content, "warmup", at), 0, 0)
	if l.opts.Repeat > 0 {
		t.repeat = l.opts.Repeat
	}
}

func (t *trial) count(r *reader, f *field, least int64, otherwise int) int {
	n, given := r.int(f, least)
	switch {
	case !given:
		return otherwise
	case n > maxCells:
		r.problem(f, f.name, fmt.Errorf("is %d; at most %d are possible", n, maxCells))
		return otherwise
	}
	return int(n)
}

func (t *trial) loadBaseline(r *reader, f *field) {
	address, given := r.reference(f, "variant")
	if !given || r.failed {
		return
	}
	for _, v := range t.variants {
		if v.address() == address {
			t.baseline = v.name
			return
		}
	}
	r.problem(f, "baseline", fmt.Errorf("is %s, which is not one of the variants of this trial", address))
}

func (t *trial) loadAxes(content *hcl.BodyContent, where place) {
	first := map[string]hcl.Range{}
	for _, b := range content.Blocks.OfType("axis") {
		label := b.Labels[0]
		t.l.checkLabels(b)
		if before, ok := first[label]; ok {
			t.l.fail(&b.DefRange, "Defined twice", fmt.Sprintf("The axis %q is defined already at %s.", label, at(before)))
			continue
		}
		first[label] = b.DefRange
		switch label {
		case "trial", "task", "variant", "adapter":
			t.l.fail(&b.LabelRanges[0], "Name cannot be used", fmt.Sprintf("An axis cannot be called %q: thresholds use that name for something else.", label))
		}
		t.axes = append(t.axes, axis{label, t.axisValues(label, t.l.required(t.l.content(b.Body, schema([]string{"!values"})), "values", where))})
	}
}

func (t *trial) axisValues(label string, f *field) []axisValue {
	r := &reader{l: t.l}
	v, ok := r.value(f)
	if !ok {
		return nil
	}
	list, err := elements(v)
	if err == nil && len(list) == 0 {
		err = errors.New("is empty; nothing would run")
	}
	if err != nil {
		r.problem(f, f.name, err)
		return nil
	}
	var out []axisValue
	seen := map[string]bool{}
	for i, e := range list {
		text, err := axisText(e)
		if err == nil && seen[text] {
			err = fmt.Errorf("of the axis %q is %s, which stands in the list already", label, text)
		}
		if err != nil {
			r.problem(f, fmt.Sprintf("values[%d]", i), err)
			continue
		}
		seen[text] = true
		out = append(out, axisValue{text, e})
	}
	return out
}

// axisText is how a value of an axis is shown: text, numbers and bools as they are, an adapter by its name.
func axisText(v cty.Value) (string, error) {
	if !v.IsMarked() && v.IsKnown() && !v.IsNull() && v.Type().IsObjectType() {
		if _, err := toReference(v, "adapter"); err != nil {
			return "", errors.New("must be a text, a number, a bool or an adapter; look up larger values in a local by each.axis")
		}
		return toText(v.GetAttr("name"))
	}
	text, err := toArgument(v)
	if err == nil && text == "" {
		err = errors.New("is empty")
	}
	return text, err
}

// loadPlacement reads what decides whether and where a combination runs.
func (t *trial) loadPlacement(content *hcl.BodyContent, at place) {
	t.adapters = t.l.required(content, "adapters", at)
	for _, b := range content.Blocks.OfType("exclude") {
		if f := t.l.required(t.l.content(b.Body, schema([]string{"!when"})), "when", at); f != nil {
			t.exclude = append(t.exclude, f)
		}
	}
}

func (t *trial) loadSteps(content *hcl.BodyContent, at place) {
	if b := t.l.single(content, "setup"); b != nil {
		t.setup = t.l.setupOf(b, at)
	}
	if b := t.l.single(content, "cell"); b != nil {
		t.cell = t.l.cellOf(b, at)
	} else {
		t.l.fail(&t.block.DefRange, "Trial without a cell", fmt.Sprintf("The trial %q has no cell block, so there is nothing to measure.", t.name))
	}
	if b := t.l.single(content, "verify"); b != nil {
		t.verify = t.l.verifyOf(b, at)
	}
	t.needs = dependsOn(append(append(t.setup.fields(), t.cell.fields()...), t.verify.fields()...))
	if t.cell != nil {
		t.requiresNeeds = dependsOn([]*field{t.cell.condition, t.cell.message})
	}
}

// size is the number of cells that a trial can have before exclusions.
func (t *trial) size() *big.Int {
	n := big.NewInt(int64(t.repeat + t.warmup))
	n.Mul(n, big.NewInt(int64(len(t.tasks))))
	n.Mul(n, big.NewInt(int64(len(t.variants))))
	for _, a := range t.axes {
		n.Mul(n, big.NewInt(int64(len(a.values))))
	}
	return n
}
