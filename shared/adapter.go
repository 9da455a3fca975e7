package shared

import (
	"context"
	"time"
)

// Version is the version of the harness and of the two adapters built with it.
const Version = "0.1.0"

// Adapter gives cells their workspaces. It is implemented by the two adapters, by the wire client that speaks to an
// adapter process, and by the fake that tests use; all of them pass the conformance suite in adaptertest.
//
// Every method may be called from many goroutines at once, for different handles. Calls for one handle are made one
// at a time, except Teardown, which may come at any time and ends what still runs. Errors are *Error values.
type Adapter interface {
	// Negotiate is the first call on a fresh adapter: the host says what it is, the adapter what it is and can, and
	// whether the two fit. It has no effect.
	Negotiate(ctx context.Context, host HostInfo) (Description, error)

	// Configure hands over settings and secrets, once, before the first workspace. It resolves every ref of
	// Configuration.Refs to a commit where the adapter can. Settings the adapter cannot accept are answered with an
	// *Error of CodeInvalid that carries one Violation for each field.
	Configure(ctx context.Context, cfg Configuration) (Configured, error)

	// Provision makes a workspace at the base commit. A Provision that fails leaves nothing behind, or says what it
	// left in the error's message. The caller has recorded spec.Lease before the call.
	Provision(ctx context.Context, spec ProvisionSpec) (Provisioned, error)

	// RunCell puts the seeds in place and runs one command in the workspace until no process of it is left. Output
	// and signals go to sink in order as they happen; the Result comes last. A command that fails, passes its timeout
	// or hits a limit is a Result. When ctx is cancelled the command is ended with its grace, and the error says so.
	// An error from sink stops the events, never the command.
	RunCell(ctx context.Context, h Handle, cell Cell, sink EventSink) (Result, error)

	// Collect reads the artifacts and the patch of a workspace in which nothing runs any more.
	Collect(ctx context.Context, h Handle, spec CollectSpec, sink ArtifactSink) (Collection, error)

	// Teardown ends what still runs in the workspace and removes it. It is idempotent: what is gone already counts as
	// done. What could not be removed is in the report, not in the error; the error means that nothing is known. A
	// handle that has nothing but adapter, instance, version and lease is enough: it ends a Provision of that lease which is still
	// under way, waits for it, and removes what there is.
	Teardown(ctx context.Context, h Handle) (TeardownReport, error)

	// Find lists the workspaces that exist and carry all non-zero fields of labels, whoever made them.
	Find(ctx context.Context, labels Labels) ([]Found, error)

	// Drain refuses new work from now on, lets what runs end within the given time, ends the rest, and reports.
	Drain(ctx context.Context, within time.Duration) (DrainReport, error)
}

// HostInfo is what the harness says of itself when it negotiates.
type HostInfo struct {
	Version string // of the harness, such as "0.1.0"
	Build   string // commit it was built from, empty where unknown
	// HandleVersions lists the versions of Handle.State that the host has on record and may hand back.
	HandleVersions []uint32
}

// Description is what an adapter says of itself when it negotiates.
type Description struct {
	Name          string // registered name, such as "local_worktree"
	Version       string
	Build         string   // commit it was built from, empty where unknown
	Services      []string // of ServiceAdapter, ServiceWorktree
	HandleVersion uint32   // version of the handles it makes
	Capabilities  Capabilities
	Fits          bool   // whether host and adapter can work together
	Reason        string // why not, where they do not fit
}

// The services that an adapter process may serve.
const (
	ServiceAdapter  = "adapter"
	ServiceWorktree = "worktree"
)

// Serves tells whether the adapter serves the named service. Only this list may be asked: dispensing a service that
// the other side lacks succeeds and fails at the first call.
func (d Description) Serves(service string) bool {
	for _, s := range d.Services {
		if s == service {
			return true
		}
	}
	return false
}

// Configuration is what one adapter instance is configured with.
type Configuration struct {
	Instance string // name of the adapter block
	Owner    string // mark of this installation; what carries another one is never touched
	Settings []byte // a JSON object that follows the kind's Schema, sizes in bytes and durations in nanoseconds
	Secrets  map[string]Secret
	// Environment holds the variables of SettingEnvironment that the harness itself has. They are the user's own, so
	// they are handed to cells and never logged.
	Environment map[string]string
	Refs        []string // refs of the tasks that may be placed here, beside the instance's own base
}

// Configured is what a configured adapter instance can do.
type Configured struct {
	Capabilities Capabilities
	// Source is where the commits come from, as the adapter found it: the root of a repository, or its address. Bytes.
	Source  string
	Pins    []Pin
	Notices []Notice
}

// Pin says which commit a ref of the configuration stands for.
type Pin struct {
	Ref     string   // as in Configuration.Refs; empty for the instance's own base
	Commit  string   // full commit id; empty where the adapter cannot know before a workspace is made
	Notices []Notice // what a reader should know, such as uncommitted files that are not in the commit
}

// DrainReport says how a drain ended.
type DrainReport struct {
	Ended  int64 // commands that had to be ended
	Leaked int64 // workspaces that may still exist
}
