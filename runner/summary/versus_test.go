package summary

import (
	"fmt"
	"math"
	"testing"

	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/shared"
)

// half is a plan of two variants with n cells each, of which some passed.
func half(n int, passed map[string]int) (*plan.Plan, []record.Result) {
	p := &plan.Plan{Trials: []plan.Trial{{Name: "x", Variants: []string{"a", "b"}}}}
	var results []record.Result
	for _, variant := range []string{"a", "b"} {
		for i := range n {
			key := fmt.Sprint(variant, i)
			ok := i < passed[variant]
			p.Cells = append(p.Cells, plan.Cell{Trial: "x", Variant: variant, Key: key, Address: key})
			results = append(results, record.Result{
				Key: key, Last: true, Status: shared.StatusCompleted, Passed: &ok,
				Phases: map[string]record.Phase{"cell": {Seconds: float64(i + passed[variant])}},
			})
		}
	}
	return p, results
}

func TestAgainst_Passed(t *testing.T) {
	t.Parallel()
	p, results := half(25, map[string]int{"a": 18, "b": 10})
	v := Against(p, results, "passed", map[string]string{"variant": "a"})["b"]
	for name, c := range map[string]struct {
		got  *float64
		want float64
	}{
		"delta": {v.Delta, .32}, "ratio": {v.Ratio, 1.8}, "low": {v.Low, .0454}, "high": {v.High, .5353}, "p": {v.P, .02157},
	} {
		if c.got == nil || math.Abs(*c.got-c.want) > 1e-4 {
			t.Errorf("%s = %v, want %v", name, c.got, c.want)
		}
	}
	if !v.Distinguishable {
		t.Error("18 of 25 and 10 of 25 are told apart, their interval leaves out 0")
	}
}

func TestAgainst_TooFewCells(t *testing.T) {
	t.Parallel()
	p, results := half(2, map[string]int{"a": 2})
	v := Against(p, results, "passed", map[string]string{"variant": "a"})["b"]
	if v.Low == nil || *v.Low <= 0 || v.Distinguishable {
		t.Errorf("2 of 2 against 0 of 2: low %v, distinguishable %v; want an interval above 0 that is not believed", v.Low, v.Distinguishable)
	}
}

func TestAgainst_Times(t *testing.T) {
	t.Parallel()
	p, results := half(5, map[string]int{"a": 2, "b": 0})
	v := Against(p, results, "wall", map[string]string{"variant": "a"})["b"]
	if v.Delta == nil || *v.Delta != 2 || v.Ratio == nil || *v.Ratio != 2 || v.P != nil {
		t.Errorf("medians 4 and 2: %+v", v)
	}
	if none := Against(p, nil, "wall", map[string]string{"variant": "a"})["b"]; none.Delta != nil {
		t.Errorf("without results: delta %v", *none.Delta)
	}
}
