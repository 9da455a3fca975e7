package event

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Schema is the version of the events, told by the first of them. It grows when a type changes its meaning, which a
// reader cannot ignore.
const Schema = 1

//go:embed event.schema.json
var eventSchema string

// JSONSchema returns the JSON Schema (2020-12) of a line of events. It refers to the schema of package record by its id.
func JSONSchema() []byte { return []byte(eventSchema) }

// Stream gives events their header and hands them to its sinks. Its methods may be called from many goroutines.
type Stream struct {
	run   string
	clock func() time.Time
	sinks []func(Event, []byte)

	mu  sync.Mutex
	seq int64
}

// NewStream makes a stream of the events of a run; run is empty where a command has none. Each sink gets every event
// with its line, newline included, in order and one at a time; the line is valid until the sink returns.
func NewStream(run string, clock func() time.Time, sinks ...func(Event, []byte)) *Stream {
	return &Stream{run: run, clock: clock, sinks: sinks}
}

// Emit fills in the header of e and hands it to the sinks. The sequence numbers of a stream are 1, 2, 3 and so on. An
// event that has no JSON form is replaced by a Diagnostic that says so, since a gap would look like a lost line.
func (s *Stream) Emit(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	line, err := s.encode(e)
	if err != nil {
		e = &Diagnostic{
			Severity: "error", Summary: "An event of type " + TypeOf(e) + " cannot be written", Detail: err.Error(),
		}
		// Strings and numbers alone: this one always has a JSON form.
		line, err = s.encode(e)
	}
	if err != nil {
		panic(fmt.Sprintf("marshal a diagnostic: %v", err))
	}
	for _, sink := range s.sinks {
		sink(e, line)
	}
}

func (s *Stream) encode(e Event) ([]byte, error) {
	*e.header() = Header{Type: TypeOf(e), Seq: s.seq, Time: s.clock().UTC(), Run: s.run}
	line, err := json.Marshal(e)
	return append(line, '\n'), err
}

// TypeOf returns the type of an event as its header spells it: the name of its Go type in snake case.
func TypeOf(e Event) string {
	var b strings.Builder
	for i, r := range reflect.TypeOf(e).Elem().Name() {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// LineWriter is a sink that writes lines to w until a write is refused, and from then on does nothing: a reader that
// went away, as with `| head`, ends the printing and nothing else.
func LineWriter(w io.Writer) func(Event, []byte) { return NewLines(w).Take }

// Lines is a LineWriter that can be asked what became of it.
type Lines struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewLines makes a writer of lines. It does not close w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Take writes the line of an event. It is a sink.
func (l *Lines) Take(_ Event, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		_, l.err = l.w.Write(line)
	}
}

// Err returns the error of the first write that was refused, nil where all were taken.
func (l *Lines) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
