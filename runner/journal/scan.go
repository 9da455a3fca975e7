package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// Tail is the end of a journal that is no whole entry: what was left of the last line when its writer died.
type Tail struct {
	Line   int    // its line, from 1
	Offset int64  // where it starts
	Bytes  int64  // how long it is
	Reason string // why it is no entry
	File   string // where Open has put it; empty for a reader, which changes nothing
}

// CorruptError is damage before the last line. Nothing was changed.
type CorruptError struct {
	Path   string
	Line   int // from 1
	Reason string
}

// Error names file, line and the way out.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged in line %d: %s. What was recorded there cannot be known, so nothing is done with "+
		"this run; restore the file from a copy, or start a new run", e.Path, e.Line, e.Reason)
}

// SchemaError is a journal that a newer version wrote.
type SchemaError struct {
	Path       string
	Got, Known int
}

// Error names both versions.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s was written in schema %d, and this build knows schemas up to %d; use the newer build that "+
		"wrote it", e.Path, e.Got, e.Known)
}

// Scan reads the bytes of a journal; path is for messages. A last line that is no whole entry is returned as the Tail,
// which is nil where there is none. A bad line before the last one is a *CorruptError, an entry of a newer version a
// *SchemaError. The bodies of the entries share memory with data.
func Scan(path string, data []byte) ([]Entry, *Tail, error) {
	var entries []Entry
	var offset int64
	for line := 1; len(data) > 0; line++ {
		text, rest, whole := bytes.Cut(data, []byte{'\n'})
		entry, err := decode(text, int64(line))
		if err == nil && !whole {
			err = errors.New("it has no end")
		}
		var newer *SchemaError
		if errors.As(err, &newer) {
			newer.Path = path
			return nil, nil, newer
		}
		if err != nil && len(rest) > 0 {
			return nil, nil, &CorruptError{Path: path, Line: line, Reason: err.Error()}
		}
		if err != nil {
			return entries, &Tail{Line: line, Offset: offset, Bytes: int64(len(data)), Reason: err.Error()}, nil
		}
		entries = append(entries, entry)
		offset += int64(len(data) - len(rest))
		data = rest
	}
	return entries, nil, nil
}

// Read returns the entries of the journal at path, also while it is being written. It takes no lock and changes
// nothing; a last line that is not whole is left out. Errors are those of Scan and of reading the file.
func Read(path string) ([]Entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	entries, _, err := Scan(path, data)
	return entries, err
}
