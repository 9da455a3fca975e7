package definition

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"golang.org/x/text/unicode/norm"

	"cellharness/shared"
)

// maxText is the most bytes that file() and templatefile() read.
const maxText = 64 << 20

// fileText is what file() read, kept so that one load sees one state of each file.
type fileText struct {
	value cty.Value
	err   error
}

func (l *loader) fileFunctions(dir string) map[string]function.Function {
	return map[string]function.Function{
		"file": textFunction(func(args []string) (string, error) {
			v, err := l.readText(dir, args[0])
			if err != nil {
				return "", err
			}
			return v.AsString(), nil
		}, "path"),
		"fileset":      l.filesetFunction(dir),
		"templatefile": l.templateFunction(dir),
	}
}

// readText reads a file as a string. The language puts text into one Unicode form, so what is not in that form, or is
// no text at all, would arrive changed; it is refused instead.
func (l *loader) readText(dir, name string) (cty.Value, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	if known, ok := l.files[path]; ok {
		return known.value, known.err
	}
	v, err := func() (cty.Value, error) {
		src, err := readBounded(path, maxText)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return cty.NilVal, fmt.Errorf("there is no file %s; the path is relative to the file that says it", path)
		case err != nil:
			return cty.NilVal, err
		case !utf8.Valid(src):
			return cty.NilVal, fmt.Errorf("%s is not UTF-8 text", path)
		case !norm.NFC.IsNormal(src):
			return cty.NilVal, fmt.Errorf("%s holds text that is not in Unicode form NFC and would be changed by reading it", path)
		}
		return cty.StringVal(string(src)), nil
	}()
	l.files[path] = fileText{v, err}
	return v, err
}

// filesetFunction is fileset(path, pattern): the regular files below path that match, by name relative to it.
func (l *loader) filesetFunction(dir string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "pattern", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Set(cty.String)),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			pattern, err := shared.ParsePattern(args[1].AsString())
			if err != nil {
				return cty.NilVal, err
			}
			root := args[0].AsString()
			if !filepath.IsAbs(root) {
				root = filepath.Join(dir, root)
			}
			var names []cty.Value
			err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return err
				}
				rel, err := filepath.Rel(root, path)
				if err == nil && pattern.Match(filepath.ToSlash(rel)) {
					names = append(names, cty.StringVal(filepath.ToSlash(rel)))
				}
				return err
			})
			if err != nil {
				return cty.NilVal, err
			}
			if len(names) == 0 {
				return cty.SetValEmpty(cty.String), nil
			}
			return cty.SetVal(names), nil
		},
	})
}

// templateFunction is templatefile(path, values). The template sees the values and the pure functions, nothing else.
func (l *loader) templateFunction(dir string) function.Function {
	render := func(args []cty.Value) (cty.Value, error) {
		text, err := l.readText(dir, args[0].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		values, err := entries(args[1])
		if err != nil {
			return cty.NilVal, fmt.Errorf("the values of the template %w", err)
		}
		src, name := []byte(text.AsString()), args[0].AsString()
		if d := checkTemplate(name, src); d != nil {
			return cty.NilVal, templateError(name, hcl.Diagnostics{d})
		}
		expr, diags := hclsyntax.ParseTemplate(src, name, hcl.InitialPos)
		if diags.HasErrors() {
			return cty.NilVal, templateError(name, diags)
		}
		v, diags := expr.Value(&hcl.EvalContext{Variables: values, Functions: pureFunctions()})
		if diags.HasErrors() {
			return cty.NilVal, templateError(name, diags)
		}
		return v, nil
	}
	return function.New(&function.Spec{
		Params: []function.Parameter{
			{Name: "path", Type: cty.String}, {Name: "values", Type: cty.DynamicPseudoType},
		},
		Type: function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return render(args) },
	})
}

func templateError(name string, diags hcl.Diagnostics) error {
	d := diags[0]
	line := 0
	if d.Subject != nil {
		line = d.Subject.Start.Line
	}
	return fmt.Errorf("%s line %d: %s: %s", name, line, d.Summary, strings.TrimRight(d.Detail, "."))
}
