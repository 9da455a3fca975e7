package definition

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"cellharness/runner/plan"
	"cellharness/shared"
)

// task is one thing to do: a task block, or one instance of a block with for_each.
type task struct {
	name     string // as addresses show it, such as issue["17"]
	ref      string
	refPlace *hcl.Range
	labels   map[string]string
	seeds    seeds
	seedAs   string
	object   cty.Value // what each.task is
}

func (t *task) address() string { return "task." + t.name }

// variant is one way to do it.
type variant struct {
	name   string
	seeds  seeds
	object cty.Value // what each.variant is
}

func (v *variant) address() string { return "variant." + v.name }

// seeds are files for the workspace, by path.
type seeds map[shared.Path]plan.Seed

// The values of seed_as.
const (
	seedUncommitted = "uncommitted"
	seedCommit      = "commit"
)

// loadTasks reads the task blocks and expands their for_each.
func (l *loader) loadTasks(blocks []*hcl.Block) {
	groups := map[string]cty.Value{}
	for _, b := range blocks {
		content := l.content(b.Body, schema([]string{"for_each", "prompt", "ref", "seed_inputs", "seed_as", "labels", "params"}))
		label := b.Labels[0]
		_, taken := groups[label]
		group := l.loadTask(label, content, !taken)
		if !taken {
			groups[label] = group
		}
	}
	l.globals["task"] = cty.ObjectVal(groups)
}

// loadTask reads one block and returns what task.LABEL is: a task, or an object of tasks.
func (l *loader) loadTask(label string, content *hcl.BodyContent, keep bool) cty.Value {
	at := l.basics()
	forEach := l.required(content, "for_each", at)
	if forEach == nil {
		t := l.taskOf(label, label, content, at, nil)
		if keep {
			l.tasks = append(l.tasks, t)
		}
		return t.object
	}
	r := &reader{l: l}
	v, ok := r.value(forEach)
	if !ok {
		return cty.DynamicVal
	}
	items, err := forEachItems(v)
	if err != nil {
		r.problem(forEach, "for_each", err)
		return cty.DynamicVal
	}
	at = at.with(map[string]cty.Type{"each": cty.Object(map[string]cty.Type{"key": cty.String, "value": cty.DynamicPseudoType})})
	group := map[string]cty.Value{}
	for _, key := range sortedNames(items) {
		shown := label + "[" + quote(key) + "]"
		each := map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(key), "value": items[key]})}
		t := l.taskOf(shown, key, content, at, each)
		group[key] = t.object
		if keep {
			l.tasks = append(l.tasks, t)
		}
	}
	return cty.ObjectVal(group)
}

// quote writes a string as HCL does, so that any key is safe in an address.
func quote(s string) string { return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()) }

// forEachItems reads what for_each goes over: a map, or a set of strings.
func forEachItems(v cty.Value) (map[string]cty.Value, error) {
	if !v.IsMarked() && v.IsKnown() && v.Type().IsSetType() {
		list, err := elements(v)
		if err != nil {
			return nil, err
		}
		items := map[string]cty.Value{}
		for _, e := range list {
			s, err := toText(e)
			if err != nil {
				return nil, fmt.Errorf("holds a value that %w", err)
			}
			items[s] = e
		}
		return items, nil
	}
	items, err := entries(v)
	if err != nil && !errors.Is(err, errNull) && !errors.Is(err, errSensitive) && !errors.Is(err, errUnknown) {
		return nil, errors.New("must be a map or a set of strings; make a set of a list with toset()")
	}
	return items, err
}

func (l *loader) taskOf(name, key string, content *hcl.BodyContent, at place, each map[string]cty.Value) *task {
	r := &reader{l: l, names: each}
	if each != nil {
		r.cell = "task." + name
	}
	t := &task{name: name}
	prompt, _ := read(r, l.field(content, "prompt", at), toText)
	ref := l.field(content, "ref", at)
	if ref != nil {
		t.refPlace = rangeOf(ref)
	}
	t.ref, _ = r.text(ref)
	t.labels = r.textMap(l.field(content, "labels", at))
	t.seeds = l.seedsOf(r, l.field(content, "seed_inputs", at))
	t.seedAs, _ = r.oneOf(l.field(content, "seed_as", at), seedUncommitted, seedCommit)
	if t.seedAs == "" {
		t.seedAs = seedUncommitted
	}
	t.object = cty.ObjectVal(map[string]cty.Value{
		"address": cty.StringVal(t.address()),
		"name":    cty.StringVal(name),
		"key":     cty.StringVal(key),
		"prompt":  cty.StringVal(prompt),
		"ref":     cty.StringVal(t.ref),
		"labels":  textObject(t.labels),
		"params":  l.params(r, content, at),
	})
	return t
}

func textObject(m map[string]string) cty.Value {
	out := map[string]cty.Value{}
	for k, v := range m {
		out[k] = cty.StringVal(v)
	}
	return cty.ObjectVal(out)
}

// params are values of any kind that trials read. They are checked where they are used.
func (l *loader) params(r *reader, content *hcl.BodyContent, at place) cty.Value {
	f := l.field(content, "params", at)
	v, ok := r.value(f)
	if r.failed {
		return cty.DynamicVal
	}
	if !ok {
		return cty.EmptyObjectVal
	}
	if _, err := entries(v); err != nil && !errors.Is(err, errSensitive) {
		r.problem(f, "params", err)
		return cty.DynamicVal
	}
	return v
}

// loadVariants reads the variant blocks.
func (l *loader) loadVariants(blocks []*hcl.Block) {
	objects := map[string]cty.Value{}
	for _, b := range blocks {
		content := l.content(b.Body, schema([]string{"params", "seed_inputs"}))
		r, at := &reader{l: l}, l.basics()
		v := &variant{name: b.Labels[0]}
		v.seeds = l.seedsOf(r, l.field(content, "seed_inputs", at))
		v.object = cty.ObjectVal(map[string]cty.Value{
			"address": cty.StringVal(v.address()),
			"name":    cty.StringVal(v.name),
			"params":  l.params(r, content, at),
		})
		if _, taken := objects[v.name]; !taken {
			objects[v.name] = v.object
			l.variants = append(l.variants, v)
		}
	}
	l.globals["variant"] = cty.ObjectVal(objects)
}

// seedsOf reads seed_inputs: contents by path.
func (l *loader) seedsOf(r *reader, f *field) seeds {
	out := seeds{}
	r.members(f, func(key string, v cty.Value) error {
		path, err := shared.ParsePath(key)
		if err != nil {
			return fmt.Errorf("cannot be used: %w", err)
		}
		text, err := toText(v)
		if err != nil {
			return err
		}
		if strings.HasPrefix(text, "#!") {
			l.warnCarriageReturns(f, fmt.Sprintf("%s[%q]", f.name, key), text)
		}
		out[path] = plan.Seed{Path: string(path), Blob: l.blob(text)}
		return nil
	})
	return out
}

// blob keeps a text for the plan.
func (l *loader) blob(text string) plan.Blob {
	sum := digest([]byte(text))
	if _, ok := l.blobs[sum]; !ok {
		l.blobs[sum] = []byte(text)
	}
	return plan.Blob{SHA256: sum, Bytes: int64(len(text))}
}

// merge puts seeds over each other; later ones win.
func merge(layers ...seeds) seeds {
	out := seeds{}
	for _, layer := range layers {
		for path, seed := range layer {
			out[path] = seed
		}
	}
	return out
}

// sorted lists seeds by path, and fails where two cannot both be files.
func (s seeds) sorted() ([]plan.Seed, error) {
	paths := make([]shared.Path, 0, len(s))
	for p := range s {
		paths = append(paths, p)
	}
	sort.Slice(paths, func(i, j int) bool { return paths[i] < paths[j] })
	if err := shared.CheckDistinct(paths); err != nil {
		return nil, err
	}
	var out []plan.Seed
	for _, p := range paths {
		out = append(out, s[p])
	}
	return out, nil
}

// warnCarriageReturns tells of line ends that a shell does not take. They are never changed in silence.
func (l *loader) warnCarriageReturns(f *field, path, text string) {
	if strings.Contains(text, "\r\n") {
		l.warn(rangeOf(f), "Script with CR line ends", fmt.Sprintf(
			"The lines of %s end in CR LF, which most shells take for part of the command. Save the file with LF line ends.", path))
	}
}
