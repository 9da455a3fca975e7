package definition

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"cellharness/runner/plan"
	"cellharness/shared"
)

// profile is a credentials block.
type profile struct {
	name    string
	kind    string
	block   *hcl.Block
	values  map[string]any // settings that are no secrets
	secrets []plan.SecretRef
	fields  map[string]hcl.Range
}

// instance is an adapter block.
type instance struct {
	name     string
	kind     shared.Kind
	block    *hcl.Block
	settings settings
	profile  *profile
	keep     string
	most     int
	written  []byte // the settings, as the adapter gets them
	keyed    []byte // those of them that are part of a cell's key
	fields   map[string]hcl.Range
}

func (i *instance) address() string { return i.kind.Name + "." + i.name }

// settings are what a block of a kind's schema says.
type settings struct {
	values      map[string]any // for the adapter
	host        map[string]cty.Value
	environment []string
	secrets     []plan.SecretRef
}

// kindOf finds the kind that a block names, and reports one that does not exist.
func (l *loader) kindOf(b *hcl.Block) (shared.Kind, bool) {
	kind, ok := shared.KindByName(l.kinds, b.Labels[0])
	if ok {
		return kind, true
	}
	var names []string
	for _, k := range l.kinds {
		names = append(names, k.Name)
	}
	l.fail(&b.LabelRanges[0], "No such adapter", fmt.Sprintf("There is no adapter %q. This harness has %d: %s.%s",
		b.Labels[0], len(names), enumerate(names), suggest(b.Labels[0], names)))
	return shared.Kind{}, false
}

// loadCredentials reads the credentials blocks. They say where secrets are; nobody reads one here.
func (l *loader) loadCredentials(blocks []*hcl.Block) {
	objects := map[string]map[string]cty.Value{}
	for _, b := range blocks {
		kind, ok := l.kindOf(b)
		if !ok {
			continue
		}
		if len(kind.Credentials.Settings) == 0 {
			l.fail(&b.DefRange, "Credentials without use", fmt.Sprintf("The adapter %s takes no credentials.", kind.Name))
			continue
		}
		p := &profile{name: b.Labels[1], kind: kind.Name, block: b, fields: map[string]hcl.Range{}}
		d := &decoder{l: l, kind: kind.Name, place: l.basics().allowing(specialSecret), fields: p.fields}
		s := d.block(b.Body, kind.Credentials, "")
		p.values, p.secrets = s.values, s.secrets
		l.profiles = append(l.profiles, p)
		put(objects, kind.Name, p.name, object("credentials", kind.Name, p.name))
	}
	l.globals["credentials"] = objectOfObjects(objects, l.kinds)
}

// object is how a block of a kind shows itself to expressions.
func object(block, kind, name string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"address": cty.StringVal(block + "." + kind + "." + name),
		"kind":    cty.StringVal(kind),
		"name":    cty.StringVal(name),
	})
}

func put(objects map[string]map[string]cty.Value, kind, name string, v cty.Value) {
	if objects[kind] == nil {
		objects[kind] = map[string]cty.Value{}
	}
	objects[kind][name] = v
}

// objectOfObjects nests blocks by kind and name. Every kind is there, so that a wrong name is told with the right ones.
func objectOfObjects(objects map[string]map[string]cty.Value, kinds []shared.Kind) cty.Value {
	out := map[string]cty.Value{}
	for _, k := range kinds {
		out[k.Name] = cty.ObjectVal(objects[k.Name])
	}
	return cty.ObjectVal(out)
}

// loadAdapters reads the adapter blocks.
func (l *loader) loadAdapters(blocks []*hcl.Block) {
	objects := map[string]map[string]cty.Value{}
	for _, b := range blocks {
		kind, ok := l.kindOf(b)
		if !ok {
			continue
		}
		i := l.loadAdapter(b, kind)
		put(objects, kind.Name, i.name, object("adapter", kind.Name, i.name))
		if l.instanceByName(i.name) == nil {
			l.instances = append(l.instances, i)
		}
	}
	l.globals["adapter"] = objectOfObjects(objects, l.kinds)
	for _, name := range sortedNames(l.opts.Profiles) {
		if l.instanceByName(name) == nil {
			var names []string
			for _, i := range l.instances {
				names = append(names, i.name)
			}
			l.fail(nil, "No such adapter", fmt.Sprintf("--credentials names the adapter instance %q; the definition has %s.%s",
				name, enumerate(names), suggest(name, names)))
		}
	}
}

func (l *loader) instanceByName(name string) *instance {
	for _, i := range l.instances {
		if i.name == name {
			return i
		}
	}
	return nil
}

func (l *loader) loadAdapter(b *hcl.Block, kind shared.Kind) *instance {
	i := &instance{name: b.Labels[1], kind: kind, block: b, keep: shared.KeepNever, fields: map[string]hcl.Range{}}
	own := kind.Settings
	takesCredentials := len(kind.Credentials.Settings) > 0
	if takesCredentials {
		own.Settings = append(append([]shared.Setting{}, own.Settings...), shared.Setting{Name: "credentials"})
	}
	d := &decoder{l: l, kind: kind.Name, place: l.naming("var", "local", "path", "credentials"), fields: i.fields}
	i.settings = d.block(b.Body, own, "")
	if takesCredentials {
		i.profile = l.profileOf(i, d.credentials)
		i.addProfile()
	}
	l.hostSettings(i, d)
	var err, keyErr error
	i.written, err = stdjson.Marshal(i.settings.values)
	i.keyed, keyErr = stdjson.Marshal(withoutUnkeyed(i.settings.values, kind.Settings))
	if err := errors.Join(err, keyErr); err != nil {
		l.fail(&b.DefRange, "Settings cannot be written", err.Error())
	}
	return i
}

// addProfile puts the credentials beside the settings: both are what the adapter is configured with.
func (i *instance) addProfile() {
	if i.profile == nil {
		return
	}
	i.settings.secrets = i.profile.secrets
	for name, v := range i.profile.values {
		i.settings.values[name] = v
	}
	for name, r := range i.profile.fields {
		if _, own := i.fields[name]; !own {
			i.fields[name] = r
		}
	}
}

// withoutUnkeyed leaves out what cannot change what is measured. Credentials are not in the schema, so they stay out.
func withoutUnkeyed(values map[string]any, s shared.Schema) map[string]any {
	out := map[string]any{}
	for _, setting := range s.Settings {
		if v, ok := values[setting.Name]; ok && !setting.NotInKey {
			out[setting.Name] = v
		}
	}
	for name, block := range s.Blocks {
		if v, ok := values[name].(map[string]any); ok {
			out[name] = withoutUnkeyed(v, block)
		}
	}
	return out
}

// hostSettings reads the settings that the harness itself acts on.
func (l *loader) hostSettings(i *instance, d *decoder) {
	if v, ok := i.settings.host[shared.SettingMaxConcurrent]; ok {
		n, err := toInt(v, 1)
		if err != nil {
			place := i.fields[shared.SettingMaxConcurrent]
			l.fail(&place, "Value cannot be used", fmt.Sprintf("%s %v.", shared.SettingMaxConcurrent, err))
		}
		i.most = int(n)
	}
	if v, ok := i.settings.host[shared.SettingKeepWorkspaces]; ok {
		if word, err := toText(v); err == nil {
			i.keep = word
		}
	}
	if keep := l.opts.KeepWorkspaces; keep != "" {
		i.keep = keep
	}
}

// profileOf finds the credentials of an instance: --credentials, then HARNESS_CREDENTIALS_instance, then the block's own
// argument. Variables that a provider's own tools read are never looked at.
func (l *loader) profileOf(i *instance, own *field) *profile {
	name, from := l.opts.Profiles[i.name], "--credentials"
	if name == "" {
		name, _ = l.opts.LookupEnv("HARNESS_CREDENTIALS_" + i.name)
		from = "HARNESS_CREDENTIALS_" + i.name
	}
	r := &reader{l: l}
	address, given := r.reference(own, "credentials")
	if r.failed {
		return nil
	}
	if name == "" && !given {
		if l.needsCredentials(i.kind) {
			l.fail(&i.block.DefRange, "Adapter without credentials", fmt.Sprintf(
				"The adapter %s needs credentials: set credentials = credentials.%s.NAME, or run with --credentials %s=NAME.",
				i.address(), i.kind.Name, i.name))
		}
		return nil
	}
	if name == "" {
		kind, label, _ := strings.Cut(strings.TrimPrefix(address, "credentials."), ".")
		if kind != i.kind.Name {
			r.problem(own, "credentials", fmt.Errorf("are of the kind %s; this adapter needs some of the kind %s", kind, i.kind.Name))
			return nil
		}
		name, from = label, "credentials"
	}
	var names []string
	for _, p := range l.profiles {
		if p.kind == i.kind.Name && p.name == name {
			return p
		}
		if p.kind == i.kind.Name {
			names = append(names, p.name)
		}
	}
	l.fail(&i.block.DefRange, "No such credentials", fmt.Sprintf("%s names %q for the adapter %s; there are credentials %q for: %s.%s",
		from, name, i.address(), i.kind.Name, enumerate(names), suggest(name, names)))
	return nil
}

func (l *loader) needsCredentials(k shared.Kind) bool {
	for _, s := range k.Credentials.Settings {
		if s.Required {
			return true
		}
	}
	return false
}
