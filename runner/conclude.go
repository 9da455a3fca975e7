package runner

import (
	"errors"
	"fmt"
	"strings"

	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/summary"
)

// thresholds evaluates the thresholds of the plan against the results.
func (e *engine) thresholds() []ThresholdResult {
	out := Thresholds(e.cfg.Plan, e.results, e.cfg.Judge)
	for _, t := range out {
		ev := &event.Threshold{Name: t.Name, Met: t.Met, Value: t.Value, Wanted: t.Wanted}
		if t.Err != nil {
			ev.Error = t.Err.Error()
		}
		e.cfg.Events.Emit(ev)
	}
	return out
}

// errNothingMeasured is why a threshold on no cell at all is not met.
var errNothingMeasured = errors.New("no measured cell is selected by it, so nothing is known")

// Thresholds evaluates the thresholds of a plan against recorded results. A threshold that cannot be evaluated, or that
// no measured cell speaks for, is not met.
func Thresholds(p *plan.Plan, results []record.Result, judge Judge) []ThresholdResult {
	var out []ThresholdResult
	for _, t := range p.Thresholds {
		stat := summary.Statistic(p, results, t.Metric, t.Where)
		r := ThresholdResult{Name: t.Name, Wanted: t.Condition.Source, Value: shown(stat)}
		if stat.N == 0 {
			r.Err = errNothingMeasured
		} else {
			r.Met, r.Err = judge.Condition(t.Condition, stat, summary.Against(p, results, t.Metric, t.Where))
		}
		if r.Err != nil {
			r.Met, r.Err = false, fmt.Errorf("threshold %s: %w", t.Name, r.Err)
		}
		out = append(out, r)
	}
	return out
}

// shown says what a condition saw, in the names that the condition uses.
func shown(s summary.Stat) string {
	parts := []string{fmt.Sprintf("n = %d", s.N)}
	for _, v := range []struct {
		name  string
		value *float64
	}{{"rate", s.Rate}, {"low", s.Low}, {"high", s.High}, {"median", s.Median}, {"p95", s.P95}} {
		if v.value != nil {
			parts = append(parts, fmt.Sprintf("%s = %.4g", v.name, *v.value))
		}
	}
	return strings.Join(parts, ", ")
}
