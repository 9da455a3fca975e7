package summary

import (
	"slices"

	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/stats"
	"cellharness/shared"
)

// MinCoverage is the share of planned cells below which no rate is given. Rates over the survivors of a run in which
// infrastructure failed have been published as results, up to 100 % from one cell.
const MinCoverage = 0.9

// Pending is the status of a planned cell that has no final record yet.
const Pending shared.Status = "pending"

// Summary is what a run came to.
type Summary struct {
	Groups     []Group      `json:"groups"` // in the order of the definition, the baseline of a trial first
	Unmeasured []Unmeasured `json:"unmeasured"`
	Leaked     []Leaked     `json:"leaked"`
}

// Group is the cells of one variant of a trial on one adapter: the smallest set that is one population.
type Group struct {
	Trial          string `json:"trial"`
	Variant        string `json:"variant"`
	Adapter        string `json:"adapter"` // instance; empty for cells that no adapter takes
	AdapterVersion string `json:"adapter_version"`
	Profile        string `json:"profile"`

	Planned  int                   `json:"planned"`
	Measured int                   `json:"measured"` // completed, timed out or limit exceeded
	Passed   int                   `json:"passed"`
	Failed   int                   `json:"failed"`
	Statuses map[shared.Status]int `json:"statuses"` // of all planned cells, those without a record as Pending
	Errors   map[shared.Cause]int  `json:"errors"`   // cells of status error by cause
	Retried  int                   `json:"retried"`  // cells whose last attempt was not their first

	Coverage float64 `json:"coverage"` // share of the planned cells that passed or failed
	Rate     *Rate   `json:"rate"`     // nil where nothing is counted or Coverage is below MinCoverage
	Wall     *Times  `json:"wall"`     // of the measured command; nil where nothing was measured
}

// Rate is the share of counted cells that passed, with its Wilson interval of 95 %.
type Rate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// WorstCase and BestCase are the rates if all planned cells that are not counted had failed or passed.
	WorstCase float64 `json:"worst_case"`
	BestCase  float64 `json:"best_case"`
}

// Times sums up how long commands took.
type Times struct {
	N      int      `json:"n"`
	Median Seconds  `json:"median"`
	Low    *Seconds `json:"low"` // distribution-free interval of the median, at least 95 %; nil below 6 values
	High   *Seconds `json:"high"`
}

// Seconds is a time. AtLeast says that it belongs to a command that was ended at its timeout: the true value is greater
// than every other one.
type Seconds struct {
	Value   float64 `json:"value"`
	AtLeast bool    `json:"at_least,omitempty"`
}

// Leaked is an attempt that left something behind, or may have.
type Leaked struct {
	Cell    string         `json:"cell"`
	Attempt int            `json:"attempt"`
	Cleanup record.Cleanup `json:"cleanup"`
	Left    []record.Left  `json:"left"`
}

// outcome is a planned cell and what became of it.
type outcome struct {
	cell    *plan.Cell
	result  record.Result // zero where there is no final record
	status  shared.Status
	adapter string
	version string
	profile string
}

// outcomes pairs the planned cells, warmups left out, with their last results. Results of cells that are not in the
// plan are left out. A result that announces another attempt is no final record.
func outcomes(p *plan.Plan, results []record.Result) []outcome {
	last := make(map[string]*record.Result, len(results))
	for i := range results {
		last[results[i].Key] = &results[i]
	}
	adapters := make(map[string]plan.Adapter, len(p.Adapters))
	for _, a := range p.Adapters {
		adapters[a.Instance] = a
	}
	out := make([]outcome, 0, len(p.Cells))
	for i := range p.Cells {
		cell := &p.Cells[i]
		if cell.Warmup {
			continue
		}
		a := adapters[cell.Adapter]
		o := outcome{cell: cell, status: Pending, adapter: cell.Adapter, version: a.Version, profile: a.Profile}
		if r := last[cell.Key]; r != nil && r.Last {
			o.result, o.status = *r, r.Status
			if r.Adapter != "" {
				o.adapter, o.version, o.profile = r.Adapter, r.AdapterVersion, r.Profile
			}
		}
		out = append(out, o)
	}
	return out
}

// Summarize sums up the results of a plan. results are in the order in which they were recorded.
func Summarize(p *plan.Plan, results []record.Result) Summary {
	type population struct{ trial, variant, adapter, version, profile string }
	members := map[population][]outcome{}
	var order []population
	all := outcomes(p, results)
	for _, o := range all {
		key := population{o.cell.Trial, o.cell.Variant, o.adapter, o.version, o.profile}
		if members[key] == nil {
			order = append(order, key)
		}
		members[key] = append(members[key], o)
	}
	rank := ranks(p)
	slices.SortStableFunc(order, func(a, b population) int {
		return rank[[2]string{a.trial, a.variant}] - rank[[2]string{b.trial, b.variant}]
	})
	s := Summary{Groups: []Group{}, Unmeasured: unmeasured(all), Leaked: leaked(results)}
	for _, key := range order {
		g := Group{
			Trial: key.trial, Variant: key.variant, Adapter: key.adapter, AdapterVersion: key.version, Profile: key.profile,
		}
		g.fill(members[key])
		s.Groups = append(s.Groups, g)
	}
	return s
}

// ranks numbers the variants of the trials in the order in which they are shown.
func ranks(p *plan.Plan) map[[2]string]int {
	rank := map[[2]string]int{}
	for _, t := range p.Trials {
		for _, v := range t.Variants {
			rank[[2]string{t.Name, v}] = len(rank)
		}
	}
	return rank
}

func (g *Group) fill(cells []outcome) {
	g.Planned = len(cells)
	g.Statuses, g.Errors = map[shared.Status]int{}, map[shared.Cause]int{}
	var walls []sample
	for _, o := range cells {
		g.Statuses[o.status]++
		if o.result.Attempt > 1 {
			g.Retried++
		}
		if o.status == shared.StatusError {
			g.Errors[o.result.Cause]++
		}
		if !o.status.Counts() {
			continue
		}
		g.Measured++
		if passed := o.result.Passed; passed != nil && *passed {
			g.Passed++
		} else if passed != nil {
			g.Failed++
		}
		if s, ok := measure("wall", o.result); ok {
			walls = append(walls, s)
		}
	}
	g.rate()
	g.Wall = times(walls)
}

// rate gives the rate, where there is enough to give one.
func (g *Group) rate() {
	counted := g.Passed + g.Failed
	g.Coverage = float64(counted) / float64(g.Planned)
	if counted == 0 || g.Coverage < MinCoverage {
		return
	}
	low, high := stats.Wilson(g.Passed, counted, stats.Z95)
	planned := float64(g.Planned)
	g.Rate = &Rate{
		Value: float64(g.Passed) / float64(counted), Low: low, High: high,
		WorstCase: float64(g.Passed) / planned, BestCase: float64(g.Planned-g.Failed) / planned,
	}
}

func times(samples []sample) *Times {
	if len(samples) == 0 {
		return nil
	}
	sortSamples(samples)
	n := len(samples)
	at := func(rank int) Seconds {
		s := samples[rank-1]
		return Seconds{Value: s.value, AtLeast: s.censored}
	}
	t := &Times{N: n, Median: Seconds{Value: stats.Median(values(samples)), AtLeast: samples[n/2].censored}}
	if l, h, ok := stats.MedianRanks(n, 0.95); ok {
		low, high := at(l), at(h)
		t.Low, t.High = &low, &high
	}
	return t
}

func leaked(results []record.Result) []Leaked {
	out := []Leaked{}
	for _, r := range results {
		if r.Cleanup == record.CleanupLeaked || r.Cleanup == record.CleanupUnknown {
			out = append(out, Leaked{Cell: r.Cell, Attempt: r.Attempt, Cleanup: r.Cleanup, Left: r.Left})
		}
	}
	return out
}

// Counts returns how many cells ended in each status, those without a record as pending, and how many passed and
// failed. Every name is there, also where it counts none.
func (s Summary) Counts() map[string]int {
	counts := map[string]int{"passed": 0, "failed": 0}
	for _, status := range []shared.Status{
		shared.StatusCompleted, shared.StatusTimedOut, shared.StatusLimitExceeded, shared.StatusError,
		shared.StatusRefused, shared.StatusCancelled, shared.StatusNotRun, Pending,
	} {
		counts[string(status)] = 0
	}
	for _, g := range s.Groups {
		counts["passed"] += g.Passed
		counts["failed"] += g.Failed
		for status, n := range g.Statuses {
			counts[string(status)] += n
		}
	}
	return counts
}
