package runner_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/summary"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	fromStdout := func(_ record.Result, stdout string) (*json.Number, error) {
		v := json.Number(stdout)
		return &v, nil
	}
	for name, test := range map[string]struct {
		metric  func(record.Result, string) (*json.Number, error)
		words   []string
		want    *json.Number
		noticed bool
	}{
		"a number":             {fromStdout, []string{"fake:out", "1.5", "fake:exit", "1"}, new(json.Number("1.5")), false},
		"no such number":       {func(record.Result, string) (*json.Number, error) { return nil, nil }, nil, nil, false},
		"that fails":           {func(record.Result, string) (*json.Number, error) { return nil, errors.New("no such name") }, nil, nil, true},
		"that panics":          {func(record.Result, string) (*json.Number, error) { panic("oh") }, nil, nil, true},
		"that is infinite":     {func(record.Result, string) (*json.Number, error) { return new(json.Number("+Inf")), nil }, nil, nil, true},
		"that is not a number": {func(record.Result, string) (*json.Number, error) { return new(json.Number("NaN")), nil }, nil, nil, true},
		"sees what is measured": {func(r record.Result, _ string) (*json.Number, error) {
			return new(json.Number(fmt.Sprint(len(r.Phases)))), nil
		}, nil, new(json.Number("2")), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cell("a", test.words...))
			w.plan.Metrics = []plan.Metric{{Name: "m", Value: plan.Expr{Source: "result.stdout"}}}
			w.judge.metric = test.metric
			r := w.one()
			if !r.Status.Counts() {
				t.Errorf("status %s", r.Status)
			}
			got, there := w.recorded()[0].Metrics["m"]
			if !there || (got == nil) != (test.want == nil) || (got != nil && *got != *test.want) {
				t.Errorf("metric %v, recorded %t; want %v", got, there, test.want)
			}
			if noticed := len(r.Integrity) > 0; noticed != test.noticed {
				t.Errorf("integrity %v, want a notice: %t", r.Integrity, test.noticed)
			}
		})
	}
}

func TestMetrics_NoneForACellThatWasNotMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a"))
	w.plan.Metrics = []plan.Metric{{Name: "m", Value: plan.Expr{Source: "1"}}}
	w.judge.metric = func(record.Result, string) (*json.Number, error) { return new(json.Number("1")), nil }
	w.adapters.instances[here].faults = []string{"cell error:seed"}
	if r := w.one(); len(r.Metrics) != 0 {
		t.Errorf("metrics %v of a cell that is %s", r.Metrics, r.Status)
	}
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		faults    []string
		where     map[string]string
		condition func(summary.Stat) (bool, error)
		met, err  bool
	}{
		"met":                  {nil, nil, func(s summary.Stat) (bool, error) { return s.N == 2 && *s.Rate == 1, nil }, true, false},
		"not met":              {nil, nil, func(summary.Stat) (bool, error) { return false, nil }, false, false},
		"cannot be evaluated":  {nil, nil, func(summary.Stat) (bool, error) { return true, errors.New("no such name") }, false, true},
		"nothing was measured": {[]string{"cell error:seed"}, nil, func(summary.Stat) (bool, error) { return true, nil }, false, true},
		"nothing is selected":  {nil, map[string]string{"variant": "w"}, func(summary.Stat) (bool, error) { return true, nil }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, many(2)...)
			w.plan.Thresholds = []plan.Threshold{{Name: "good", Metric: "passed", Where: test.where, Condition: plan.Expr{Source: "stat.rate > 0.5"}}}
			w.judge.condition = test.condition
			w.adapters.instances[here].faults = test.faults
			report := w.run(t.Context())
			if len(report.Thresholds) != 1 {
				t.Fatalf("%d thresholds", len(report.Thresholds))
			}
			got := report.Thresholds[0]
			if got.Met != test.met || (got.Err != nil) != test.err || got.Value == "" || got.Wanted != "stat.rate > 0.5" {
				t.Errorf("%+v, want met %t, an error %t", got, test.met, test.err)
			}
			if told := eventsOf[*event.Threshold](w); len(told) != 1 || told[0].Met != test.met || (told[0].Error != "") != test.err {
				t.Errorf("events %+v", told)
			}
		})
	}
}
