package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/oklog/ulid/v2"

	"cellharness/runner/journal"
)

// Names within the folder of a run.
const (
	journalFile = "journal.jsonl"
	resultsFile = "results.jsonl"
	eventsFile  = "events.jsonl"
	runFile     = "run.json"
	planFile    = "plan.json"
	resultFile  = "result.json"
	blobsDir    = "blobs"
	adaptersDir = "adapters"
	cellsDir    = "cells"
)

// Folder is the folder of one run. Its methods may be called from many goroutines.
type Folder struct {
	dir     string
	id      string
	journal *journal.Journal // nil: opened for reading

	mu    sync.Mutex
	ended map[attemptID]bool // attempts whose end is in the journal
}

// attemptID names an attempt within a run.
type attemptID struct {
	key    string
	number int
}

// UnwritableError is a place in which no run can be recorded.
type UnwritableError struct {
	Path string
	Err  error
}

// Error names the place, the cause and the flag.
func (e *UnwritableError) Error() string {
	return fmt.Sprintf("no run can be recorded in %s: %v; name another place with --results-dir", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *UnwritableError) Unwrap() error { return e.Err }

// Create makes the folder of a new run and becomes its writer: resultsDir/id, or .harness/runs/id in the current
// directory where resultsDir is empty. id is a ULID. The parent of resultsDir must exist. A place that cannot be
// written is an *UnwritableError, and whatever was made on the way to it is removed again.
func Create(resultsDir, id string) (*Folder, error) {
	if _, err := ulid.ParseStrict(id); err != nil {
		return nil, fmt.Errorf("make the folder of run %q: its id is no ULID: %w", id, err)
	}
	runs := runsDir(resultsDir)
	made, err := makeDirs(resultsDir, runs)
	if err == nil {
		var f *Folder
		if f, err = create(filepath.Join(runs, id), id); err == nil {
			return f, nil
		}
	}
	for i := len(made) - 1; i >= 0; i-- {
		err = errors.Join(err, os.Remove(made[i]))
	}
	return nil, &UnwritableError{Path: runs, Err: err}
}

func runsDir(resultsDir string) string {
	if resultsDir == "" {
		return filepath.Join(".harness", "runs")
	}
	return resultsDir
}

// makeDirs makes the folder that holds runs and returns what it made, outermost first.
func makeDirs(resultsDir, runs string) (made []string, err error) {
	if resultsDir != "" {
		return makeDir(made, runs)
	}
	home := filepath.Dir(runs)
	if made, err = makeDir(made, home); err != nil {
		return made, err
	}
	// The records are not for the repository that they are about.
	ignore := filepath.Join(home, ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(ignore, []byte("*\n"), 0o644); err != nil {
			return made, err
		}
		made = append(made, ignore)
	}
	return makeDir(made, runs)
}

func makeDir(made []string, dir string) ([]string, error) {
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		return append(made, dir), nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return made, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return made, errors.Join(fmt.Errorf("%s is not a directory", dir), err)
	}
	return made, nil
}

// create makes the run's own folder whole, or not at all.
func create(dir, id string) (*Folder, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := fill(dir, id)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return f, nil
}

func fill(dir, id string) (*Folder, error) {
	for _, sub := range []string{blobsDir, adaptersDir, cellsDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, resultsFile), nil, 0o644); err != nil {
		return nil, err
	}
	j, err := journal.Create(filepath.Join(dir, journalFile), time.Now)
	if err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, id: id, journal: j, ended: map[attemptID]bool{}}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Open opens the folder of a run for reading, also while another process writes it. Recording anything is refused.
func Open(path string) (*Folder, error) {
	if _, err := os.Stat(filepath.Join(path, journalFile)); err != nil {
		return nil, fmt.Errorf("open run %s: %w", path, err)
	}
	f := &Folder{dir: path, id: filepath.Base(filepath.Clean(path))}
	// A copy of a run may have any name; its records keep their own.
	run, err := f.ReadRun()
	if err == nil {
		f.id = run.ID
		return f, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	return nil, err
}

// Resume opens the folder of a run as its writer. What a dead writer left half done is put right: the torn end of the
// journal is set aside (Torn tells of it), derived files are rebuilt, a torn line of events.jsonl is cut. The errors
// are those of journal.Open, and nothing is changed then.
func Resume(path string) (*Folder, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	j, entries, err := journal.Open(filepath.Join(path, journalFile), time.Now)
	if err != nil {
		return nil, err
	}
	f.journal, f.ended = j, map[attemptID]bool{}
	if err := f.putRight(entries); err != nil {
		return nil, errors.Join(fmt.Errorf("resume run %s: %w", path, err), f.Close())
	}
	return f, nil
}

func (f *Folder) putRight(entries []journal.Entry) error {
	results, err := endedResults(entries)
	if err != nil {
		return err
	}
	for _, r := range results {
		f.ended[attemptID{r.Key, r.Attempt}] = true
	}
	if err := f.removeTemporary(); err != nil {
		return err
	}
	if err := f.rebuild(entries); err != nil {
		return err
	}
	return cutTornLine(filepath.Join(f.dir, eventsFile))
}

// removeTemporary removes what a killed writer left of files that it was about to put in place.
func (f *Folder) removeTemporary() error {
	for _, pattern := range []string{".*.json*", cellsDir + "/*/*/.*.json*"} {
		names, err := fs.Glob(os.DirFS(f.dir), pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutTornLine removes what follows the last newline of a file of lines.
func cutTornLine(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	end, err := lastLineEnd(file)
	if err == nil {
		err = file.Truncate(end)
	}
	return errors.Join(err, file.Close())
}

// lastLineEnd returns the offset after the last newline, looking backwards.
func lastLineEnd(file *os.File) (int64, error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	for b := make([]byte, 1); end > 0; end-- {
		if _, err := file.ReadAt(b, end-1); err != nil {
			return 0, err
		}
		if b[0] == '\n' {
			return end, nil
		}
	}
	return 0, nil
}

// Close ends the writing, so that another process may resume the run. Closing twice is fine.
func (f *Folder) Close() error {
	if f.journal == nil {
		return nil
	}
	return f.journal.Close()
}

// Discard closes the folder of a run that never began and removes it, but for what adapters have said: the reason why it
// did not begin may stand there. What is left is no run any more. A run of which an attempt or a lease was recorded is
// refused: it is kept, whatever became of it.
func (f *Folder) Discard() error {
	if f.journal == nil {
		return f.readOnly("discard it")
	}
	entries, err := f.Entries()
	if err != nil {
		return fmt.Errorf("discard run %s: %w", f.id, err)
	}
	for _, e := range entries {
		switch e.Kind {
		case KindLeaseOpened, KindAttemptStarted, KindAttemptEnded:
			return fmt.Errorf("discard run %s: it has begun; its records stay in %s", f.id, f.dir)
		}
	}
	if err := errors.Join(f.Close(), f.removeAllButLogs()); err != nil {
		return fmt.Errorf("discard run %s: %w", f.id, err)
	}
	return nil
}

func (f *Folder) removeAllButLogs() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	var errs []error
	logged := hasContent(f.AdapterLogDir())
	for _, e := range entries {
		if !logged || e.Name() != adaptersDir {
			errs = append(errs, os.RemoveAll(filepath.Join(f.dir, e.Name())))
		}
	}
	if !logged {
		errs = append(errs, os.Remove(f.dir))
	}
	return errors.Join(errs...)
}

// hasContent tells whether a file of the folder has something in it.
func hasContent(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it was never made
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		info, err := e.Info()
		return err == nil && info.Size() > 0
	})
}

// Dir returns the path of the folder, as it was given.
func (f *Folder) Dir() string { return f.dir }

// ID returns the ULID of the run.
func (f *Folder) ID() string { return f.id }

// Journal returns the journal; nil where the folder was opened for reading.
func (f *Folder) Journal() *journal.Journal { return f.journal }

// Torn returns the torn end of the journal that Resume has set aside, nil where there was none.
func (f *Folder) Torn() *journal.Tail {
	if f.journal == nil {
		return nil
	}
	return f.journal.Torn()
}

// Entries returns the journal as it is now.
func (f *Folder) Entries() ([]journal.Entry, error) {
	return journal.Read(filepath.Join(f.dir, journalFile))
}

// Events opens events.jsonl for lines to be appended. The caller closes it.
func (f *Folder) Events() (io.WriteCloser, error) {
	if f.journal == nil {
		return nil, f.readOnly("write events.jsonl")
	}
	file, err := os.OpenFile(filepath.Join(f.dir, eventsFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open events.jsonl: %w", err)
	}
	return file, nil
}

// AdapterLogDir returns the directory for the logs of the adapters.
func (f *Folder) AdapterLogDir() string { return filepath.Join(f.dir, adaptersDir) }

func (f *Folder) readOnly(what string) error {
	return fmt.Errorf("%s: run %s was opened for reading; open it with Resume to write", what, f.id)
}

// writeFile puts a file into place whole: under its name there is the old content or the new one, never a part.
func writeFile(path string, data []byte) error {
	return renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(filepath.Dir(path)))
}

// writeJSON writes v for people to read, and syncs the folder: nothing else holds what is in it.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(path, append(data, '\n')); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// readJSON reads a file of a schema up to known into v.
func readJSON(path string, known int, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	if version.Schema > known {
		return fmt.Errorf("%s was written in schema %d, and this build knows schemas up to %d; use the newer build that "+
			"wrote it", path, version.Schema, known)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}
