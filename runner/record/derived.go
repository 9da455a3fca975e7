package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"cellharness/runner/journal"
)

// Measured records, durably, the outcome of an attempt whose workspace is yet to be disposed of. End follows; where the
// process died before it, Results tells this one, with a clean-up of which nothing is known.
func (f *Folder) Measured(r Result) error {
	what := fmt.Sprintf("record the outcome of %s, attempt %d", r.Cell, r.Attempt)
	if f.journal == nil {
		return f.readOnly(what)
	}
	r.Schema, r.Run = Schema, f.id
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return f.append(KindAttemptMeasured, AttemptMeasured{raw})
}

// End records the result of an attempt, or of a cell that never started (attempt 0): the whole of it in the journal
// and on the disk, then the derived files. An error that names a derived file means that the result is safe and the
// file is rebuilt by the next Resume. Ending an attempt twice is refused.
func (f *Folder) End(r Result) error {
	what := fmt.Sprintf("record the end of %s, attempt %d", r.Cell, r.Attempt)
	if f.journal == nil {
		return f.readOnly(what)
	}
	if !isName(r.Key) {
		return fmt.Errorf("%s: %q is no key", what, r.Key)
	}
	r.Schema, r.Run = Schema, f.id
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !f.markEnded(attemptID{r.Key, r.Attempt}) {
		return fmt.Errorf("%s: it has ended already", what)
	}
	var lineErr error
	err = f.journal.AppendThen(KindAttemptEnded, AttemptEnded{raw}, func() { lineErr = f.appendResult(raw) })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := errors.Join(lineErr, f.writeResult(r.Key, r.Attempt, raw)); err != nil {
		return fmt.Errorf("%s: it is in the journal, and a file derived from it is not: %w", what, err)
	}
	return nil
}

// markEnded tells whether the attempt had not ended before. A cell that never started may be recorded again: by a run
// that was resumed and stopped once more.
func (f *Folder) markEnded(id attemptID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id.number > 0 && f.ended[id] {
		return false
	}
	f.ended[id] = true
	return true
}

// appendResult adds a line to results.jsonl. The journal calls it in the order of its entries. A line that could not
// be written whole is taken back, so that the next one is not glued to it.
func (f *Folder) appendResult(raw []byte) error {
	file, err := os.OpenFile(filepath.Join(f.dir, resultsFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if _, err := file.Write(resultLine(raw)); err != nil {
		return errors.Join(err, file.Truncate(info.Size()), file.Close())
	}
	return file.Close()
}

func (f *Folder) writeResult(key string, attempt int, raw []byte) error {
	if attempt == 0 {
		return nil
	}
	pretty, err := prettyResult(raw)
	if err != nil {
		return err
	}
	dir := f.attemptDir(key, attempt)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, resultFile), pretty)
}

// resultLine and prettyResult are the forms of a result in results.jsonl and in result.json. Both are made of the
// bytes in the journal, not of a Result, so that fields which this build does not know survive.
func resultLine(raw []byte) []byte { return append(bytes.Clone(raw), '\n') }

func prettyResult(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// Results returns the results of all attempts that have ended, and of cells that were recorded as never started, in
// the order of the journal. The last one of a key is what holds for its cell. Results of a newer schema are refused.
func (f *Folder) Results() ([]Result, error) {
	entries, err := f.Entries()
	if err != nil {
		return nil, err
	}
	return endedResults(entries)
}

func endedResults(entries []journal.Entry) ([]Result, error) {
	var results, measured []Result
	ended := map[attemptID]bool{}
	err := eachResult(entries, KindAttemptEnded, func(r Result, _ json.RawMessage) error {
		results = append(results, r)
		ended[attemptID{r.Key, r.Attempt}] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachResult(entries, KindAttemptMeasured, func(r Result, _ json.RawMessage) error {
		if !ended[attemptID{r.Key, r.Attempt}] {
			r.Cleanup = CleanupUnknown
			measured = append(measured, r)
		}
		return nil
	})
	return append(results, measured...), err
}

// eachResult calls fn for every entry of a kind that holds a result.
func eachResult(entries []journal.Entry, kind string, fn func(Result, json.RawMessage) error) error {
	for _, e := range entries {
		if e.Kind != kind {
			continue
		}
		var body AttemptEnded
		var r Result
		err := json.Unmarshal(e.Body, &body)
		if err == nil {
			err = json.Unmarshal(body.Result, &r)
		}
		if err == nil && r.Schema > Schema {
			err = fmt.Errorf("it has schema %d, and this build knows schemas up to %d", r.Schema, Schema)
		}
		if err == nil && !isName(r.Key) {
			err = fmt.Errorf("%q is no key", r.Key)
		}
		if err == nil {
			err = fn(r, body.Result)
		}
		if err != nil {
			return fmt.Errorf("read the result in line %d of the journal: %w", e.Seq, err)
		}
	}
	return nil
}

// derivedFile is a file as it follows from the journal.
type derivedFile struct {
	name string // relative to the folder
	data []byte
}

func (f *Folder) derived(entries []journal.Entry) ([]derivedFile, error) {
	var lines bytes.Buffer
	var files []derivedFile
	err := eachResult(entries, KindAttemptEnded, func(r Result, raw json.RawMessage) error {
		lines.Write(resultLine(raw))
		if r.Attempt == 0 {
			return nil
		}
		pretty, err := prettyResult(raw)
		name, relErr := filepath.Rel(f.dir, filepath.Join(f.attemptDir(r.Key, r.Attempt), resultFile))
		files = append(files, derivedFile{name, pretty})
		return errors.Join(err, relErr)
	})
	return append(files, derivedFile{resultsFile, lines.Bytes()}), err
}

// stale returns the derived files that are missing or differ from what follows from the journal.
func (f *Folder) stale(entries []journal.Entry) ([]derivedFile, error) {
	files, err := f.derived(entries)
	if err != nil {
		return nil, err
	}
	var readErr error
	files = slices.DeleteFunc(files, func(d derivedFile) bool {
		have, err := os.ReadFile(filepath.Join(f.dir, d.name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			readErr = errors.Join(readErr, err)
		}
		return err == nil && bytes.Equal(have, d.data)
	})
	return files, readErr
}

// Stale names the derived files, relative to the folder, that are missing or are not what follows from the journal:
// lost, cut or edited. While the run is being written the last ones may not be there yet.
func (f *Folder) Stale() ([]string, error) {
	entries, err := f.Entries()
	if err != nil {
		return nil, err
	}
	files, err := f.stale(entries)
	if err != nil {
		return nil, fmt.Errorf("compare with the journal: %w", err)
	}
	var names []string
	for _, d := range files {
		names = append(names, d.name)
	}
	return names, nil
}

// Rebuild writes the derived files that Stale names, byte for byte as they were. On a folder opened for reading it
// keeps writers away meanwhile; where there is one the error is a *journal.BusyError. Nothing is changed when the
// journal itself cannot be read. The writer of a folder calls it only while no attempt is being ended.
func (f *Folder) Rebuild() error {
	// Read before anything is locked: a journal that is damaged leaves everything as it is.
	entries, err := f.Entries()
	if err != nil {
		return err
	}
	if f.journal != nil {
		return f.rebuild(entries)
	}
	release, err := journal.Share(filepath.Join(f.dir, journalFile))
	if err != nil {
		return err
	}
	// A writer may have come and gone since.
	if entries, err = f.Entries(); err == nil {
		err = f.rebuild(entries)
	}
	return errors.Join(err, release())
}

func (f *Folder) rebuild(entries []journal.Entry) error {
	files, err := f.stale(entries)
	for _, d := range files {
		path := filepath.Join(f.dir, d.name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = writeFile(path, d.data)
		}
	}
	if err != nil {
		return fmt.Errorf("rebuild what is derived from the journal: %w", err)
	}
	return nil
}
