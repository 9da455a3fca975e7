package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"cellharness/runner/journal"
)

// ErrNoRun is wrapped by the errors of Latest and Find when there is no such run.
var ErrNoRun = errors.New("no such run")

// RunState is how far a run has come.
type RunState string

// The states of a run.
const (
	RunRunning    RunState = "running"    // a process writes it now
	RunFinished   RunState = "ended"      // in an orderly way, with the exit code of RunInfo
	RunUnfinished RunState = "unfinished" // its process died; it can be resumed
	RunUnreadable RunState = "unreadable" // see RunInfo.Err
)

// RunInfo is a run in a list of runs.
type RunInfo struct {
	ID       string
	Dir      string
	Run      Run // zero where run.json was never written
	State    RunState
	ExitCode *int // of the last process that worked on it; nil unless the state is RunFinished
	Ended    int  // attempts whose end is recorded, and cells that were recorded as never started
	Err      error
}

// Latest returns the path of the newest run, by its ULID.
func Latest(resultsDir string) (string, error) {
	ids, err := runIDs(resultsDir)
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("%w: %s holds none; `harness run PATH` makes one", ErrNoRun, runsDir(resultsDir))
	}
	return filepath.Join(runsDir(resultsDir), ids[0]), nil
}

// Find returns the path of a run: given by the path of its folder, by its id, or by the start of its id where only one
// run has it.
func Find(resultsDir, idOrPath string) (string, error) {
	if idOrPath == "" {
		return "", fmt.Errorf("%w: it has no name; `harness runs` lists them", ErrNoRun)
	}
	if isRun(idOrPath) {
		return idOrPath, nil
	}
	ids, err := runIDs(resultsDir)
	if err != nil {
		return "", err
	}
	var matches []string
	for _, id := range ids {
		if strings.HasPrefix(id, strings.ToUpper(idOrPath)) {
			matches = append(matches, id)
		}
	}
	switch len(matches) {
	case 1:
		return filepath.Join(runsDir(resultsDir), matches[0]), nil
	case 0:
		return "", fmt.Errorf("%w: %q is neither a run of %s nor the folder of one; `harness runs` lists them",
			ErrNoRun, idOrPath, runsDir(resultsDir))
	}
	return "", fmt.Errorf("%w: %q is the start of %d runs, %s; give more of the id", ErrNoRun, idOrPath, len(matches),
		strings.Join(matches, " and "))
}

func isRun(path string) bool {
	info, err := os.Stat(filepath.Join(path, journalFile))
	return err == nil && info.Mode().IsRegular()
}

// runIDs lists the runs, the newest first.
func runIDs(resultsDir string) ([]string, error) {
	entries, err := os.ReadDir(runsDir(resultsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err == nil && isRun(filepath.Join(runsDir(resultsDir), e.Name())) {
			ids = append(ids, e.Name())
		}
	}
	slices.Reverse(ids)
	return ids, nil
}

// List returns all runs, the newest first. A run that cannot be read is in the list with its error.
func List(resultsDir string) ([]RunInfo, error) {
	ids, err := runIDs(resultsDir)
	if err != nil {
		return nil, err
	}
	infos := make([]RunInfo, 0, len(ids))
	for _, id := range ids {
		infos = append(infos, describe(filepath.Join(runsDir(resultsDir), id), id))
	}
	return infos, nil
}

func describe(dir, id string) RunInfo {
	info := RunInfo{ID: id, Dir: dir, State: RunUnreadable}
	f, err := Open(dir)
	if err != nil {
		info.Err = err
		return info
	}
	run, err := f.ReadRun()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		info.Err = err
		return info
	}
	info.Run = run
	entries, err := f.Entries()
	if err != nil {
		info.Err = err
		return info
	}
	_, busy, err := journal.Busy(filepath.Join(dir, journalFile))
	if err != nil {
		info.Err = err
		return info
	}
	info.State = RunUnfinished
	info.count(entries)
	if busy {
		info.State, info.ExitCode = RunRunning, nil
	}
	return info
}

// count takes from the journal how the run ended and how much it holds.
func (info *RunInfo) count(entries []journal.Entry) {
	for _, e := range entries {
		switch e.Kind {
		case KindRunStarted:
			info.State, info.ExitCode = RunUnfinished, nil
		case KindAttemptEnded:
			info.Ended++
		case KindRunEnded:
			var end RunEnded
			if err := json.Unmarshal(e.Body, &end); err != nil {
				info.State, info.Err = RunUnreadable, fmt.Errorf("read line %d of the journal: %w", e.Seq, err)
				return
			}
			info.State, info.ExitCode = RunFinished, &end.ExitCode
		}
	}
}
