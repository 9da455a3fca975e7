package supervise

import (
	"cmp"
	"time"

	"cellharness/shared"
)

// order is what a supervisor is told first, as one line of JSON on its control pipe: never in arguments or environment,
// which other processes can read. Strings of the command are bytes, which JSON text could not carry.
type order struct {
	Dir     []byte        `json:"dir"`
	Argv    [][]byte      `json:"argv"`
	Env     [][]byte      `json:"env"`
	Stdin   bool          `json:"stdin"` // descriptor stdinFD is the command's stdin
	Timeout time.Duration `json:"timeout"`
	Grace   time.Duration `json:"grace"`
	Output  int64         `json:"output"` // limits, zero for none
	Memory  int64         `json:"memory"`
	Procs   int64         `json:"processes"`
	Disk    int64         `json:"disk"`
	File    int64         `json:"file_size"`
	// Held says how each limit is held.
	Held     map[shared.Dimension]mechanism `json:"held,omitempty"`
	DiskRoot []byte                         `json:"disk_root,omitempty"`
	Writable [][]byte                       `json:"writable,omitempty"` // with WorkspaceOnly, beside Dir and Temp
	Visible  [][]byte                       `json:"visible,omitempty"`
	Temp     []byte                         `json:"temp,omitempty"`    // temporary directory, with WorkspaceOnly
	Sockets  [][]byte                       `json:"sockets,omitempty"` // paths of Unix sockets to hide
	// Join is how many descriptors of cgroup.procs files follow the others, and Events what the descriptors of event
	// files after those are about.
	Join   int                `json:"join,omitempty"`
	Events []shared.Dimension `json:"events,omitempty"`
}

func newOrder(c Command, m means) order {
	return order{
		Dir: []byte(c.Dir), Argv: toBytes(c.Argv), Env: toBytes(c.environment()), Stdin: c.Stdin != nil,
		Timeout: c.Timeout, Grace: c.Grace,
		Output: c.Limits.OutputBytes, Memory: c.Limits.MemoryBytes, Procs: c.Limits.Processes,
		Disk: c.Limits.DiskBytes, File: c.Limits.FileBytes, Held: m.of(c.Limits),
		DiskRoot: []byte(cmp.Or(c.DiskRoot, c.Dir)), Writable: toBytes(c.Writable), Visible: toBytes(c.Visible),
	}
}

// boxed tells whether the command runs in namespaces of its own.
func (o order) boxed() bool {
	for _, by := range o.Held {
		if by.boxed() {
			return true
		}
	}
	return false
}

// staged tells whether the command needs a process that prepares itself before it executes the command.
func (o order) staged() bool {
	return o.boxed() || o.Join > 0 || o.Held[shared.DimensionFileSize] == byRlimit ||
		o.Held[shared.DimensionFilesystem] == byFilter || o.Held[shared.DimensionNetwork] == byFilter
}

// sampled tells whether the limit of d is held by sampling.
func (o order) sampled(d shared.Dimension) bool { return o.Held[d] == bySampling }

// firstExtraFD is the first descriptor after those that every supervisor has.
func (o order) firstExtraFD() int {
	if o.Stdin {
		return stdinFD + 1
	}
	return stdinFD
}

// request is every later line on the control pipe. End of file there means that the parent is gone.
type request struct {
	End bool `json:"end"` // end the command with its grace
}

// Descriptors of a supervisor beside 0, 1 and 2.
const (
	controlFD = 3 + iota // order and requests; its end of file is the lifeline
	statusFD             // reports
	stdoutFD             // spool file
	stderrFD             // spool file
	stdinFD              // read end of a pipe, where order.Stdin says so
)

// reportKind is the kind of a report.
type reportKind string

const (
	reportStarted reportKind = "started" // exec succeeded
	reportRefused reportKind = "refused" // the command could not be started; Message says why
	reportSignal  reportKind = "signal"  // a signal was sent to the command
	reportDone    reportKind = "done"    // nothing of the command is left, or Left says what is
)

// report is one line of JSON on the status pipe. A pipe that ends without reportRefused or reportDone means that the
// supervisor was killed.
type report struct {
	Kind    reportKind `json:"kind"`
	Message string     `json:"message,omitempty"`
	Unheld  bool       `json:"unheld,omitempty"` // refused because a limit could not be put in place
	Signal  string     `json:"signal,omitempty"`
	Outcome *outcome   `json:"outcome,omitempty"`
}

// endReason says why a supervisor ended the command.
type endReason string

const (
	endedItself   endReason = ""
	endedTimeout  endReason = "timeout"
	endedLimit    endReason = "limit"
	endedRequest  endReason = "request"
	endedStorage  endReason = "storage"
	endedLifeline endReason = "lifeline"
)

// outcome is all that a supervisor knows when nothing runs any more.
type outcome struct {
	Reason      endReason        `json:"reason,omitempty"`
	Limit       shared.Dimension `json:"limit,omitempty"`
	Exited      bool             `json:"exited"` // the command itself has ended, and was reaped
	ExitCode    int              `json:"exit_code"`
	Signal      string           `json:"signal,omitempty"` // that ended the command; empty when it exited
	StartedNS   int64            `json:"started_ns"`       // wall clock
	Wall        time.Duration    `json:"wall"`
	CPU         time.Duration    `json:"cpu"`
	MaxRSS      int64            `json:"max_rss"`
	Stdout      stored           `json:"stdout"`
	Stderr      stored           `json:"stderr"`
	StdinUnread int64            `json:"stdin_unread"`
	OutputHeld  bool             `json:"output_held"`
	Survivors   []process        `json:"survivors,omitempty"` // the first maxNamed
	Survived    int64            `json:"survived"`
	Left        []process        `json:"left,omitempty"`
	ForksDenied int64            `json:"forks_denied,omitempty"` // processes refused at the limit of them
	Trouble     string           `json:"trouble,omitempty"`      // what the supervisor itself could not do
}

// stored is what a pump did with one stream.
type stored struct {
	Bytes  int64  `json:"bytes"`
	Stored int64  `json:"stored"`
	SHA256 string `json:"sha256"`
	Err    string `json:"err,omitempty"` // why storing stopped
}

// process names a process for a person.
type process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// maxNamed is how many processes are named in a report; the rest is counted.
const maxNamed = 20

func toBytes(list []string) [][]byte {
	if len(list) == 0 {
		return nil
	}
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
