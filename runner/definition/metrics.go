package definition

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"cellharness/runner/plan"
)

// builtInMetrics are there without a definition: seconds, bytes and counts.
func builtInMetrics() []string {
	return []string{"passed", "wall", "provision", "teardown", "cpu", "max_rss", "attempts", "diff_lines"}
}

// metricBlock is a metric block whose name is known and whose value is not read yet.
type metricBlock struct {
	name  string
	block *hcl.Block
}

// declareMetrics makes the names of all metrics known.
func (l *loader) declareMetrics(blocks []*hcl.Block) []metricBlock {
	objects := map[string]cty.Value{}
	for _, n := range builtInMetrics() {
		objects[n] = metricObject(n)
	}
	var out []metricBlock
	for _, b := range blocks {
		label := b.Labels[0]
		for _, n := range builtInMetrics() {
			if n == label {
				l.fail(&b.LabelRanges[0], "Defined twice", fmt.Sprintf("The metric %q is there without a definition; choose another name.", label))
			}
		}
		objects[label] = metricObject(label)
		out = append(out, metricBlock{label, b})
	}
	l.globals["metric"] = cty.ObjectVal(objects)
	return out
}

func metricObject(name string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"address": cty.StringVal("metric." + name), "name": cty.StringVal(name)})
}

func (l *loader) loadMetrics(blocks []metricBlock) []plan.Metric {
	late := map[string]cty.Type{"result": recordType()}
	var out []plan.Metric
	for _, b := range blocks {
		content := l.content(b.block.Body, schema([]string{"!value", "unit", "better"}))
		r, at := &reader{l: l}, l.basics()
		m := plan.Metric{Name: b.name}
		m.Unit, _ = r.text(l.field(content, "unit", at))
		m.Better, _ = r.oneOf(l.field(content, "better", at), "lower", "higher")
		m.Value = r.freeze(l.required(content, "value", at.with(late).allowing(specialLate)), late, cty.Number)
		out = append(out, m)
	}
	return out
}

func (l *loader) loadThresholds(blocks []*hcl.Block, trials []*trial) []plan.Threshold {
	others := map[string]cty.Type{}
	for _, v := range l.variants {
		others[v.name] = versusType
	}
	late := map[string]cty.Type{"stat": statType, "vs": cty.Object(others)}
	var out []plan.Threshold
	for _, b := range blocks {
		content := l.content(b.Body, schema([]string{"!metric", "where", "!condition"}))
		r := &reader{l: l}
		t := plan.Threshold{Name: b.Labels[0]}
		metric := l.required(content, "metric", l.naming("var", "local", "path", "metric"))
		address, _ := r.reference(metric, "metric")
		t.Metric = strings.TrimPrefix(address, "metric.")
		t.Where = r.where(l.field(content, "where", l.naming("var", "local", "path", "task", "variant", "adapter")), trials)
		t.Condition = r.freeze(l.required(content, "condition", l.basics().with(late).allowing(specialLate)), late, cty.Bool)
		out = append(out, t)
	}
	return out
}

// where reads which cells a threshold is about, and refuses names that no cell has.
func (r *reader) where(f *field, trials []*trial) map[string]string {
	known := knownNames(trials)
	var out map[string]string
	r.members(f, func(key string, v cty.Value) error {
		text, err := whereText(v)
		if err != nil {
			return err
		}
		names, ok := known[key]
		if !ok {
			return fmt.Errorf("is not possible: cells are told apart by %s.%s", enumerate(sortedNames(known)), suggest(key, sortedNames(known)))
		}
		if !names[text] && !r.l.diagsHaveErrors() {
			return fmt.Errorf("is %q, which no cell has; there are %s.%s", text, enumerate(sortedNames(names)), suggest(text, sortedNames(names)))
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = text
		return nil
	})
	return out
}

// whereText is a name, written out or as a reference such as variant.claude.
func whereText(v cty.Value) (string, error) {
	if !v.IsMarked() && v.IsKnown() && !v.IsNull() && v.Type().IsObjectType() {
		if !v.Type().HasAttribute("name") {
			return "", errors.New("must be a name or refer to one task, variant or adapter")
		}
		v = v.GetAttr("name")
	}
	return toText(v)
}

// knownNames are the names that cells can have, by what they tell apart.
func knownNames(trials []*trial) map[string]map[string]bool {
	known := map[string]map[string]bool{"trial": {}, "task": {}, "variant": {}, "adapter": {}}
	for _, t := range trials {
		known["trial"][t.name] = true
		for _, k := range t.tasks {
			known["task"][k.name] = true
		}
		for _, v := range t.variants {
			known["variant"][v.name] = true
		}
		for _, i := range t.l.instances {
			known["adapter"][i.name] = true
		}
		for _, a := range t.axes {
			if known[a.name] == nil {
				known[a.name] = map[string]bool{}
			}
			for _, v := range a.values {
				known[a.name][v.text] = true
			}
		}
	}
	return known
}

// Instances lists the adapter blocks that selected cells may be placed on, in the order of the files.
func (d *Definition) Instances() []Instance {
	refs := map[*instance]map[string]bool{}
	for _, t := range d.trials {
		for _, p := range t.cells {
			for _, i := range p.combination.candidates {
				if refs[i] == nil {
					refs[i] = map[string]bool{}
				}
				if ref := p.combination.task.ref; ref != "" {
					refs[i][ref] = true
				}
			}
		}
	}
	var out []Instance
	for _, i := range d.loader.instances {
		if refs[i] != nil {
			out = append(out, i.public(refs[i]))
		}
	}
	return out
}

// public is the instance as others see it.
func (i *instance) public(refs map[string]bool) Instance {
	out := Instance{
		Name: i.name, Address: i.address(), Kind: i.kind.Name, Settings: i.written, Secrets: i.settings.secrets,
		Environment: i.settings.environment, Refs: sortedNames(refs), MaxConcurrent: i.most, Keep: i.keep,
	}
	if i.profile != nil {
		out.Profile = i.profile.name
	}
	return out
}
