package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"cellharness/runner/event"
	"cellharness/runner/record"
	"cellharness/runner/summary"
	"cellharness/shared"
)

// heartbeat is how often a run that has nothing else to say tells that it lives. Half a minute is well below the
// silence after which continuous integration services give up on a job.
const heartbeat = 30 * time.Second

// progress chooses how progress is shown. The function it returns ends it.
func (a *app) progress(f *runFlags) (eventSink, func(), error) {
	how := f.progress
	if how == "auto" {
		if chosen, ok := a.lookup("HARNESS_PROGRESS"); ok && chosen != "" {
			how = chosen
		}
	}
	switch how {
	case "auto", "plain":
		p := &plain{w: printable{a.stderr}, clock: a.clock, start: a.clock(), running: map[string]time.Time{}, stop: make(chan struct{})}
		p.beats.Go(p.beat)
		return p.take, func() { close(p.stop); p.beats.Wait() }, nil
	case "json":
		f.json = true
		return nil, func() {}, nil
	case "quiet":
		q := &plain{w: printable{a.stderr}, quiet: true}
		return q.take, func() {}, nil
	}
	return nil, nil, fail(exitUsage, fmt.Errorf("--progress is %q; it can be auto, plain, json or quiet", how))
}

// plain shows progress as lines, for pipes and logs.
type plain struct {
	w     io.Writer
	clock func() time.Time
	start time.Time
	quiet bool // errors only
	stop  chan struct{}
	beats sync.WaitGroup

	// mu guards what follows.
	mu          sync.Mutex
	total, done int
	running     map[string]time.Time
}

// take renders one event.
func (p *plain) take(e event.Event, _ []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d, ok := e.(*event.Diagnostic); ok {
		fmt.Fprintf(p.w, "Error: %s\n  %s\n", d.Summary, d.Detail)
		return
	}
	if p.quiet {
		return
	}
	switch e := e.(type) {
	case *event.RunStarted:
		p.total = e.Cells
		p.line("run %s: %d cells, %d at once, %s order; records in %s", e.Run, e.Cells, e.Parallelism, e.Order, e.Folder)
	case *event.CellStarted:
		p.running[e.Cell] = p.clock()
	case *event.CellRetried:
		p.line("%d/%d retry %s  %s: %s; attempt %d of %d", p.done, p.total, e.Cell, e.Cause, e.Message, e.Attempt, e.Of)
	case *event.CellFinished:
		delete(p.running, e.Result.Cell)
		p.done++
		p.line("%d/%d %s", p.done, p.total, cellLine(e.Result))
	case *event.AdapterCrashed:
		p.line("adapter %s stopped: %s", e.Instance, e.Exit)
	case *event.Budget:
		p.line("the budget of %s is used up (%.4g of %.4g): no further cell is started", e.Budget, e.Used, e.Limit)
	case *event.Interrupted:
		p.line("interrupted: ending %d running cells with their grace; once more ends everything at once", len(p.running))
	case *event.LeaseClosed:
		for _, l := range e.Left {
			p.line("left behind: %s %s %s", l.Kind, l.Name, l.Detail)
		}
	}
}

// line prints one line with the time since the start.
func (p *plain) line(format string, args ...any) {
	fmt.Fprintf(p.w, "[%7s] %s\n", p.clock().Sub(p.start).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// beat tells from time to time that the run goes on.
func (p *plain) beat() {
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.longest()
		}
	}
}

func (p *plain) longest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.running) == 0 {
		return
	}
	var cell string
	for c, since := range p.running {
		if cell == "" || since.Before(p.running[cell]) || (since.Equal(p.running[cell]) && c < cell) {
			cell = c
		}
	}
	p.line("%d/%d running %d, longest %s %s", p.done, p.total, len(p.running), cell,
		p.clock().Sub(p.running[cell]).Round(time.Second))
}

// cellLine is one line about an ended cell: verdict, address, time, and what explains the verdict.
func cellLine(r record.Result) string {
	text := fmt.Sprintf("%-9s %s", verdict(r), r.Cell)
	if p, ok := r.Phases[string(shared.PhaseCell)]; ok {
		text += "  " + seconds(summary.Seconds{Value: p.Seconds})
	}
	if r.Diff != nil {
		text += fmt.Sprintf("  +%d -%d", r.Diff.Insertions, r.Diff.Deletions)
	}
	if why := explanation(r); why != "" {
		text += "  " + why
	}
	if r.Cleanup != record.CleanupClean {
		text += "  cleanup: " + string(r.Cleanup)
	}
	return text
}

// verdict is one word: pass or fail where there is a measurement, the status otherwise.
func verdict(r record.Result) string {
	switch {
	case r.Passed != nil && *r.Passed:
		return "pass"
	case r.Passed != nil:
		return "fail"
	}
	return string(r.Status)
}

func explanation(r record.Result) string {
	switch {
	case r.Message != "":
		return firstLine(r.Message)
	case r.Status == shared.StatusTimedOut:
		return "timed out"
	case r.Status == shared.StatusLimitExceeded:
		return "limit of " + string(r.Limit)
	case r.Passed != nil && !*r.Passed && r.Verify != nil && r.Verify.ExitCode != nil:
		return fmt.Sprintf("verify: exit %d", *r.Verify.ExitCode)
	case r.Signal != "":
		return "signal " + string(r.Signal)
	case r.Passed != nil && !*r.Passed && r.ExitCode != nil:
		return fmt.Sprintf("exit %d", *r.ExitCode)
	}
	return ""
}

func firstLine(s string) string {
	for i, c := range s {
		if c == '\n' {
			return s[:i] + " …"
		}
	}
	return s
}
