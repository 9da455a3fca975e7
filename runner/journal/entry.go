package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

// Schema is the version of what this build writes. Entries of a greater one are refused.
const Schema = 1

// Entry is one line of a journal.
type Entry struct {
	Seq  int64
	Time time.Time
	Kind string
	Body json.RawMessage
}

// frame is a line as JSON, without its checksum.
type frame struct {
	Seq  int64           `json:"seq"`
	Time time.Time       `json:"time"`
	Kind string          `json:"kind"`
	V    int             `json:"v"`
	Body json.RawMessage `json:"body"`
}

const (
	crcMark = `,"crc":"`
	// crcTail is what follows the checksummed bytes: the mark, eight digits, quote and brace.
	crcTail = len(crcMark) + 8 + 2
)

// checksum is CRC-32C: it has an instruction of its own on amd64 and arm64, and finds every burst of up to 32 bits.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// encode returns the line of an entry, newline included.
func encode(e Entry) ([]byte, error) {
	line, err := json.Marshal(frame{e.Seq, e.Time, e.Kind, Schema, e.Body})
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	return fmt.Appendf(line, "%s%08x\"}\n", crcMark, checksum(line)), nil
}

// decode reads a line without its newline. It tells damage from a newer schema.
func decode(line []byte, seq int64) (Entry, error) {
	cut := len(line) - crcTail
	if cut < 1 || !bytes.HasPrefix(line[cut:], []byte(crcMark)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return Entry{}, fmt.Errorf("it is not a whole entry")
	}
	digits := line[cut+len(crcMark) : len(line)-2]
	want, err := strconv.ParseUint(string(digits), 16, 32)
	if err != nil || checksum(line[:cut]) != uint32(want) {
		return Entry{}, fmt.Errorf("its checksum is wrong")
	}
	var f frame
	if err := json.Unmarshal(append(line[:cut:cut], '}'), &f); err != nil {
		return Entry{}, fmt.Errorf("it is not JSON: %w", err)
	}
	if f.V > Schema {
		return Entry{}, &SchemaError{Got: f.V, Known: Schema}
	}
	if f.Seq != seq {
		return Entry{}, fmt.Errorf("its sequence number is %d where %d is due", f.Seq, seq)
	}
	return Entry{f.Seq, f.Time, f.Kind, f.Body}, nil
}
