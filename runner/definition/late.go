package definition

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"cellharness/runner/plan"
	"cellharness/runner/record"
)

// CommandResult is the outcome of a verify command, as pass sees it.
type CommandResult struct {
	ExitCode       *int64 // nil when a signal ended it
	Signal         string
	Status         string // a shared.Status
	Stdout, Stderr []byte
}

// MetricInput is what the value of a metric is computed from.
type MetricInput struct {
	Result         stdjson.RawMessage // the cell's record
	Stdout, Stderr []byte             // of the cell's command
}

// Stat sums up a metric over the cells that a threshold is about. A nil number is not available, such as a rate of no
// cells.
type Stat struct {
	N                                                         int
	Rate, Mean, Median, P90, P95, Min, Max, Stddev, Low, High *float64
}

// Versus is the difference to another variant, with its 95 % interval and the p value of the test.
type Versus struct {
	Delta, Ratio, Low, High, P *float64
	Distinguishable            bool
}

// Types of the names that are there after a run.
var (
	commandType = cty.Object(map[string]cty.Type{
		"exit_code": cty.Number, "signal": cty.String, "status": cty.String, "stdout": cty.String, "stderr": cty.String,
	})
	statType   = cty.Object(Stat{}.types())
	versusType = cty.Object(Versus{}.types())
)

func (Stat) types() map[string]cty.Type {
	types := map[string]cty.Type{"n": cty.Number}
	for name := range (Stat{}).numbers() {
		types[name] = cty.Number
	}
	return types
}

func (s Stat) numbers() map[string]*float64 {
	return map[string]*float64{
		"rate": s.Rate, "mean": s.Mean, "median": s.Median, "p90": s.P90, "p95": s.P95, "min": s.Min, "max": s.Max,
		"stddev": s.Stddev, "low": s.Low, "high": s.High,
	}
}

func (Versus) types() map[string]cty.Type {
	types := map[string]cty.Type{"distinguishable": cty.Bool}
	for name := range (Versus{}).numbers() {
		types[name] = cty.Number
	}
	return types
}

func (v Versus) numbers() map[string]*float64 {
	return map[string]*float64{"delta": v.Delta, "ratio": v.Ratio, "low": v.Low, "high": v.High, "p": v.P}
}

// recordType is the type of a cell's record, with the texts of its output in place of their sizes.
func recordType() cty.Type {
	fields := typeOf(reflect.TypeOf(record.Result{})).AttributeTypes()
	fields["stdout"], fields["stderr"] = cty.String, cty.String
	return cty.Object(fields)
}

// typeOf is the type that a Go type has in JSON. What varies from record to record stays open.
func typeOf(t reflect.Type) cty.Type {
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.String:
		return cty.String
	case reflect.Bool:
		return cty.Bool
	case reflect.Int, reflect.Int64, reflect.Float64:
		return cty.Number
	case reflect.Struct:
		fields := map[string]cty.Type{}
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
				fields[name] = typeOf(t.Field(i).Type)
			}
		}
		if len(fields) > 0 {
			return cty.Object(fields)
		}
	}
	return cty.DynamicPseudoType
}

// Pass evaluates verify.pass. Without an expression it is whether the command exited with 0.
func Pass(e plan.Expr, r CommandResult) (bool, error) {
	if e.IsZero() {
		return r.ExitCode != nil && *r.ExitCode == 0, nil
	}
	exit := cty.NullVal(cty.Number)
	if r.ExitCode != nil {
		exit = cty.NumberIntVal(*r.ExitCode)
	}
	v, err := evaluateLate(e, map[string]cty.Value{"result": cty.ObjectVal(map[string]cty.Value{
		"exit_code": exit, "signal": cty.StringVal(r.Signal), "status": cty.StringVal(r.Status),
		"stdout": cty.StringVal(string(r.Stdout)), "stderr": cty.StringVal(string(r.Stderr)),
	})})
	if err != nil {
		return false, err
	}
	return answer(e, v)
}

// MetricValue computes a metric from a cell's record, with all its digits. It is nil where the expression answers null:
// this cell has no such number.
func MetricValue(e plan.Expr, in MetricInput) (*stdjson.Number, error) {
	result, err := recordValue(in)
	if err != nil {
		return nil, err
	}
	v, err := evaluateLate(e, map[string]cty.Value{"result": result})
	if err != nil {
		return nil, err
	}
	if v.IsNull() {
		return nil, nil
	}
	n, err := toNumber(v)
	if err != nil {
		return nil, lateError(e, fmt.Errorf("the value of the metric %w", err))
	}
	if n.IsInf() {
		return nil, lateError(e, errors.New("the value of the metric is infinite"))
	}
	number := stdjson.Number(n.Text('g', -1))
	if n.IsInt() && n.MantExp(nil) < maxPlainBits {
		number = stdjson.Number(n.Text('f', 0))
	}
	return &number, nil
}

// maxPlainBits is the size up to which a whole number is written without an exponent.
const maxPlainBits = 256

// recordValue turns a record into a value; what it leaves out is null.
func recordValue(in MetricInput) (cty.Value, error) {
	typ, err := ctyjson.ImpliedType(in.Result)
	if err != nil {
		return cty.NilVal, fmt.Errorf("read record for a metric: %w", err)
	}
	v, err := ctyjson.Unmarshal(in.Result, typ)
	if err != nil {
		return cty.NilVal, fmt.Errorf("read record for a metric: %w", err)
	}
	fields, err := entries(v)
	if err != nil {
		return cty.NilVal, fmt.Errorf("read record for a metric: it %w", err)
	}
	for name := range recordType().AttributeTypes() {
		if _, ok := fields[name]; !ok {
			fields[name] = cty.NullVal(cty.DynamicPseudoType)
		}
	}
	fields["stdout"], fields["stderr"] = cty.StringVal(string(in.Stdout)), cty.StringVal(string(in.Stderr))
	return cty.ObjectVal(fields), nil
}

// Condition evaluates the condition of a threshold; vs holds the difference to each other variant by its name. A number
// that is not available and that the answer depends on is an error that names it.
func Condition(e plan.Expr, s Stat, vs map[string]Versus) (bool, error) {
	stat := available(s.numbers())
	stat["n"] = cty.NumberIntVal(int64(s.N))
	others := map[string]cty.Value{}
	for name, v := range vs {
		numbers := available(v.numbers())
		numbers["distinguishable"] = cty.BoolVal(v.Distinguishable)
		others[name] = cty.ObjectVal(numbers)
	}
	names := map[string]cty.Value{"stat": cty.ObjectVal(stat), "vs": cty.ObjectVal(others)}
	v, err := evaluateLate(e, names)
	if err != nil {
		return false, err
	}
	return answer(e, v)
}

// available leaves out what is nil, so that try() and a condition that does not look at it still work.
func available(numbers map[string]*float64) map[string]cty.Value {
	out := map[string]cty.Value{}
	for name, n := range numbers {
		if n != nil {
			out[name] = cty.NumberFloatVal(*n)
		}
	}
	return out
}

func answer(e plan.Expr, v cty.Value) (bool, error) {
	b, err := toBool(v)
	if err != nil {
		return false, lateError(e, fmt.Errorf("the answer %w", err))
	}
	return b, nil
}

func lateError(e plan.Expr, err error) error {
	return fmt.Errorf("%s line %d: %w", e.File, e.Line, err)
}

// evaluateLate evaluates a frozen expression with the names that are there now.
func evaluateLate(e plan.Expr, names map[string]cty.Value) (cty.Value, error) {
	expr, err := parseLate(e)
	if err != nil {
		return cty.NilVal, lateError(e, err)
	}
	scope := map[string]cty.Value{}
	if len(e.Scope) > 0 {
		captured, err := ctyjson.Unmarshal(e.Scope, cty.DynamicPseudoType)
		if err != nil {
			return cty.NilVal, lateError(e, fmt.Errorf("read captured values: %w", err))
		}
		if scope, err = entries(captured); err != nil {
			return cty.NilVal, lateError(e, fmt.Errorf("the captured scope %w", err))
		}
	}
	for n, v := range names {
		scope[n] = v
	}
	functions := newLoader(Options{}).functionTable(functionsOf{special: specialLate})
	v, diags := expr.Value(&hcl.EvalContext{Variables: scope, Functions: functions})
	if diags.HasErrors() {
		if missing := unavailable(expr, names); missing != "" {
			return cty.NilVal, lateError(e, fmt.Errorf("%s is not available", missing))
		}
		return cty.NilVal, lateError(e, fmt.Errorf("%s: %s", diags[0].Summary, diags[0].Detail))
	}
	return v, nil
}

// unavailable names the first reference to a statistic that has no value.
func unavailable(expr hcl.Expression, names map[string]cty.Value) string {
	for _, t := range expr.Variables() {
		v, ok := names[t.RootName()]
		if !ok || t.RootName() == "result" {
			continue
		}
		for _, step := range t[1:] {
			name, ok := stepName(step)
			if !ok || !v.Type().IsObjectType() {
				break
			}
			if !v.Type().HasAttribute(name) {
				return traversalText(t)
			}
			v = v.GetAttr(name)
		}
	}
	return ""
}

func parseLate(e plan.Expr) (hcl.Expression, error) {
	src := []byte(e.Source)
	var expr hcl.Expression
	var diags hcl.Diagnostics
	if isJSON(e.File) {
		if d := checkJSONNesting(e.File, src); d != nil {
			return nil, fmt.Errorf("%s", d.Detail)
		}
		expr, diags = json.ParseExpression(src, e.File)
	} else {
		if d := checkNesting(e.File, src); d != nil {
			return nil, fmt.Errorf("%s", d.Detail)
		}
		// A heredoc ends with the line break behind its closing word, which is not part of the expression.
		expr, diags = hclsyntax.ParseExpression(append(src, '\n'), e.File, hcl.Pos{Line: max(1, e.Line), Column: 1})
	}
	if diags.HasErrors() {
		return nil, fmt.Errorf("the expression cannot be read: %s: %s", diags[0].Summary, diags[0].Detail)
	}
	return expr, nil
}
