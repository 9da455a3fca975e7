package definition

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"cellharness/runner/plan"
	"cellharness/shared"
)

// Plan places every cell on the first candidate that fits. facts holds what was learned of each instance by its name;
// nil plans offline: capabilities are unknown, so whatever depends on them is left undecided. A cell that no candidate
// can take is in the plan with its reason.
func (d *Definition) Plan(facts map[string]Fact) (*plan.Plan, plan.Blobs, Diagnostics) {
	p := &plan.Plan{
		Schema: plan.Schema, Name: d.name, Sources: d.loader.planSources(), Inputs: d.loader.planInputs(), Run: d.run,
		Metrics: d.metrics, Thresholds: d.thresholds,
	}
	for _, i := range d.Instances() {
		p.Adapters = append(p.Adapters, adapterOf(i, facts[i.Name]))
	}
	s := &placer{d: d, facts: facts, capabilities: map[*instance]cty.Value{}, verdicts: map[*trial]map[world]string{}}
	blobs := plan.Blobs{}
	for _, t := range d.trials {
		p.Trials = append(p.Trials, t.summary())
		for _, pending := range t.cells {
			cell, ok := s.cell(t, pending)
			if !ok {
				continue
			}
			p.Cells = append(p.Cells, cell)
			d.collect(blobs, cell)
		}
	}
	diags := d.loader.report()
	if diags.HasErrors() {
		return nil, nil, diags
	}
	return p, blobs, diags
}

func adapterOf(i Instance, f Fact) plan.Adapter {
	a := plan.Adapter{
		Instance: i.Name, Kind: i.Kind, Profile: i.Profile, Secrets: i.Secrets, Settings: i.Settings,
		Environment: i.Environment, Refs: i.Refs, MaxConcurrent: i.MaxConcurrent, Keep: i.Keep,
		Version: f.Version, Digest: f.Digest, Source: strings.ToValidUTF8(f.Source, "\uFFFD"), Notices: plan.Notices(f.Notices),
	}
	for _, pin := range f.Pins {
		a.Pins = append(a.Pins, plan.Pin{Ref: pin.Ref, Commit: pin.Commit, Notices: plan.Notices(pin.Notices)})
	}
	a.Base = commitOf(f.Pins, "")
	return a
}

func commitOf(pins []shared.Pin, ref string) string {
	for _, p := range pins {
		if p.Ref == ref {
			return p.Commit
		}
	}
	return ""
}

// summary lists the variants with the baseline first.
func (t *trial) summary() plan.Trial {
	out := plan.Trial{Name: t.name, Baseline: t.baseline, Repeat: t.repeat, Warmup: t.warmup}
	if t.baseline != "" {
		out.Variants = append(out.Variants, t.baseline)
	}
	for _, v := range t.variants {
		if v.name != t.baseline {
			out.Variants = append(out.Variants, v.name)
		}
	}
	for _, a := range t.axes {
		out.Axes = append(out.Axes, a.name)
	}
	return out
}

// placer places the cells of one plan.
type placer struct {
	d            *Definition
	facts        map[string]Fact
	capabilities map[*instance]cty.Value
	verdicts     map[*trial]map[world]string // why requires is not met
}

// cell places one cell. False: its address, which the adapter is part of, is not among those that were asked for.
func (s *placer) cell(t *trial, p pending) (plan.Cell, bool) {
	i, refused := s.place(t, p)
	if i != nil && !s.d.loader.selected(cellAddress(p, i)) {
		return plan.Cell{}, false
	}
	on := i
	if on == nil {
		on = p.combination.candidates[0]
	}
	c := t.body(p, on).cell
	c.Address, c.Refused = cellAddress(p, i), refused
	c.Trial, c.Task, c.Variant = t.name, p.combination.task.name, p.combination.variant.name
	c.Repeat, c.Warmup = p.repeat, p.warmup
	for n, a := range t.axes {
		c.Axes = append(c.Axes, plan.Axis{Name: a.name, Value: p.combination.axes[n].text})
	}
	for _, candidate := range p.combination.candidates {
		c.Candidates = append(c.Candidates, candidate.name)
	}
	if i != nil {
		c.Adapter = i.name
	}
	c.Ref, c.Labels, c.SeedAs = p.combination.task.ref, p.combination.task.labels, p.combination.task.seedAs
	fact := s.facts[on.name]
	c.Base = commitOf(fact.Pins, c.Ref)
	c.Key = plan.Key(c, plan.Placement{Kind: on.kind.Name, Settings: on.keyed, Version: fact.Version})
	return c, true
}

// place finds the first candidate that fits; otherwise the reasons. What a cell needs may depend on the candidate, so
// each is asked on its own.
func (s *placer) place(t *trial, p pending) (*instance, string) {
	refused := &shared.Error{Code: shared.CodeUnsupported, Message: "no adapter can take it"}
	for _, i := range p.combination.candidates {
		reason := s.unfit(t, p, i)
		if reason == "" {
			return i, ""
		}
		refused.Violations = append(refused.Violations, shared.Violation{Field: i.address(), Message: reason})
	}
	return nil, refused.Error()
}

// unfit tells why a candidate cannot take a cell, empty where it can. Offline only the definition itself can refuse.
func (s *placer) unfit(t *trial, p pending, i *instance) string {
	if s.facts == nil {
		return s.unmet(t, p, i)
	}
	fact, ok := s.facts[i.name]
	if !ok {
		fact.Unavailable = "it was not asked"
	}
	b := t.body(p, i)
	needs := shared.Needs{
		Kind: shared.ExecCell, Limits: b.limits, FreshVerify: b.cell.Verify != nil && b.cell.Verify.Fresh,
		Requires: func(shared.Candidate) string { return s.unmet(t, p, i) },
	}
	if b.cell.Cell.Kind == promptCell {
		needs.Kind = shared.PromptCell
	}
	candidate := shared.Candidate{Instance: i.address(), Capabilities: fact.Capabilities, Unavailable: fact.Unavailable}
	_, err := shared.Select(needs, []shared.Candidate{candidate})
	var refused *shared.Error
	if errors.As(err, &refused) && len(refused.Violations) == 1 {
		return refused.Violations[0].Message
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// unmet evaluates requires for a candidate: why it is not met, empty where it is or cannot be decided.
func (s *placer) unmet(t *trial, p pending, i *instance) string {
	if t.cell.condition == nil {
		return ""
	}
	w := t.requiresNeeds.world(p, i)
	known, ok := s.verdicts[t][w]
	if ok {
		return known
	}
	if s.verdicts[t] == nil {
		s.verdicts[t] = map[world]string{}
	}
	reason := t.requires(p, i, s.capabilitiesOf(i))
	s.verdicts[t][w] = reason
	return reason
}

func (s *placer) capabilitiesOf(i *instance) cty.Value {
	v, ok := s.capabilities[i]
	if !ok {
		v = cty.UnknownVal(capabilitiesType())
		if fact, known := s.facts[i.name]; known && fact.Unavailable == "" {
			v = capabilitiesValue(fact.Capabilities)
		}
		s.capabilities[i] = v
	}
	return v
}

// requires evaluates the condition with the given capabilities, which may be unknown.
func (t *trial) requires(p pending, i *instance, capabilities cty.Value) string {
	names := t.names(p, i)
	each := names["each"].AsValueMap()
	adapter := each["adapter"].AsValueMap()
	adapter["capabilities"] = capabilities
	each["adapter"] = cty.ObjectVal(adapter)
	r := &reader{l: t.l, names: map[string]cty.Value{"each": cty.ObjectVal(each)}, cell: cellAddress(p, nil)}
	v, ok := r.value(t.cell.condition)
	if !ok {
		return ""
	}
	if !v.IsMarked() && !v.IsKnown() {
		r.checkType(t.cell.condition, v, cty.Bool)
		return ""
	}
	met, err := toBool(v)
	if err != nil {
		r.problem(t.cell.condition, "condition", err)
	}
	if met || err != nil {
		return ""
	}
	message, ok := r.text(t.cell.message)
	if !ok {
		return "its requires is not met"
	}
	return message
}

// collect adds the texts that a cell needs.
func (d *Definition) collect(blobs plan.Blobs, c plan.Cell) {
	add := func(b plan.Blob) { blobs[b.SHA256] = d.loader.blobs[b.SHA256] }
	step := func(s *plan.Step) {
		if s != nil && s.Stdin != nil {
			add(*s.Stdin)
		}
	}
	step(c.Setup)
	step(&c.Cell)
	for _, s := range c.Seeds {
		add(s.Blob)
	}
	if c.Verify != nil {
		step(&c.Verify.Step)
		for _, s := range c.Verify.Seeds {
			add(s.Blob)
		}
	}
}

// Violations shows what an adapter said of its configuration at the lines it is about. A field that has no line of its
// own is shown at the block, a ref at the task that asks for it.
func (d *Definition) Violations(instance string, vs []shared.Violation) Diagnostics {
	l := d.loader
	i := l.instanceByName(instance)
	for _, v := range vs {
		summary := fmt.Sprintf("Adapter %s refuses its configuration", instance)
		detail := fmt.Sprintf("%s: %s", v.Field, v.Message)
		if i == nil {
			l.fail(nil, summary, detail)
			continue
		}
		place := l.placeOf(i, v.Field)
		d := errorAt(place, summary, detail)
		l.diags = append(l.diags, d)
	}
	return l.report()
}

func (l *loader) placeOf(i *instance, field string) hcl.Range {
	if r, ok := i.fields[field]; ok {
		return r
	}
	for _, t := range l.tasks {
		if t.refPlace != nil && field == fmt.Sprintf("ref[%q]", t.ref) {
			return *t.refPlace
		}
	}
	return i.block.DefRange
}
