package definition

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"cellharness/shared"
)

// decoder reads blocks by a kind's schema.
type decoder struct {
	l           *loader
	kind        string
	place       place
	fields      map[string]hcl.Range // places of arguments and blocks, by path
	credentials *field               // the argument of that name, which no kind's own schema has
}

// block reads one block and the blocks inside it. path is "" or ends in a dot.
func (d *decoder) block(body hcl.Body, s shared.Schema, path string) settings {
	hclSchema := &hcl.BodySchema{}
	for _, setting := range s.Settings {
		hclSchema.Attributes = append(hclSchema.Attributes, hcl.AttributeSchema{Name: setting.Name, Required: setting.Required})
	}
	for _, name := range sortedNames(s.Blocks) {
		hclSchema.Blocks = append(hclSchema.Blocks, header(name))
	}
	content := d.l.content(body, hclSchema)
	out := settings{values: map[string]any{}, host: map[string]cty.Value{}}
	given := map[string]hcl.Range{}
	for _, setting := range s.Settings {
		f := d.l.field(content, setting.Name, d.place)
		if f == nil {
			continue
		}
		f.required = setting.Required
		d.fields[path+setting.Name] = f.expr.Range()
		if setting.Type == shared.SettingUnspecified {
			d.credentials = f
			continue
		}
		if d.setting(f, setting, &out) {
			given[setting.Name] = content.Attributes[setting.Name].NameRange
		}
	}
	for _, name := range sortedNames(s.Blocks) {
		b := d.l.single(content, name)
		if b == nil {
			continue
		}
		d.fields[path+name] = b.DefRange
		given[name] = b.DefRange
		out.values[name] = d.block(b.Body, s.Blocks[name], path+name+".").values
	}
	d.conflicts(s, given)
	return out
}

// conflicts reports arguments and blocks that may not stand beside each other.
func (d *decoder) conflicts(s shared.Schema, given map[string]hcl.Range) {
	for _, setting := range s.Settings {
		if _, ok := given[setting.Name]; !ok {
			continue
		}
		for _, other := range setting.Conflicts {
			if place, ok := given[other]; ok {
				d.l.fail(&place, "Settings exclude each other", fmt.Sprintf("%s cannot be set with %s: %s.", other, setting.Name, setting.Why))
			}
		}
	}
}

// setting reads one argument into the form that its type has in Configuration.Settings. False: it is null or reported.
func (d *decoder) setting(f *field, s shared.Setting, out *settings) bool {
	r := &reader{l: d.l}
	if s.Type == shared.SettingSecret {
		return d.secret(r, f, out)
	}
	v, ok := r.value(f)
	if !ok {
		return false
	}
	value, err := d.convert(v, s, f)
	if err != nil {
		r.problem(f, f.name, err)
		return false
	}
	if len(s.OneOf) > 0 {
		if _, ok := r.oneOf(f, s.OneOf...); !ok {
			return false
		}
	}
	if s.Host {
		out.host[s.Name] = v
		return true
	}
	if s.Type == shared.SettingEnvironment {
		out.environment = value.([]string)
	}
	out.values[s.Name] = value
	return true
}

func (d *decoder) convert(v cty.Value, s shared.Setting, f *field) (any, error) {
	switch s.Type {
	case shared.SettingString:
		return toArgument(v)
	case shared.SettingPath:
		return d.path(v, f)
	case shared.SettingNumber:
		n, err := numberJSON(v)
		if err == nil && strings.HasPrefix(string(n), "-") {
			return nil, fmt.Errorf("must not be negative, and it is %s", n)
		}
		return n, err
	case shared.SettingBool:
		return toBool(v)
	case shared.SettingStrings:
		return d.strings(v)
	case shared.SettingEnvironment:
		return d.variables(v)
	case shared.SettingDuration:
		return toDuration(v)
	case shared.SettingSize:
		return toSize(v)
	}
	return nil, fmt.Errorf("has a type that the harness does not know (%d)", s.Type)
}

func (d *decoder) path(v cty.Value, f *field) (string, error) {
	path, err := toArgument(v)
	if err != nil {
		return "", err
	}
	if path == "" {
		return "", errors.New("is empty")
	}
	if s := d.l.sources[f.expr.Range().Filename]; s != nil && !filepath.IsAbs(path) {
		path = filepath.Join(s.dir, path)
	}
	return filepath.Clean(path), nil
}

// variables reads names of environment variables. One that no variable can have would pass nothing on, in silence.
func (d *decoder) variables(v cty.Value) ([]string, error) {
	names, err := d.strings(v)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if name == "" || strings.ContainsAny(name, "=*?") {
			return nil, fmt.Errorf("[%d] is %q, which is no name of a variable; they are passed on one by one, by name", i, name)
		}
	}
	return names, nil
}

func (d *decoder) strings(v cty.Value) ([]string, error) {
	list, err := elements(v)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for i, e := range list {
		s, err := toArgument(e)
		if err != nil {
			return nil, fmt.Errorf("holds at [%d] a value that %w", i, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// secret reads where a secret is. A literal is hidden before it is reported.
func (d *decoder) secret(r *reader, f *field, out *settings) bool {
	d.l.concealLiterals(f)
	v, ok := r.value(f)
	if !ok {
		return false
	}
	ref, err := toSecret(v, f.name, strings.ToUpper(d.kind+"_"+f.name))
	if errors.Is(err, errUnknown) && d.l.diagsHaveErrors() {
		return false
	}
	if err != nil {
		d.l.conceal(v)
		d.l.fail(rangeOf(f), "A secret written into the file", fmt.Sprintf("%s %v, secret::file(\"path\") or secret::exec([\"program\"]).", f.name, err))
		r.failed = true
		return false
	}
	out.secrets = append(out.secrets, ref)
	return true
}

func rangeOf(f *field) *hcl.Range {
	r := f.expr.Range()
	return &r
}
