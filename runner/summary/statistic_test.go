package summary

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/shared"
)

func ptr[T any](v T) *T { return &v }

func TestStatisticOfEveryMetric(t *testing.T) {
	t.Parallel()
	b := newBench()
	for i := range 8 {
		n := float64(i + 1)
		b.ended(b.cell("solve", "base", "here"), func(r *record.Result) {
			r.Phases = map[string]record.Phase{
				"provision": {Seconds: n}, "cell": {Seconds: 10 * n}, "teardown": {Seconds: 100 * n},
			}
			r.CPUSeconds, r.MaxRSS, r.Attempt = 1000*n, int64(10_000*n), i+1
			r.Diff = &record.Diff{Insertions: int64(i), Deletions: 1}
			r.Metrics = map[string]*json.Number{"cost": ptr(json.Number(fmt.Sprint(-n))), "rare": nil, "odd": ptr(json.Number("no number"))}
			if i%4 == 0 {
				failed(r)
			}
		})
	}
	// Cells that are not measured are in nothing.
	b.ended(b.cell("solve", "base", "here"), broken(shared.CauseSetup, "no"))
	b.ended(b.cell("solve", "base", "here"), status(shared.StatusNotRun))

	// Of 1 to 8: the interval of the median are ranks 1 and 8, the deviation is sqrt(6).
	oneToEight := func(scale float64) Stat {
		low, high := scale, 8*scale
		return Stat{
			N: 8, Mean: ptr(4.5 * scale), Median: ptr(4.5 * scale), P90: ptr(high), P95: ptr(high), Min: ptr(low), Max: ptr(high),
			Stddev: ptr(math.Sqrt(6) * scale), Low: ptr(low), High: ptr(high),
		}
	}
	tests := map[string]Stat{
		"passed":     {N: 8, Rate: ptr(0.75), Low: ptr(0.409275), High: ptr(0.928521)},
		"provision":  oneToEight(1),
		"wall":       oneToEight(10),
		"teardown":   oneToEight(100),
		"cpu":        oneToEight(1000),
		"max_rss":    oneToEight(10_000),
		"attempts":   oneToEight(1),
		"diff_lines": oneToEight(1),
		"cost": {
			N: 8, Mean: ptr(-4.5), Median: ptr(-4.5), P90: ptr(-1.0), P95: ptr(-1.0), Min: ptr(-8.0), Max: ptr(-1.0),
			Stddev: ptr(math.Sqrt(6)), Low: ptr(-8.0), High: ptr(-1.0),
		},
		"rare":    {},
		"odd":     {},
		"unknown": {},
	}
	for metric, want := range tests {
		t.Run(metric, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, Statistic(b.plan, b.results, metric, nil), closely); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStatisticOfTimeouts(t *testing.T) {
	t.Parallel()
	b := newBench()
	for i := range 7 {
		b.ended(b.cell("solve", "base", "here"), wall(float64(i+1)))
	}
	b.ended(b.cell("solve", "base", "here"), timedOut(0.5))
	inf := math.Inf(1)
	want := Stat{N: 8, Median: ptr(4.5), P90: &inf, P95: &inf, Min: ptr(1.0), Max: &inf, Low: ptr(1.0), High: &inf}
	if diff := cmp.Diff(want, Statistic(b.plan, b.results, "wall", nil)); diff != "" {
		t.Error(diff)
	}
}

func TestStatisticOfNothing(t *testing.T) {
	t.Parallel()
	for _, metric := range []string{"passed", "wall", "cost"} {
		if diff := cmp.Diff(Stat{}, Statistic(newBench().plan, nil, metric, nil)); diff != "" {
			t.Errorf("%s:\n%s", metric, diff)
		}
	}
	b := newBench()
	b.ended(b.cell("solve", "base", "here"), wall(3))
	one := Stat{N: 1, Mean: ptr(3.0), Median: ptr(3.0), P90: ptr(3.0), P95: ptr(3.0), Min: ptr(3.0), Max: ptr(3.0)}
	if diff := cmp.Diff(one, Statistic(b.plan, b.results, "wall", nil)); diff != "" {
		t.Errorf("of one:\n%s", diff)
	}
}

func TestWhereSelects(t *testing.T) {
	t.Parallel()
	b := newBench()
	for _, trial := range []string{"solve", "other"} {
		for _, variant := range []string{"base", "new"} {
			for _, effort := range []string{"low", "high"} {
				c := b.cell(trial, variant, "here")
				c.Task = `issue["17"]`
				if trial == "solve" {
					c.Axes = []plan.Axis{{Name: "effort", Value: effort}}
				}
				b.ended(c, nil)
			}
		}
	}
	b.ended(&b.plan.Cells[0], func(r *record.Result) { r.Adapter = "cloud" }) // it went elsewhere in the end
	tests := map[string]struct {
		where map[string]string
		n     int
	}{
		"all":                {nil, 8},
		"trial":              {map[string]string{"trial": "solve"}, 4},
		"trial and variant":  {map[string]string{"trial": "solve", "variant": "new"}, 2},
		"axis":               {map[string]string{"effort": "low"}, 2},
		"axis and variant":   {map[string]string{"effort": "low", "variant": "new"}, 1},
		"task":               {map[string]string{"task": `issue["17"]`}, 8},
		"adapter":            {map[string]string{"adapter": "here"}, 7},
		"adapter it went to": {map[string]string{"adapter": "cloud"}, 1},
		"none":               {map[string]string{"variant": "absent"}, 0},
		"unknown axis":       {map[string]string{"size": ""}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Statistic(b.plan, b.results, "passed", tt.where).N; got != tt.n {
				t.Errorf("%d cells, wanted %d", got, tt.n)
			}
		})
	}
}
