package shared

import (
	"io"
	"time"
)

// Labels mark a workspace as ours, and for which attempt it was made. They are written into or onto the workspace.
type Labels struct {
	Owner    string // installation that made it
	Run      string // ULID of the run
	Instance string // name of the adapter block
	Cell     string // key of the cell
	Attempt  int64  // from 1
}

// Match tells whether l carries every non-zero field of want.
func (l Labels) Match(want Labels) bool {
	return (want.Owner == "" || want.Owner == l.Owner) &&
		(want.Run == "" || want.Run == l.Run) &&
		(want.Instance == "" || want.Instance == l.Instance) &&
		(want.Cell == "" || want.Cell == l.Cell) &&
		(want.Attempt == 0 || want.Attempt == l.Attempt)
}

// Content is a run of bytes that is read when it is needed, so that a large seed is never held in memory.
type Content struct {
	Size   int64
	SHA256 string // lower case hex digest of the bytes
	// Open starts reading from the first byte. It may be called more than once.
	Open func() (io.ReadCloser, error)
}

// ProvisionSpec asks for one workspace.
type ProvisionSpec struct {
	Lease  string // ULID minted by the host; names the workspace
	Labels Labels
	Ref    string // as in Configuration.Refs; empty for the instance's own base
	Base   string // the commit that the ref was pinned to; empty where it could not be pinned
	Patch  *Content
	// Lifetime bounds how long the workspace may be needed: the sum of its phases' limits. A remote adapter derives
	// from it when the remote side may remove the workspace by itself.
	Lifetime time.Duration
}

// Provisioned is a workspace that exists.
type Provisioned struct {
	Handle  Handle
	BaseSHA string // commit the workspace was made from
	Notices []Notice
}

// Handle names a workspace. It holds all that a fresh process of the same adapter needs for Collect, Find and
// Teardown, and no secret.
type Handle struct {
	Adapter  string // registered name of the adapter that made it
	Instance string
	Version  uint32 // of State; an adapter refuses versions it cannot read with CodeUnsupported
	Lease    string
	Resource string // what the workspace is called where it lives: a directory name, a sandbox id
	Root     string // directory of the workspace where it lives; bytes
	Base     string // commit
	State    []byte // the adapter's own, opaque to the host
}

// Found is a workspace that Find saw.
type Found struct {
	Handle  Handle
	Labels  Labels
	Created time.Time
}

// TeardownReport says what Teardown found, one entry for each resource of the workspace.
type TeardownReport struct {
	Resources []ResourceReport
}

// Complete tells whether nothing of the workspace is left.
func (r TeardownReport) Complete() bool {
	for _, res := range r.Resources {
		if res.State != ResourceRemoved && res.State != ResourceAbsent {
			return false
		}
	}
	return true
}

// ResourceReport is the end of one resource.
type ResourceReport struct {
	Kind   string // such as "workspace", "git directory", "process", "sandbox"
	Name   string // path, id or pid; bytes
	State  ResourceState
	Detail string // why it is leaked
}

// ResourceState is what was seen of a resource after its removal was tried.
type ResourceState uint8

// The states of a resource after Teardown.
const (
	ResourceUnspecified ResourceState = iota
	ResourceRemoved
	ResourceAbsent // was gone already
	ResourceLeaked // is still there, or may be
)
