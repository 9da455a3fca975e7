package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"cellharness/shared"
)

// sendContent reads c and hands it to send in chunks. The size and the digest are checked before the last chunk leaves,
// so that a file that changed since it was announced is blamed here and not on the adapter.
func sendContent(c *shared.Content, send func(chunk []byte) error) (err error) {
	source, err := c.Open()
	if err != nil {
		return &contentError{err}
	}
	defer closeInto(&err, source)
	digest := sha256.New()
	for left := c.Size; left > 0; {
		chunk := make([]byte, min(left, maxChunk)) // fresh for each message: gRPC may still hold the last one
		if _, err := io.ReadFull(source, chunk); err != nil {
			return &contentError{fmt.Errorf("it should have %d bytes and ends %d bytes before: %w", c.Size, left, err)}
		}
		digest.Write(chunk)
		left -= int64(len(chunk))
		if left == 0 {
			if err := checkEnd(c, source, digest.Sum(nil)); err != nil {
				return err
			}
		}
		if err := send(chunk); err != nil {
			return err
		}
	}
	if c.Size == 0 {
		return checkEnd(c, source, digest.Sum(nil))
	}
	return nil
}

// checkEnd checks that source holds no more than what was read, and that what was read is what was announced.
func checkEnd(c *shared.Content, source io.Reader, digest []byte) error {
	n, err := io.ReadFull(source, make([]byte, 1))
	if n > 0 {
		return &contentError{fmt.Errorf("it should have %d bytes and has more", c.Size)}
	}
	if !errors.Is(err, io.EOF) {
		return &contentError{err}
	}
	if got := hex.EncodeToString(digest); got != c.SHA256 {
		return &contentError{fmt.Errorf("its SHA-256 is %s and should be %s", got, c.SHA256)}
	}
	return nil
}

// closeInto closes c and adds what went wrong to err.
func closeInto(err *error, c io.Closer) {
	if closeErr := c.Close(); closeErr != nil {
		*err = errors.Join(*err, closeErr)
	}
}

// contentError is a content that cannot be read as it was announced.
type contentError struct{ err error }

// Error says what is wrong with the content.
func (e *contentError) Error() string { return e.err.Error() }

// Unwrap returns the error underneath.
func (e *contentError) Unwrap() error { return e.err }
