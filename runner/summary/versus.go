package summary

import (
	"maps"
	"math"

	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/stats"
)

// Versus is the difference of a metric to another variant. A figure that does not exist is nil: Low, High and P are
// there for the metric passed alone.
type Versus struct {
	Delta *float64 // of the rates, or of the medians
	Ratio *float64 // of the same
	Low   *float64 // interval of the difference, 95 %
	High  *float64
	P     *float64
	// Distinguishable says that the interval leaves out 0 and that there are cells enough on both sides to believe it.
	Distinguishable bool
}

// Against compares what where selects with the same cells of every other variant of the plan, by the variant's name.
func Against(p *plan.Plan, results []record.Result, metric string, where map[string]string) map[string]Versus {
	own := Statistic(p, results, metric, where)
	out := map[string]Versus{}
	for _, t := range p.Trials {
		for _, variant := range t.Variants {
			if variant == where["variant"] {
				continue
			}
			there := maps.Clone(where)
			if there == nil {
				there = map[string]string{}
			}
			there["variant"] = variant
			out[variant] = versus(metric, own, Statistic(p, results, metric, there))
		}
	}
	return out
}

func versus(metric string, own, other Stat) Versus {
	if metric != "passed" {
		return difference(own.Median, other.Median)
	}
	v := difference(own.Rate, other.Rate)
	if v.Delta == nil {
		return v
	}
	k1, k2 := passedOf(own), passedOf(other)
	_, low, high := stats.Newcombe(k1, own.N, k2, other.N, stats.Z95)
	v.Low, v.High, v.P = known(low), known(high), known(stats.NewcombeP(k1, own.N, k2, other.N))
	enough := own.N >= stats.MinDistinguishable && other.N >= stats.MinDistinguishable
	v.Distinguishable = enough && (low > 0 || high < 0)
	return v
}

func passedOf(s Stat) int { return int(math.Round(*s.Rate * float64(s.N))) }

func difference(a, b *float64) Versus {
	if a == nil || b == nil {
		return Versus{}
	}
	return Versus{Delta: known(*a - *b), Ratio: known(*a / *b)}
}
