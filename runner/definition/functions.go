package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	yaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functionsOf names a table of functions: paths are relative to the file that says them, and some functions do their
// work only at some places.
type functionsOf struct {
	dir     string
	special special
}

func (l *loader) functionTable(key functionsOf) map[string]function.Function {
	if table, ok := l.functions[key]; ok {
		return table
	}
	table := pureFunctions()
	for name, f := range secretFunctions(key.dir, key.special == specialSecret) {
		table[name] = f
	}
	table["env"] = l.envFunction(key.special == specialEnv)
	for name, f := range l.fileFunctions(key.dir) {
		if key.special == specialLate {
			f = refusing(f, "files are read while the definition is loaded, not after a run; put the text into a local")
		}
		table[name] = f
	}
	l.functions[key] = table
	return table
}

// refusing takes the same arguments as f and answers with a reason why it cannot stand here.
func refusing(f function.Function, reason string) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func([]cty.Value) (cty.Type, error) { return cty.NilType, errors.New(reason) },
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.NilVal, errors.New(reason) },
	})
}

// pureFunctions are those whose answer follows from their arguments alone; none depends on the clock or on chance.
func pureFunctions() map[string]function.Function {
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "int": stdlib.IntFunc,
		"log": stdlib.LogFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc,
		"pow": stdlib.PowFunc, "signum": stdlib.SignumFunc,

		"chomp": stdlib.ChompFunc, "format": stdlib.FormatFunc, "formatdate": stdlib.FormatDateFunc,
		"formatlist": stdlib.FormatListFunc, "indent": stdlib.IndentFunc, "join": stdlib.JoinFunc,
		"lower": stdlib.LowerFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
		"regexreplace": stdlib.RegexReplaceFunc, "replace": stdlib.ReplaceFunc, "split": stdlib.SplitFunc,
		"strlen": stdlib.StrlenFunc, "strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc,
		"timeadd": stdlib.TimeAddFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc,
		"upper": stdlib.UpperFunc, "sha256": sha256Function(), "replace_once": replaceOnceFunction(),

		"chunklist": stdlib.ChunklistFunc, "coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc,
		"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
		"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
		"index": stdlib.IndexFunc, "keys": stdlib.KeysFunc, "length": stdlib.LengthFunc, "lookup": stdlib.LookupFunc,
		"merge": stdlib.MergeFunc, "range": stdlib.RangeFunc, "reverse": stdlib.ReverseListFunc,
		"setintersection": stdlib.SetIntersectionFunc, "setproduct": stdlib.SetProductFunc,
		"setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc,
		"sort": stdlib.SortFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

		"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": jsonDecodeFunction(), "jsonencode": stdlib.JSONEncodeFunc,
		"yamldecode": yaml.YAMLDecodeFunc,

		"can": tryfunc.CanFunc, "try": tryfunc.TryFunc, "convert": typeexpr.ConvertFunc,
		"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), "tonumber": stdlib.MakeToFunc(cty.Number),
		"toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),
	}
}

// textFunction is a function of strings that answers a string.
func textFunction(impl func(args []string) (string, error), params ...string) function.Function {
	spec := &function.Spec{Type: function.StaticReturnType(cty.String)}
	for _, p := range params {
		spec.Params = append(spec.Params, function.Parameter{Name: p, Type: cty.String})
	}
	spec.Impl = func(values []cty.Value, _ cty.Type) (cty.Value, error) {
		args := make([]string, len(values))
		for i, v := range values {
			args[i] = v.AsString()
		}
		out, err := impl(args)
		if err != nil {
			return cty.NilVal, err
		}
		return cty.StringVal(out), nil
	}
	return function.New(spec)
}

func sha256Function() function.Function {
	return textFunction(func(args []string) (string, error) { return digest([]byte(args[0])), nil }, "text")
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// replaceOnceFunction plants a change that must hit exactly one place: one that hits none or several would make another
// task than the definition says.
func replaceOnceFunction() function.Function {
	return textFunction(func(args []string) (string, error) {
		text, from, to := args[0], args[1], args[2]
		if from == "" {
			return "", errors.New("there is nothing to replace: the second argument is empty")
		}
		if n := strings.Count(text, from); n != 1 {
			return "", fmt.Errorf("%q occurs %s; it must occur exactly once", from, times(n))
		}
		return strings.Replace(text, from, to, 1), nil
	}, "text", "from", "to")
}

func times(n int) string {
	if n == 1 {
		return "1 time"
	}
	return fmt.Sprintf("%d times", n)
}

// jsonDecodeFunction is jsondecode with a limit on nesting: the decoder is recursive, and the text may be what a hostile
// command printed.
func jsonDecodeFunction() function.Function {
	inner := stdlib.JSONDecodeFunc
	check := func(args []cty.Value) error {
		v, _ := args[0].Unmark()
		if !v.IsKnown() || v.IsNull() {
			return nil
		}
		if _, deep := jsonTooDeep([]byte(v.AsString()), maxJSONDepth); deep {
			return fmt.Errorf("more than %d arrays and objects are open at once in this JSON", maxJSONDepth)
		}
		return nil
	}
	return function.New(&function.Spec{
		Params: inner.Params(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.NilType, err
			}
			return inner.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return inner.Call(args) },
	})
}

// envFunction is env(name) and env(name, default). What it reads becomes part of the plan.
func (l *loader) envFunction(allowed bool) function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String, AllowNull: true},
		Type: func([]cty.Value) (cty.Type, error) {
			if !allowed {
				return cty.NilType, errors.New("env() may stand only in the default of a variable, so that a plan records what it read")
			}
			return cty.String, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name := args[0].AsString()
			value, ok := l.opts.LookupEnv(name)
			if ok {
				l.inputs["env."+name] = fmt.Sprintf("%q", value)
				return cty.StringVal(value), nil
			}
			l.inputs["env."+name] = "null"
			if len(args) == 1 {
				return cty.NilVal, fmt.Errorf("%s is not set in the environment; set it, or give env() a second argument", name)
			}
			return args[1], nil
		},
	})
}
