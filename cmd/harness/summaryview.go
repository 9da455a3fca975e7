package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"cellharness/runner"
	"cellharness/runner/record"
	"cellharness/runner/summary"
)

// renderSummary prints what a run came to: a row for each variant on each adapter, the thresholds, what was not
// measured and what is left behind. open are leases of which no attempt has told yet what became of them.
func renderSummary(w io.Writer, s summary.Summary, thresholds []runner.ThresholdResult, open []record.Lease, folder string) {
	w = printable{w}
	renderGroups(w, s.Groups)
	renderThresholds(w, thresholds)
	for _, u := range s.Unmeasured {
		reason := string(u.Status)
		if u.Cause != "" {
			reason += " " + string(u.Cause)
		}
		example := u.Cells[0]
		if u.Message != "" {
			example += ": " + firstLine(u.Message)
		}
		fmt.Fprintf(w, " not measured: %d (%s), such as %s\n", len(u.Cells), reason, example)
	}
	renderLeaked(w, s.Leaked, open)
	fmt.Fprintf(w, " records: %s\n", folder)
}

func renderGroups(w io.Writer, groups []summary.Group) {
	t := table.NewWriter()
	t.SetStyle(table.StyleDefault)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.SuppressTrailingSpaces()
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"trial", "variant", "adapter", "passed", "rate, 95 %", "wall, median", "coverage"})
	for _, g := range groups {
		adapter := g.Adapter
		if g.Profile != "" {
			adapter += " (" + g.Profile + ")"
		}
		t.AppendRow(table.Row{
			g.Trial, g.Variant, adapter, fmt.Sprintf("%d/%d", g.Passed, g.Passed+g.Failed), rate(g), wall(g.Wall),
			fmt.Sprintf("%d of %d", g.Passed+g.Failed, g.Planned),
		})
	}
	fmt.Fprintln(w, t.Render())
}

// rate is the rate with its interval, or why there is none.
func rate(g summary.Group) string {
	if g.Rate == nil {
		return fmt.Sprintf("coverage %.2f: no rate", g.Coverage)
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", g.Rate.Value, g.Rate.Low, g.Rate.High)
}

// wall is the median time with its interval, which takes six values to have.
func wall(t *summary.Times) string {
	if t == nil {
		return "n/a"
	}
	if t.Low == nil || t.High == nil {
		return seconds(t.Median)
	}
	return fmt.Sprintf("%s [%s, %s]", seconds(t.Median), seconds(*t.Low), seconds(*t.High))
}

func seconds(s summary.Seconds) string {
	if math.IsInf(s.Value, 1) {
		return "> timeout"
	}
	d := time.Duration(s.Value * float64(time.Second))
	switch {
	case d < time.Millisecond:
		d = d.Round(10 * time.Microsecond)
	case d < time.Second:
		d = d.Round(time.Millisecond)
	case d < time.Minute:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Second)
	}
	if s.AtLeast {
		return ">" + d.String()
	}
	return d.String()
}

func renderThresholds(w io.Writer, thresholds []runner.ThresholdResult) {
	if len(thresholds) == 0 {
		return
	}
	met := 0
	for _, t := range thresholds {
		if t.Met {
			met++
		}
	}
	fmt.Fprintf(w, " thresholds: %d met, %d missed\n", met, len(thresholds)-met)
	for _, t := range thresholds {
		switch {
		case t.Err != nil:
			fmt.Fprintf(w, "   missed %s: %v\n", t.Name, t.Err)
		case !t.Met:
			fmt.Fprintf(w, "   missed %s: wanted %s, saw %s\n", t.Name, t.Wanted, t.Value)
		}
	}
}

func renderLeaked(w io.Writer, leaked []summary.Leaked, open []record.Lease) {
	for _, l := range open {
		where := l.Lease
		if l.Handle != nil {
			where = record.Printable(l.Handle.Root)
		}
		fmt.Fprintf(w, " may be left behind by %s, attempt %d: workspace %s\n", l.Cell, l.Attempt, where)
	}
	if len(leaked)+len(open) == 0 {
		fmt.Fprintln(w, " left behind: nothing")
		return
	}
	for _, l := range leaked {
		for _, left := range l.Left {
			fmt.Fprintf(w, " left behind by %s, attempt %d (%s): %s %s %s\n", l.Cell, l.Attempt, l.Cleanup, left.Kind, left.Name, left.Detail)
		}
	}
}
