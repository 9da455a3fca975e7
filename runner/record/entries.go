package record

import "encoding/json"

// The kinds of journal entry. The body of each is the type of the same name.
const (
	KindRunStarted     = "run_started"
	KindLeaseOpened    = "lease_opened"
	KindLeaseBound     = "lease_bound"
	KindLeaseClosed    = "lease_closed"
	KindAttemptStarted = "attempt_started"
	// KindAttemptMeasured says that the outcome of an attempt is known and its workspace is yet to be disposed of.
	KindAttemptMeasured = "attempt_measured"
	KindAttemptEnded    = "attempt_ended"
	KindRunInterrupted  = "run_interrupted"
	KindRunEnded        = "run_ended"
)

// RunStarted tells that a process began to work on the run: the first one, or one that resumes it.
type RunStarted struct {
	Harness string   `json:"harness"` // version
	Build   string   `json:"build,omitempty"`
	PID     int      `json:"pid"`
	Argv    []string `json:"argv"`
}

// AttemptStarted tells that an attempt exists; nothing was asked of an adapter before it.
type AttemptStarted struct {
	Cell       string `json:"cell"` // address
	Key        string `json:"key"`
	Attempt    int    `json:"attempt"`
	Adapter    string `json:"adapter"`
	Generation int    `json:"generation,omitempty"` // of the adapter process, where it is known already
}

// AttemptMeasured holds the result of an attempt before its workspace is disposed of, so that the death of the harness
// in between does not cost a measurement.
type AttemptMeasured struct {
	Result json.RawMessage `json:"result"`
}

// AttemptEnded holds the whole result of an attempt, or of a cell that never started, as the bytes that all derived
// files are made of.
type AttemptEnded struct {
	Result json.RawMessage `json:"result"`
}

// RunInterrupted tells that the user stopped the run.
type RunInterrupted struct {
	Signal string `json:"signal"`
}

// RunEnded tells that the process came to its end in an orderly way.
type RunEnded struct {
	ExitCode int `json:"exit_code"`
}

// RunStarted records that this process works on the run. It is on the disk when it returns nil, as for all of
// these but LeaseBound.
func (f *Folder) RunStarted(b RunStarted) error { return f.append(KindRunStarted, b) }

// LeaseOpened records that a workspace may exist from now on. It comes before the workspace is asked for.
func (f *Folder) LeaseOpened(b LeaseOpened) error { return f.append(KindLeaseOpened, b) }

// LeaseBound records which workspace the lease has become. It is on the disk with the next entry that has to be: the
// name of the lease, which is there already, is enough to find the workspace.
func (f *Folder) LeaseBound(b LeaseBound) error {
	if f.journal == nil {
		return f.readOnly("record " + KindLeaseBound)
	}
	return f.journal.Note(KindLeaseBound, b)
}

// LeaseClosed records what became of the workspace. It may come again: a leaked one can be disposed of later.
func (f *Folder) LeaseClosed(b LeaseClosed) error { return f.append(KindLeaseClosed, b) }

// AttemptStarted records that an attempt exists.
func (f *Folder) AttemptStarted(b AttemptStarted) error { return f.append(KindAttemptStarted, b) }

// RunInterrupted records that the user stopped the run.
func (f *Folder) RunInterrupted(b RunInterrupted) error { return f.append(KindRunInterrupted, b) }

// RunEnded records how the run ended.
func (f *Folder) RunEnded(b RunEnded) error { return f.append(KindRunEnded, b) }

func (f *Folder) append(kind string, body any) error {
	if f.journal == nil {
		return f.readOnly("record " + kind)
	}
	return f.journal.Append(kind, body)
}
