package main

import (
	"cellharness/runner"
	"cellharness/shared"
)

// The exit codes. A failing cell is data: it changes none of them.
const (
	exitOK          = 0
	exitInternal    = 1
	exitUsage       = 2
	exitDefinition  = 3
	exitAdapter     = 4 // an adapter is unavailable, or a capability was refused
	exitIncomplete  = 5 // a cell could not be measured, or a budget was used up
	exitThreshold   = 6
	exitNothing     = 7 // nothing was selected
	exitInterrupted = 130
	exitTerminated  = 143
)

// exitError ends the command with a code. Its error, where there is one, is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func fail(code int, err error) error { return &exitError{code, err} }

// exitOf is the exit code of a run that came to its end. Where several apply: interrupted, adapter, incomplete,
// threshold.
func exitOf(report runner.Report, signal int) int {
	if report.Interrupted {
		return signal
	}
	incomplete, refused := report.Budget != "", false
	for _, r := range report.Results {
		if !r.Last {
			continue
		}
		switch r.Status {
		case shared.StatusError, shared.StatusCancelled, shared.StatusNotRun:
			incomplete = true
		case shared.StatusRefused:
			refused = true
		}
	}
	switch {
	case refused:
		return exitAdapter
	case incomplete:
		return exitIncomplete
	}
	for _, t := range report.Thresholds {
		if !t.Met {
			return exitThreshold
		}
	}
	return exitOK
}
