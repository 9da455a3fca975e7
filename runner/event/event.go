// Package event holds what happens in a run, as values: what `--json` prints, what events.jsonl holds, and what the
// progress renderers read. The types only grow; a reader ignores what it does not know.
//
// The engine makes events, the command renders them; nothing here does I/O beyond writing a line to a given writer.
package event

import (
	"time"

	"cellharness/runner/record"
	"cellharness/shared"
)

// Event is one of the types of this package.
type Event interface{ header() *Header }

// Header starts every event. Stream.Emit fills it in.
type Header struct {
	Type string    `json:"type"`
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	Run  string    `json:"run,omitempty"`
}

func (h *Header) header() *Header { return h }

// Version is the first event of every stream.
type Version struct {
	Header
	Schema   int    `json:"schema"`
	Harness  string `json:"harness"`
	Build    string `json:"build,omitempty"`
	Go       string `json:"go"`
	Protocol int    `json:"protocol"`
}

// Diagnostic is an error or a warning in a definition.
type Diagnostic struct {
	Header
	Severity string `json:"severity"` // error or warning
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Snippet  string `json:"snippet,omitempty"`
	Address  string `json:"address,omitempty"`
}

// RunStarted tells where the records of the run are.
type RunStarted struct {
	Header
	Folder      string `json:"folder"`
	Name        string `json:"name"`
	Cells       int    `json:"cells"`
	Parallelism int    `json:"parallelism"`
	Order       string `json:"order"`
	Seed        int64  `json:"seed"`
}

// AdapterReady tells that an adapter process was negotiated and configured.
type AdapterReady struct {
	Header
	Instance     string              `json:"instance"`
	Kind         string              `json:"kind"`
	Profile      string              `json:"profile,omitempty"`
	Version      string              `json:"version"`
	Generation   int                 `json:"generation"`
	Digest       string              `json:"digest"`
	Milliseconds int64               `json:"milliseconds"`
	Capabilities shared.Capabilities `json:"capabilities"`
}

// AdapterCrashed tells that an adapter process ended or was ended.
type AdapterCrashed struct {
	Header
	Instance   string   `json:"instance"`
	Generation int      `json:"generation"`
	Exit       string   `json:"exit"` // such as "killed by signal KILL"
	LastLines  []string `json:"last_lines"`
	Cells      []string `json:"cells"` // that it held
}

// LeaseOpened tells that a workspace may exist from now on.
type LeaseOpened struct {
	Header
	Lease   string `json:"lease"`
	Cell    string `json:"cell"`
	Attempt int    `json:"attempt"`
}

// LeaseClosed tells that a workspace is gone or, where State is not clean, what became of it.
type LeaseClosed struct {
	Header
	Lease   string         `json:"lease"`
	Cleanup record.Cleanup `json:"cleanup"`
	Left    []record.Left  `json:"left,omitempty"`
}

// CellStarted tells that an attempt has begun.
type CellStarted struct {
	Header
	Cell    string `json:"cell"`
	Key     string `json:"key"`
	Attempt int    `json:"attempt"`
	Slot    int    `json:"slot"` // from 0, below the parallelism
	Adapter string `json:"adapter"`
}

// CellPhase tells that a phase of an attempt has begun.
type CellPhase struct {
	Header
	Cell    string       `json:"cell"`
	Attempt int          `json:"attempt"`
	Phase   shared.Phase `json:"phase"`
}

// CellSignal tells that a signal was sent to a command.
type CellSignal struct {
	Header
	Cell    string       `json:"cell"`
	Attempt int          `json:"attempt"`
	Phase   shared.Phase `json:"phase"`
	Signal  string       `json:"signal"`
}

// CellArtifact tells in which state an artifact was found.
type CellArtifact struct {
	Header
	Cell     string          `json:"cell"`
	Attempt  int             `json:"attempt"`
	Artifact record.Artifact `json:"artifact"`
}

// CellError tells of something that went wrong in an attempt.
type CellError struct {
	Header
	Cell    string       `json:"cell"`
	Attempt int          `json:"attempt"`
	Phase   shared.Phase `json:"phase"`
	Cause   shared.Cause `json:"cause,omitempty"`
	Message string       `json:"message"`
}

// CellRetried tells that another attempt follows.
type CellRetried struct {
	Header
	Cell    string       `json:"cell"`
	Attempt int          `json:"attempt"` // the one that follows
	Of      int          `json:"of"`
	Cause   shared.Cause `json:"cause"`
	Message string       `json:"message"`
	Wait    float64      `json:"wait"` // seconds
}

// CellFinished carries the record of an ended attempt, the last one of its cell.
type CellFinished struct {
	Header
	Result record.Result `json:"result"`
}

// Budget tells that a budget is used up: no cell is started any more.
type Budget struct {
	Header
	Budget string  `json:"budget"` // wall or failures
	Used   float64 `json:"used"`
	Limit  float64 `json:"limit"`
}

// Threshold tells whether a threshold is met.
type Threshold struct {
	Header
	Name   string `json:"name"`
	Met    bool   `json:"met"`
	Value  string `json:"value"`  // what the condition saw
	Wanted string `json:"wanted"` // the condition
	Error  string `json:"error,omitempty"`
}

// Interrupted tells that the user stopped the run.
type Interrupted struct {
	Header
	Signal   string   `json:"signal"`
	Draining []string `json:"draining"`
}

// RunFinished is the last event of every stream.
type RunFinished struct {
	Header
	ExitCode int            `json:"exit_code"`
	Counts   map[string]int `json:"counts"` // cells by status, and passed, failed
	Folder   string         `json:"folder,omitempty"`
	Resume   string         `json:"resume,omitempty"` // the command that finishes what is missing
}

// Plan tells what a run would do.
type Plan struct {
	Header
	Cells    int               `json:"cells"`
	Refused  int               `json:"refused"`
	Bases    map[string]string `json:"bases"` // pinned commit of each adapter instance
	Verdicts []Verdict         `json:"verdicts"`
}

// Verdict tells which adapter takes a cell, or why none can.
type Verdict struct {
	Cell    string `json:"cell"`
	Key     string `json:"key"`
	Adapter string `json:"adapter"`
	Refused string `json:"refused,omitempty"`
}
