package definition

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"cellharness/runner/plan"
	"cellharness/shared"
)

// combination is a task, a variant, and a value of every axis.
type combination struct {
	task       *task
	variant    *variant
	axes       []axisValue
	axisKey    string // the values as one text
	candidates []*instance
	address    string // without adapter and repetition
}

// pending is a cell that has no adapter yet.
type pending struct {
	combination *combination
	repeat      int
	warmup      bool
}

// dependencies are the parts of `each` that a set of expressions mentions. What does not depend on a part is evaluated
// once for all of its values.
type dependencies struct{ task, variant, axis, repeat, adapter bool }

func dependsOn(fields []*field) dependencies {
	var d dependencies
	for _, f := range fields {
		if f == nil {
			continue
		}
		for _, t := range f.expr.Variables() {
			if t.RootName() == "each" {
				d.mention(t)
			}
		}
	}
	return d
}

func (d *dependencies) mention(t hcl.Traversal) {
	part := ""
	if len(t) > 1 {
		part, _ = stepName(t[1])
	}
	d.task = d.task || part == "task" || part == ""
	d.variant = d.variant || part == "variant" || part == ""
	d.axis = d.axis || part == "axis" || part == ""
	d.repeat = d.repeat || part == "repeat" || part == ""
	d.adapter = d.adapter || part == "adapter" || part == ""
}

// world is what an evaluation depends on: the zero value stands for a part that it does not mention.
type world struct {
	task     *task
	variant  *variant
	axes     string
	repeat   int
	instance *instance
}

func (d dependencies) world(p pending, i *instance) world {
	var w world
	if d.task {
		w.task = p.combination.task
	}
	if d.variant {
		w.variant = p.combination.variant
	}
	if d.axis {
		w.axes = p.combination.axisKey
	}
	if d.repeat {
		w.repeat = p.repeat
	}
	if d.adapter {
		w.instance = i
	}
	return w
}

// expand makes the cells of all trials and evaluates everything of them, so that whatever is wrong is found before
// anything is started.
func (l *loader) expand(trials []*trial) {
	total := new(big.Int)
	for _, t := range trials {
		total.Add(total, t.size())
		if total.Cmp(big.NewInt(maxCells)) > 0 {
			l.fail(&t.block.DefRange, "Too many cells", fmt.Sprintf("With this trial the definition expands to %s cells; at most %d are possible.", total, maxCells))
			return
		}
	}
	for _, t := range trials {
		t.expand()
	}
}

func (t *trial) expand() {
	failed := len(t.tasks) == 0 || len(t.variants) == 0
	found := 0
	for _, task := range t.tasks {
		for _, variant := range t.variants {
			for _, axes := range t.axisCombinations() {
				c := t.combine(task, variant, axes)
				excluded, ok := t.excluded(c)
				failed = failed || !ok
				if excluded || !ok {
					continue
				}
				found++
				c.candidates = t.candidates(c)
				t.addCells(c)
			}
		}
	}
	for _, a := range t.axes {
		failed = failed || len(a.values) == 0
	}
	if found == 0 && !failed {
		t.l.fail(&t.block.DefRange, "Nothing would run", fmt.Sprintf("The trial %q excludes every combination; nothing would run.", t.name))
	}
}

// axisCombinations lists the values of all axes, the last axis fastest.
func (t *trial) axisCombinations() [][]axisValue {
	out := [][]axisValue{nil}
	for _, a := range t.axes {
		var next [][]axisValue
		for _, before := range out {
			for _, v := range a.values {
				next = append(next, append(append([]axisValue{}, before...), v))
			}
		}
		out = next
	}
	return out
}

func (t *trial) combine(k *task, v *variant, axes []axisValue) *combination {
	var address, key strings.Builder
	address.WriteString(t.name + "/" + k.name + "/" + v.name)
	for i, a := range t.axes {
		address.WriteString("/" + a.name + "=" + addressText(axes[i].text))
		key.WriteString(strconv.Quote(axes[i].text))
	}
	return &combination{task: k, variant: v, axes: axes, axisKey: key.String(), address: address.String()}
}

func (t *trial) excluded(c *combination) (excluded, ok bool) {
	if len(t.exclude) == 0 {
		return false, true
	}
	r := &reader{l: t.l, names: t.names(pending{combination: c}, nil), cell: c.address}
	for _, f := range t.exclude {
		when, _ := r.bool(f)
		excluded = excluded || when
	}
	return excluded, !r.failed
}

// candidates are the adapters that a combination may be placed on.
func (t *trial) candidates(c *combination) []*instance {
	r := &reader{l: t.l, names: t.names(pending{combination: c}, nil), cell: c.address}
	var out []*instance
	for _, address := range r.references(t.adapters, "adapter") {
		for _, i := range t.l.instances {
			if "adapter."+i.address() == address {
				out = append(out, i)
			}
		}
	}
	if !r.failed && len(out) == 0 && t.adapters != nil {
		r.problem(t.adapters, "adapters", fmt.Errorf("is empty; the cell could run nowhere"))
	}
	return out
}

// addCells adds the repetitions of a combination and evaluates each on every candidate. A warm-up comes before the
// repetitions that count.
func (t *trial) addCells(c *combination) {
	for n := range t.warmup + t.repeat {
		p := pending{combination: c, repeat: n - t.warmup + 1}
		if n < t.warmup {
			p = pending{combination: c, repeat: n + 1, warmup: true}
		}
		for _, i := range c.candidates {
			t.body(p, i)
			t.checkRequires(p, i)
		}
		if t.l.selects(p) {
			t.cells = append(t.cells, p)
		}
	}
}

// checkRequires evaluates requires with capabilities that are not known yet, so that a mistake in it is found at once.
func (t *trial) checkRequires(p pending, i *instance) {
	w := t.requiresNeeds.world(p, i)
	if t.cell == nil || t.cell.condition == nil || t.checked[w] {
		return
	}
	t.checked[w] = true
	t.requires(p, i, cty.UnknownVal(capabilitiesType()))
}

// cellAddress is the address of a cell on an adapter; nil for a cell that none takes.
func cellAddress(p pending, i *instance) string {
	address := p.combination.address
	if i != nil && len(p.combination.candidates) > 1 {
		address += "@" + i.name
	}
	if p.warmup {
		return address + "#w" + strconv.Itoa(p.repeat)
	}
	return address + "#" + strconv.Itoa(p.repeat)
}

// names are the values that the expressions of a cell see.
func (t *trial) names(p pending, i *instance) map[string]cty.Value {
	axes := make(map[string]cty.Value, len(t.axes))
	for n, a := range t.axes {
		axes[a.name] = p.combination.axes[n].value
	}
	each := map[string]cty.Value{
		"task":    p.combination.task.object,
		"variant": p.combination.variant.object,
		"axis":    cty.ObjectVal(axes),
		"repeat":  cty.NumberIntVal(int64(p.repeat)),
	}
	if i != nil {
		each["adapter"] = object("adapter", i.kind.Name, i.name)
	}
	return map[string]cty.Value{"each": cty.ObjectVal(each)}
}

// body is everything that is evaluated for a cell.
type body struct {
	cell   plan.Cell       // without what tells one cell from another
	limits []shared.Limits // of setup, cell and verify
}

// body evaluates a cell as far as it is not known already.
func (t *trial) body(p pending, i *instance) *body {
	w := t.needs.world(p, i)
	if known, ok := t.bodies[w]; ok {
		return known
	}
	b := &body{}
	t.bodies[w] = b
	if t.cell == nil {
		return b
	}
	r := &reader{l: t.l, names: t.names(p, i), cell: cellAddress(p, nil)}
	c := &b.cell
	if t.setup != nil {
		setup := t.setup.command(r, execCell)
		c.Setup = &setup
	}
	c.Cell = t.cell.command(r, "")
	b.limits = []shared.Limits{c.Cell.Limits.Shared()}
	if c.Setup != nil {
		b.limits = append(b.limits, c.Setup.Limits.Shared())
	}
	if c.Verify = t.verification(r); c.Verify != nil {
		b.limits = append(b.limits, c.Verify.Limits.Shared())
	}
	c.Artifacts, c.Diff = r.patterns(t.cell.artifacts)
	c.Seeds = t.seeds(r, p.combination)
	c.Attempts, c.Backoff = defaultAttempts, defaultBackoff
	if n, given := r.int(t.cell.attempts, 1); given {
		c.Attempts = int(min(n, maxCells))
	}
	if d, given := r.duration(t.cell.backoff); given {
		c.Backoff = d
	}
	return b
}

// seeds are those of the task, the variant and the cell; later ones win.
func (t *trial) seeds(r *reader, c *combination) []plan.Seed {
	layers := merge(c.task.seeds, c.variant.seeds, t.l.seedsOf(r, t.cell.seeds))
	list, err := layers.sorted()
	if err == nil {
		return list
	}
	if t.cell.seeds != nil {
		r.problem(t.cell.seeds, "seed_inputs", fmt.Errorf("of task, variant and cell do not fit together: %w", err))
		return nil
	}
	r.failed = true
	t.l.fail(&t.cell.block.DefRange, "Seeds exclude each other", fmt.Sprintf("The seeds of task and variant for %s do not fit together: %v.", r.cell, err))
	return nil
}

func (t *trial) verification(r *reader) *plan.Verify {
	if t.verify == nil {
		return nil
	}
	v := &plan.Verify{Step: t.verify.command(r, execCell)}
	list, err := t.l.seedsOf(r, t.verify.seeds).sorted()
	if err != nil {
		r.problem(t.verify.seeds, "seed_inputs", fmt.Errorf("do not fit together: %w", err))
	}
	v.Seeds = list
	where, _ := r.oneOf(t.verify.workspace, "same", "fresh")
	v.Fresh = where == "fresh"
	v.Pass = r.freeze(t.verify.pass, map[string]cty.Type{"result": commandType}, cty.Bool)
	return v
}
