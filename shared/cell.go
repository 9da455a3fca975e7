package shared

import "time"

// CellKind says where a cell's model calls come from.
type CellKind uint8

// The kinds of cell. A prompt cell calls a model provider with the host's own sign-in, so it runs only where the
// adapter hosts prompt cells on the host, and takes no environment. An exec cell runs a command anywhere.
const (
	CellUnspecified CellKind = iota
	PromptCell
	ExecCell
)

// Phase is a part of an attempt.
type Phase string

// The phases of an attempt, in their order.
const (
	PhaseProvision Phase = "provision"
	PhaseSetup     Phase = "setup"
	PhaseCell      Phase = "cell"
	PhaseCollect   Phase = "collect"
	PhaseVerify    Phase = "verify"
	PhaseTeardown  Phase = "teardown"
)

// SeedAs says in which state git in the workspace sees the seeds.
type SeedAs uint8

// The ways to seed.
const (
	SeedAsUnspecified SeedAs = iota
	SeedUncommitted          // as edits of the working tree
	SeedCommit               // as a commit on top of the base
)

// Seed is a file to put into the workspace before the command starts.
type Seed struct {
	Path    Path
	Content Content
}

// Cell is one command to run in a workspace: the measured one, or the setup or verify command around it.
type Cell struct {
	Address string // of the cell, for messages
	Phase   Phase  // PhaseSetup, PhaseCell or PhaseVerify
	Kind    CellKind
	// Argv is the command and its arguments, as bytes. Argv[0] is looked up in the PATH that the command itself gets.
	Argv      []string
	Env       map[string]string // over the adapter's own environment
	SecretEnv map[string]Secret // delivered with the command, never recorded
	Stdin     *Content          // nil: the command reads end of file at once
	Seeds     []Seed            // checked all before the first is written
	SeedAs    SeedAs
	Timeout   time.Duration // positive
	// Grace is the time between SIGTERM and SIGKILL when the command passes its timeout.
	Grace  time.Duration
	Limits Limits
}

// Limits are what a command may use, all its processes together. Zero means no limit was asked for.
type Limits struct {
	MemoryBytes int64
	Processes   int64
	CPU         float64 // cores
	DiskBytes   int64
	FileBytes   int64 // each file that it writes
	OutputBytes int64 // stdout and stderr, each
	// WorkspaceOnly asks that nothing outside of the workspace and a temporary directory can be changed.
	WorkspaceOnly bool
	// NoNetwork asks that nothing can be reached over a network.
	NoNetwork bool
	// Require is the least level at which every limit that is set has to be met. LevelNone asks for the limits as a
	// wish only.
	Require Level
}

// Result is how a command ended. An end that is unknown is an error, never a Result.
type Result struct {
	Status   Status // StatusCompleted, StatusTimedOut or StatusLimitExceeded
	ExitCode *int64 // nil when a signal ended it
	Signal   string // such as "KILL"; empty when it exited
	Limit    Dimension
	Started  time.Time
	Wall     time.Duration // monotonic, from a successful exec to the end of the command itself
	CPU      time.Duration // user and system time of the command and the children it waited for
	MaxRSS   int64         // bytes, of the largest process; 0 where unknown
	Stdout   Stream
	Stderr   Stream
	Notices  []Notice
}

// Stream counts one output stream.
type Stream struct {
	Bytes  int64  // produced
	Stored int64  // kept; less than Bytes only after an output limit
	SHA256 string // of the stored bytes
}

// Status is how an attempt ended, apart from whether it passed.
type Status string

// The statuses. An adapter answers the first three; the others are the host's.
const (
	StatusCompleted     Status = "completed"
	StatusTimedOut      Status = "timed_out"
	StatusLimitExceeded Status = "limit_exceeded"
	StatusError         Status = "error"
	StatusRefused       Status = "refused"
	StatusCancelled     Status = "cancelled"
	StatusNotRun        Status = "not_run"
)

// Counts tells whether a cell of this status counts in rates: whether there is a measurement.
func (s Status) Counts() bool {
	return s == StatusCompleted || s == StatusTimedOut || s == StatusLimitExceeded
}

// Notice is something the adapter noticed that a reader of the result should know. It changes no status.
type Notice struct {
	Kind   NoticeKind
	Detail string
	Count  int64
}

// NoticeKind is the machine-readable kind of a Notice.
type NoticeKind string

// The kinds of notice.
const (
	NoticeSurvivorsKilled   NoticeKind = "survivors_killed"   // processes that outlived their command
	NoticeOutputHeld        NoticeKind = "output_held"        // a survivor held stdout or stderr open
	NoticeOutputTruncated   NoticeKind = "output_truncated"   // storage stopped at the output limit
	NoticeNestedRepository  NoticeKind = "nested_repository"  // a repository inside the workspace
	NoticeUnreadable        NoticeKind = "unreadable"         // entries that could not be read into the patch
	NoticeArtifactRefused   NoticeKind = "artifact_refused"   // an artifact that may not be read
	NoticeDirtySource       NoticeKind = "dirty_source"       // uncommitted changes that are not in the base
	NoticeBaseDrift         NoticeKind = "base_drift"         // the ref moved after it was pinned
	NoticeFilterNotApplied  NoticeKind = "filter_not_applied" // files are given as stored
	NoticeSubmodule         NoticeKind = "submodule"          // submodules that are not checked out
	NoticeHistory           NoticeKind = "history"            // what history a cell can reach
	NoticeSecretMasked      NoticeKind = "secret_masked"      // secrets replaced in stored output
	NoticeLimitNotSupported NoticeKind = "limit_not_enforced" // a limit held at a lower level than enforced
	NoticeStdinUnread       NoticeKind = "stdin_unread"       // the command did not read all of its stdin
)
