package shared

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of event. Result and Artifact end what they speak of; Error reports what went wrong without ending it.
const (
	EventUnspecified EventKind = iota
	EventStdout
	EventStderr
	EventSignal
	EventArtifact
	EventResult
	EventError
)

// MaxOutputFrame is the most bytes that one output event carries. Frames just above 32,000 bytes are the slowest of
// all sizes on the wire (a buffer class of gRPC that is cleared whole), so live output stays below.
const MaxOutputFrame = 32_000

// Event is something that happened while a command ran.
type Event struct {
	Kind   EventKind
	Data   []byte // EventStdout, EventStderr: at most MaxOutputFrame bytes; valid only during the call of the sink
	Offset int64  // EventStdout, EventStderr: of Data in its stream
	Signal string // EventSignal: the signal that was sent, such as "TERM"
	Err    *Error // EventError
}

// EventSink takes the events of one RunCell, in order, one at a time. An error stops the events.
type EventSink func(Event) error
