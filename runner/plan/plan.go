// Package plan holds a frozen plan: every cell with all that was evaluated for it, in a form that is written to disk,
// compared byte for byte, and run again without the definition that it came from.
//
// Package definition makes plans out of HCL, package runner runs them. Nothing here reads files, knows HCL or depends
// on the clock or on chance: the same inputs give byte-identical plans.
package plan

import (
	"encoding/json"
	"time"

	"cellharness/shared"
)

// Schema is the version of the JSON form of a Plan. A reader refuses a greater one.
const Schema = 1

// Plan is a definition evaluated against the adapters that were negotiated.
type Plan struct {
	Schema     int         `json:"schema"`
	Name       string      `json:"name"`
	Sources    []Source    `json:"sources"`
	Inputs     []Input     `json:"inputs,omitempty"` // variables and what env() read
	Run        Settings    `json:"run"`
	Adapters   []Adapter   `json:"adapters"`
	Trials     []Trial     `json:"trials"`
	Cells      []Cell      `json:"cells"` // in the order of the definition, not of dispatch
	Thresholds []Threshold `json:"thresholds,omitempty"`
	Metrics    []Metric    `json:"metrics,omitempty"`
}

// Source is a file of the definition.
type Source struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Input is a value from outside the definition that the plan depends on. Sensitive values are not shown.
type Input struct {
	Name  string `json:"name"`  // such as "var.repo" or "env.BENCH_REPO"
	Value string `json:"value"` // as HCL
}

// Order is the order in which cells are started.
type Order string

// The orders of dispatch.
const (
	OrderInterleaved Order = "interleaved"
	OrderRandom      Order = "random"
	OrderSequential  Order = "sequential"
)

// Settings are those of the run block.
type Settings struct {
	Parallelism int           `json:"parallelism"`
	Order       Order         `json:"order"`
	Seed        int64         `json:"seed"`
	BudgetWall  time.Duration `json:"budget_wall_ns,omitempty"` // zero: none
	// BudgetFailures is the share of cells, 0 to 1, that may end without a measurement. Nil: no budget.
	BudgetFailures *float64 `json:"budget_failures,omitempty"`
}

// Adapter is an adapter instance as the plan saw it.
type Adapter struct {
	Instance      string          `json:"instance"` // label of the block; unique across kinds
	Kind          string          `json:"kind"`
	Profile       string          `json:"profile,omitempty"` // name of the credentials block
	Secrets       []SecretRef     `json:"secrets,omitempty"`
	Settings      json.RawMessage `json:"settings"` // what Configure is given
	Environment   []string        `json:"environment,omitempty"`
	Refs          []string        `json:"refs,omitempty"`
	MaxConcurrent int             `json:"max_concurrent,omitempty"` // 0: no bound of its own
	Keep          string          `json:"keep_workspaces,omitempty"`
	Version       string          `json:"version,omitempty"` // of the adapter; empty in an offline plan
	Digest        string          `json:"digest,omitempty"`  // SHA-256 of the adapter's binary
	Source        string          `json:"source,omitempty"`  // root or address of the repository, as the adapter found it
	Base          string          `json:"base,omitempty"`    // commit of the instance's own base
	Pins          []Pin           `json:"pins,omitempty"`
	Notices       []Notice        `json:"notices,omitempty"`
}

// Pin is a ref and the commit that it stood for.
type Pin struct {
	Ref     string   `json:"ref"`
	Commit  string   `json:"commit"`
	Notices []Notice `json:"notices,omitempty"`
}

// Notice is shared.Notice in JSON.
type Notice struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail,omitempty"`
	Count  int64  `json:"count,omitempty"`
}

// Notices converts the notices of an adapter.
func Notices(in []shared.Notice) []Notice {
	var out []Notice
	for _, n := range in {
		out = append(out, Notice{Kind: string(n.Kind), Detail: n.Detail, Count: n.Count})
	}
	return out
}

// SecretRef says where a secret is, never what it is.
type SecretRef struct {
	Name   string   `json:"name"`   // what it is for: "api_key", or the variable of a cell's env
	Source string   `json:"source"` // "env", "file" or "exec"
	Args   []string `json:"args"`   // name of the variable, path of the file, or argv
}

// Trial is what the summary needs to know of a trial.
type Trial struct {
	Name     string   `json:"name"`
	Variants []string `json:"variants"` // in the order of the definition, baseline first
	Baseline string   `json:"baseline,omitempty"`
	Axes     []string `json:"axes,omitempty"`
	Repeat   int      `json:"repeat"`
	Warmup   int      `json:"warmup,omitempty"`
}

// Cell is one combination of a trial, one repetition.
type Cell struct {
	Address string `json:"address"` // for people; unique in the plan
	Key     string `json:"key"`     // for machines: hash of everything that was evaluated, credentials excluded
	Trial   string `json:"trial"`
	Task    string `json:"task"` // such as issue["17"]
	Variant string `json:"variant"`
	Axes    []Axis `json:"axes,omitempty"`
	Repeat  int    `json:"repeat"`           // from 1
	Warmup  bool   `json:"warmup,omitempty"` // runs, and counts in nothing

	Adapter    string   `json:"adapter"` // the instance that takes it; empty where Refused is set
	Candidates []string `json:"candidates"`
	Refused    string   `json:"refused,omitempty"` // why no candidate can take it
	Ref        string   `json:"ref,omitempty"`     // of the task; empty for the adapter's own base
	Base       string   `json:"base,omitempty"`    // the commit it was pinned to

	Labels    map[string]string `json:"labels,omitempty"`
	Seeds     []Seed            `json:"seeds,omitempty"` // of task, variant and cell, merged
	SeedAs    string            `json:"seed_as"`
	Setup     *Step             `json:"setup,omitempty"`
	Cell      Step              `json:"cell"`
	Verify    *Verify           `json:"verify,omitempty"`
	Artifacts []string          `json:"artifacts,omitempty"` // patterns, without the diff
	Diff      bool              `json:"diff,omitempty"`
	Attempts  int               `json:"attempts"` // at the most, the first included
	Backoff   time.Duration     `json:"backoff_ns"`
}

// Axis is the value of one axis, as it stands in the address.
type Axis struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Step is a command that is run in the workspace.
type Step struct {
	Kind       string            `json:"kind"` // prompt_cell or exec_cell
	Entrypoint []string          `json:"entrypoint"`
	Stdin      *Blob             `json:"stdin,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	SecretEnv  []SecretRef       `json:"secret_env,omitempty"`
	Timeout    time.Duration     `json:"timeout_ns"`
	Limits     Limits            `json:"limits,omitzero"`
}

// Verify is the command that checks the outcome.
type Verify struct {
	Step
	Seeds []Seed `json:"seeds,omitempty"` // arrive after the cell has ended
	Fresh bool   `json:"fresh,omitempty"` // base and the cell's patch, in a workspace of its own
	Pass  Expr   `json:"pass,omitzero"`   // zero: exit_code == 0
}

// Limits are shared.Limits in JSON.
type Limits struct {
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	Processes   int64   `json:"processes,omitempty"`
	CPU         float64 `json:"cpu,omitempty"`
	DiskBytes   int64   `json:"disk_bytes,omitempty"`
	FileBytes   int64   `json:"file_bytes,omitempty"`
	OutputBytes int64   `json:"output_bytes,omitempty"`
	// WorkspaceOnly is isolation { filesystem = "workspace" }, NoNetwork isolation { network = "none" }.
	WorkspaceOnly bool   `json:"workspace_only,omitempty"`
	NoNetwork     bool   `json:"no_network,omitempty"`
	Require       string `json:"require,omitempty"` // enforced, best_effort or none
}

// Shared converts the limits for an adapter.
func (l Limits) Shared() shared.Limits {
	if l == (Limits{}) {
		return shared.Limits{}
	}
	require, ok := shared.ParseLevel(l.Require)
	if !ok {
		require = shared.LevelBestEffort // what definitions get that do not say it
	}
	return shared.Limits{
		MemoryBytes: l.MemoryBytes, Processes: l.Processes, CPU: l.CPU, DiskBytes: l.DiskBytes,
		FileBytes: l.FileBytes, OutputBytes: l.OutputBytes, WorkspaceOnly: l.WorkspaceOnly, NoNetwork: l.NoNetwork,
		Require: require,
	}
}

// Seed is a file for the workspace.
type Seed struct {
	Path string `json:"path"`
	Blob
}

// Blob is content by its digest. The bytes are in the Blobs that came with the plan.
type Blob struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Expr is an HCL expression that is evaluated late, with everything it mentions from the definition captured.
type Expr struct {
	Source string          `json:"source,omitempty"`
	Scope  json.RawMessage `json:"scope,omitempty"`
	File   string          `json:"file,omitempty"`
	Line   int             `json:"line,omitempty"`
}

// IsZero tells whether there is no expression.
func (e Expr) IsZero() bool { return e.Source == "" }

// Threshold is a condition on the results of a whole run.
type Threshold struct {
	Name      string            `json:"name"`
	Metric    string            `json:"metric"`
	Where     map[string]string `json:"where,omitempty"` // trial, task, variant, adapter, or an axis
	Condition Expr              `json:"condition"`
}

// Metric is a number that is computed from each cell's record.
type Metric struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"`
	Better string `json:"better,omitempty"` // lower, higher or empty
	Value  Expr   `json:"value"`
}

// Blobs holds contents by their SHA-256. Several cells share one.
type Blobs map[string][]byte
