package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"os"
	"strings"

	"cellharness/runner/record"
	"cellharness/runner/redact"
	"cellharness/shared"
)

// capture stores one output stream. It counts what came in and what is stored apart: they differ only where a secret
// was masked.
type capture struct {
	name   string // of the stream, with the folder of its phase
	file   *os.File
	masker *redact.Writer
	came   hash.Hash
	stored hash.Hash
	bytes  int64 // came in
	kept   int64 // stored
	last   []byte
	err    error // why storing stopped
	gap    error // bytes came that were not next
}

// tailBytes is how much of the end of an output a message shows.
const tailBytes = 2000

func newCapture(dir *record.Attempt, name string, masker *redact.Masker) (*capture, error) {
	f, err := dir.Create(name + ".log")
	if err != nil {
		return nil, err
	}
	c := &capture{name: name, file: f, came: sha256.New(), stored: sha256.New()}
	c.masker = masker.Writer(storedWriter{c})
	return c, nil
}

// storedWriter is the side of a capture that faces the disk.
type storedWriter struct{ c *capture }

func (s storedWriter) Write(p []byte) (int, error) {
	n, err := s.c.file.Write(p)
	s.c.kept += int64(n)
	_, _ = s.c.stored.Write(p[:n]) // a hash never fails
	s.c.last = append(s.c.last, p[:n]...)
	if over := len(s.c.last) - tailBytes; over > 0 {
		s.c.last = append(s.c.last[:0], s.c.last[over:]...)
	}
	return n, err
}

// write stores the next bytes. Bytes that are not next are a fault of the adapter.
func (c *capture) write(e shared.Event) error {
	if err := errors.Join(c.err, c.gap); err != nil {
		return err
	}
	if e.Offset != c.bytes {
		c.gap = protocolError("%s came at byte %d where byte %d was next", c.name, e.Offset, c.bytes)
		return c.gap
	}
	c.bytes += int64(len(e.Data))
	_, _ = c.came.Write(e.Data)
	_, c.err = c.masker.Write(e.Data)
	return c.err
}

// close lets the last bytes through and closes the file. It returns why not all is stored.
func (o *output) close() error {
	return errors.Join(o.stdout.close(), o.stderr.close())
}

func (c *capture) close() error {
	if c.err == nil {
		c.err = c.masker.Close()
	}
	if err := c.file.Close(); c.err == nil {
		c.err = err
	}
	return c.err
}

// disorder says where output came that was not next.
func (o *output) disorder() error {
	if o.stdout.gap != nil {
		return o.stdout.gap
	}
	return o.stderr.gap
}

// check compares what arrived with what the adapter says it sent, and sees that the end of the command is known.
func (o *output) check() error {
	if err := o.stdout.check(o.result.Stdout); err != nil {
		return err
	}
	if err := o.stderr.check(o.result.Stderr); err != nil {
		return err
	}
	r := o.result
	if !r.Status.Counts() {
		return protocolError("a command ended with status %q, which is none of a command", r.Status)
	}
	if r.Status == shared.StatusCompleted && r.ExitCode == nil && r.Signal == "" {
		return protocolError("a command ended with neither an exit code nor a signal")
	}
	return nil
}

func (c *capture) check(said shared.Stream) error {
	digest := hex.EncodeToString(c.came.Sum(nil))
	if c.bytes == said.Stored && (said.SHA256 == "" || said.SHA256 == digest) {
		return nil
	}
	return protocolError("%s arrived with %d bytes (sha256 %s), the adapter says that it sent %d (sha256 %s)",
		c.name, c.bytes, digest, said.Stored, said.SHA256)
}

// masked are the notices about secrets in the output.
func (o *output) masked() []shared.Notice {
	var notices []shared.Notice
	for _, c := range []*capture{o.stdout, o.stderr} {
		if n := c.masker.Found(); n > 0 {
			notices = append(notices, shared.Notice{Kind: shared.NoticeSecretMasked, Detail: c.name, Count: n})
		}
	}
	return notices
}

// record is the record of the stored stream; produced is how many bytes the adapter counted, 0 where it did not say.
func (c *capture) record(produced int64) *record.Stream {
	return &record.Stream{Bytes: max(c.bytes, produced), Stored: c.kept, SHA256: hex.EncodeToString(c.stored.Sum(nil))}
}

// tail is the end of the stream, fit for a message.
func (c *capture) tail() string {
	return record.Printable(strings.TrimSpace(string(c.last)))
}
