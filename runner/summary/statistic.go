package summary

import (
	"cmp"
	"math"
	"slices"

	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/stats"
	"cellharness/shared"
)

// Stat is what a threshold may speak of. A figure that does not exist is nil. A time of a command that was ended at
// its timeout counts as longer than all others, so a quantile that falls on one is +Inf, and where there is one, Mean
// and Stddev do not exist.
type Stat struct {
	N      int      // cells that have the metric
	Rate   *float64 // metric passed alone
	Mean   *float64
	Median *float64
	P90    *float64
	P95    *float64
	Min    *float64
	Max    *float64
	Stddev *float64
	Low    *float64 // interval of 95 %: of the rate for passed, otherwise of the median
	High   *float64
}

// sample is a metric of one cell.
type sample struct {
	value    float64
	censored bool // the command was ended at its timeout: the true value is greater
}

// Statistic sums up a metric over the measured cells that where selects. metric is one of passed, wall, provision,
// teardown (seconds), cpu (seconds), max_rss (bytes), attempts, diff_lines, or the name of a metric of the plan. where
// maps trial, task, variant, adapter or the name of an axis to the one value that is taken.
func Statistic(p *plan.Plan, results []record.Result, metric string, where map[string]string) Stat {
	var samples []sample
	for _, o := range outcomes(p, results) {
		if !o.status.Counts() || !o.matches(where) {
			continue
		}
		if s, ok := measure(metric, o.result); ok {
			samples = append(samples, s)
		}
	}
	if metric == "passed" {
		return rateStat(samples)
	}
	return numberStat(samples)
}

// matches tells whether the cell has all the values of where. An axis that its trial does not have matches nothing.
func (o outcome) matches(where map[string]string) bool {
	for name, want := range where {
		if got, ok := o.coordinate(name); !ok || got != want {
			return false
		}
	}
	return true
}

func (o outcome) coordinate(name string) (string, bool) {
	switch name {
	case "trial":
		return o.cell.Trial, true
	case "task":
		return o.cell.Task, true
	case "variant":
		return o.cell.Variant, true
	case "adapter":
		return o.adapter, true
	}
	for _, axis := range o.cell.Axes {
		if axis.Name == name {
			return axis.Value, true
		}
	}
	return "", false
}

// measure returns the metric of a measured cell, and whether the cell has it.
func measure(metric string, r record.Result) (sample, bool) {
	switch metric {
	case "passed":
		if r.Passed == nil {
			return sample{}, false
		}
		if *r.Passed {
			return sample{value: 1}, true
		}
		return sample{}, true
	case "wall":
		phase, ok := r.Phases[string(shared.PhaseCell)]
		return sample{phase.Seconds, r.Status == shared.StatusTimedOut}, ok
	case string(shared.PhaseProvision), string(shared.PhaseTeardown):
		phase, ok := r.Phases[metric]
		return sample{value: phase.Seconds}, ok
	case "cpu":
		return sample{value: r.CPUSeconds}, r.CPUSeconds > 0
	case "max_rss":
		return sample{value: float64(r.MaxRSS)}, r.MaxRSS > 0
	case "attempts":
		return sample{value: float64(r.Attempt)}, true
	case "diff_lines":
		if r.Diff == nil {
			return sample{}, false
		}
		return sample{value: float64(r.Diff.Insertions + r.Diff.Deletions)}, true
	}
	number := r.Metrics[metric]
	if number == nil {
		return sample{}, false
	}
	value, err := number.Float64()
	return sample{value: value}, err == nil
}

// sortSamples sorts by value, what was ended at its timeout behind everything else.
func sortSamples(samples []sample) {
	slices.SortFunc(samples, func(a, b sample) int {
		if a.censored != b.censored {
			if a.censored {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.value, b.value)
	})
}

func values(samples []sample) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = s.value
	}
	return out
}

func rateStat(samples []sample) Stat {
	passed := 0
	for _, s := range samples {
		passed += int(s.value)
	}
	low, high := stats.Wilson(passed, len(samples), stats.Z95)
	return Stat{
		N: len(samples), Rate: known(float64(passed) / float64(len(samples))), Low: known(low), High: known(high),
	}
}

func numberStat(samples []sample) Stat {
	sortSamples(samples)
	sorted := values(samples)
	s := Stat{N: len(samples)}
	if !slices.ContainsFunc(samples, func(s sample) bool { return s.censored }) {
		s.Mean, s.Stddev = known(stats.Mean(sorted)), known(stats.Stddev(sorted))
	}
	for i := range samples {
		if samples[i].censored {
			sorted[i] = math.Inf(1)
		}
	}
	s.Median = known(stats.Median(sorted))
	s.P90, s.P95 = known(stats.Quantile(sorted, 0.9)), known(stats.Quantile(sorted, 0.95))
	s.Min, s.Max = known(stats.Quantile(sorted, 0)), known(stats.Quantile(sorted, 1))
	if low, high, ok := stats.MedianInterval(sorted, 0.95); ok {
		s.Low, s.High = known(low), known(high)
	}
	return s
}

// known returns a pointer to a figure, nil for one that does not exist.
func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}
