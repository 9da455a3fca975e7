package record

import (
	"encoding/json"
	"time"

	"cellharness/runner/plan"
	"cellharness/shared"
)

// Schema is the version of result.json. A reader refuses a greater one.
const Schema = 1

// Result is result.json: all that is known of one ended attempt.
type Result struct {
	Schema         int                     `json:"schema"`
	Run            string                  `json:"run"`
	Cell           string                  `json:"cell"` // address
	Key            string                  `json:"key"`
	Trial          string                  `json:"trial"`
	Task           string                  `json:"task"`
	Variant        string                  `json:"variant"`
	Axes           map[string]string       `json:"axes"`
	Repeat         int                     `json:"repeat"`
	Warmup         bool                    `json:"warmup,omitempty"`
	Labels         map[string]string       `json:"labels,omitempty"`
	Adapter        string                  `json:"adapter"` // instance; empty where no adapter took it
	AdapterVersion string                  `json:"adapter_version"`
	Generation     int                     `json:"generation,omitempty"` // of the adapter process, from 1
	Profile        string                  `json:"profile"`
	Attempt        int                     `json:"attempt"` // from 1; 0 for a cell that was never started
	Last           bool                    `json:"last"`    // whether no other attempt follows
	Status         shared.Status           `json:"status"`
	Cause          shared.Cause            `json:"cause"` // empty unless status is error
	Message        string                  `json:"message"`
	ExitCode       *int64                  `json:"exit_code"`
	Signal         Signal                  `json:"signal"`
	Limit          shared.Dimension        `json:"limit,omitempty"`
	CPUSeconds     float64                 `json:"cpu_seconds,omitempty"` // of the command; 0 where unknown
	MaxRSS         int64                   `json:"max_rss,omitempty"`     // bytes; 0 where unknown
	Passed         *bool                   `json:"passed"`
	BaseSHA        string                  `json:"base_sha"`
	Phases         map[string]Phase        `json:"phases"`
	Metrics        map[string]*json.Number `json:"metrics"` // null: this cell has no such number
	Artifacts      []Artifact              `json:"artifacts"`
	Diff           *Diff                   `json:"diff"`
	DiffFromBase   *Diff                   `json:"diff_from_base,omitempty"`
	Verify         *Command                `json:"verify,omitempty"`
	Stdout         *Stream                 `json:"stdout,omitempty"`
	Stderr         *Stream                 `json:"stderr,omitempty"`
	Cleanup        Cleanup                 `json:"cleanup"`
	Left           []Left                  `json:"left,omitempty"` // what is not gone, or may not be
	Integrity      []plan.Notice           `json:"integrity"`
	Environment    Environment             `json:"environment"`
}

// Phase is when a phase started and how long it took.
type Phase struct {
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"` // by the monotonic clock
}

// Signal is the name of the signal that ended a command, such as "KILL". The empty one, of a command that exited, is
// null in JSON.
type Signal string

// MarshalJSON writes null for the empty Signal.
func (s Signal) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

// Command is the outcome of a setup or verify command.
type Command struct {
	Status   shared.Status `json:"status"`
	ExitCode *int64        `json:"exit_code"`
	Signal   Signal        `json:"signal"`
	Seconds  float64       `json:"seconds"`
	Stdout   *Stream       `json:"stdout,omitempty"`
	Stderr   *Stream       `json:"stderr,omitempty"`
}

// Stream is a stored output stream.
type Stream struct {
	Bytes  int64  `json:"bytes"`  // produced
	Stored int64  `json:"stored"` // in the file
	SHA256 string `json:"sha256"`
}

// Artifact is a file that was asked for.
type Artifact struct {
	Path   string               `json:"path"` // as the command named it; bytes that are not UTF-8 are escaped as \xNN
	File   string               `json:"file,omitempty"`
	State  shared.ArtifactState `json:"state"`
	Bytes  int64                `json:"bytes"`
	SHA256 string               `json:"sha256"`
	Detail string               `json:"detail,omitempty"`
}

// Diff sums up diff.patch.
type Diff struct {
	Files      int64  `json:"files"`
	Insertions int64  `json:"insertions"`
	Deletions  int64  `json:"deletions"`
	Bytes      int64  `json:"bytes"`
	SHA256     string `json:"sha256"`
	From       string `json:"from"` // tree that the patch applies to
	Tree       string `json:"tree"` // tree that it gives
}

// Cleanup says what became of the workspace.
type Cleanup string

// The states of cleanup.
const (
	CleanupClean   Cleanup = "clean"
	CleanupKept    Cleanup = "kept" // asked for by keep_workspaces
	CleanupLeaked  Cleanup = "leaked"
	CleanupUnknown Cleanup = "unknown"
)

// Left is something of a workspace that still exists, or may.
type Left struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Detail string `json:"detail,omitempty"`
}

// Environment is what the command ran in, by name; values are not recorded.
type Environment struct {
	Variables []string `json:"variables"` // names of env, of secrets in env, and of env_passthrough
}
