package definition

import (
	"github.com/zclconf/go-cty/cty"

	"cellharness/runner/plan"
	"cellharness/shared"
)

// Options are what the command line and the environment add to a definition. Zero values leave the definition as it is.
type Options struct {
	Vars     map[string]string // --var: values of variables; HCL where the variable's type is not primitive
	VarFiles []string          // --var-file: files of values, .json or HCL; later ones win, Vars win over all
	// LookupEnv reads the environment for env() and for HARNESS_CREDENTIALS_instance. Nil: nothing is set.
	LookupEnv func(string) (string, bool)
	Only      []string // globs over addresses; a cell has to match one. Empty: all
	Skip      []string // globs over addresses; a cell that matches one is left out

	Repeat         int               // 0: as in the definition
	Parallelism    int               // 0: as in the definition
	Order          string            // empty: as in the definition
	Seed           *int64            // nil: as in the definition
	Profiles       map[string]string // credentials profile by adapter instance
	KeepWorkspaces string            // empty: as in the definition
	Kinds          []shared.Kind     // nil: shared.Kinds()
}

// Definition is a definition without errors, expanded into cells that have no adapter yet.
type Definition struct {
	loader     *loader
	name       string
	run        plan.Settings
	trials     []*trial
	metrics    []plan.Metric
	thresholds []plan.Threshold
}

// Instance is an adapter block that cells of the plan may be placed on.
type Instance struct {
	Name        string // label of the block, unique across kinds
	Address     string // such as "local_worktree.here"
	Kind        string
	Settings    []byte // JSON object for shared.Configuration.Settings, strings of the credentials block included
	Profile     string // name of the credentials block; empty where there is none
	Secrets     []plan.SecretRef
	Environment []string // names of the variables that cells get from the harness
	Refs        []string // distinct refs of the tasks that may be placed here
	// MaxConcurrent is the most workspaces at once; 0: no bound of its own.
	MaxConcurrent int
	Keep          string // shared.KeepNever, KeepOnFailure or KeepAlways
}

// Fact is what was learned of an adapter instance by launching it.
type Fact struct {
	Capabilities shared.Capabilities
	Unavailable  string // why it could not be launched or configured; empty where it could
	Version      string
	Digest       string // SHA-256 of the adapter's binary
	Pins         []shared.Pin
	Source       string // where the commits come from, as the adapter found it
	Notices      []shared.Notice
}

// Load reads, checks and expands the definition in paths: files, and directories of *.hcl and *.hcl.json, merged. It
// reports all errors at once, sorted by place; the Definition is nil when there are some. Warnings come with a
// Definition.
func Load(paths []string, opts Options) (*Definition, Diagnostics) {
	l := newLoader(opts)
	l.readSources(paths)
	blocks := l.topLevel()
	l.globals["path"] = cty.ObjectVal(map[string]cty.Value{"root": cty.StringVal(l.root)})
	l.loadVariables(blocks["variable"])
	l.loadLocals(blocks["locals"])
	l.loadCredentials(blocks["credentials"])
	l.loadAdapters(blocks["adapter"])
	l.loadTasks(blocks["task"])
	l.loadVariants(blocks["variant"])
	d := &Definition{loader: l}
	l.loadHarness(blocks["harness"])
	d.name, d.run = l.loadRun(blocks["run"])
	metrics := l.declareMetrics(blocks["metric"])
	d.trials = l.loadTrials(blocks["trial"])
	d.metrics = l.loadMetrics(metrics)
	d.thresholds = l.loadThresholds(blocks["threshold"], d.trials)
	l.expand(d.trials)
	diags := l.report()
	if diags.HasErrors() {
		return nil, diags
	}
	return d, diags
}
