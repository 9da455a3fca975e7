package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"cellharness/shared"
)

// maxSpoolMemory is the most bytes of the contents of one call that are held in memory; from there on they lie in a
// file. Most seeds and prompts are far below, and need no file at all.
const maxSpoolMemory = 1 << 20

// spool keeps the contents that came with one call, one after another, until the call is over. It has one writer;
// readers may come once everything is written.
type spool struct {
	dir    string // where the file is made; empty: the system's directory for temporary files
	memory []byte
	file   *os.File // nil while everything fits into memory
	size   int64
}

// receive takes the chunks of the announced content from next and checks them. The returned content can be read until
// the spool is closed. An error of next is returned as it is.
func (s *spool) receive(announced shared.Content, next func() ([]byte, error)) (shared.Content, error) {
	start := s.size
	digest := sha256.New()
	for left := announced.Size; left > 0; {
		chunk, err := next()
		if err != nil {
			return shared.Content{}, err
		}
		if int64(len(chunk)) > left {
			return shared.Content{}, breachOf(shared.CodeInvalid, "a content of %d bytes came with more", announced.Size)
		}
		digest.Write(chunk)
		if err := s.write(chunk); err != nil {
			return shared.Content{}, err
		}
		left -= int64(len(chunk))
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != announced.SHA256 {
		return shared.Content{}, breachOf(shared.CodeInvalid, "a content of %d bytes has the SHA-256 %s and was announced with %s",
			announced.Size, got, announced.SHA256)
	}
	announced.Open = func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(s, start, announced.Size)), nil
	}
	return announced, nil
}

// ReadAt reads what was spooled.
func (s *spool) ReadAt(p []byte, offset int64) (int, error) {
	if s.file != nil {
		return s.file.ReadAt(p, offset)
	}
	return bytes.NewReader(s.memory).ReadAt(p, offset)
}

func (s *spool) write(chunk []byte) error {
	if s.file == nil && s.size+int64(len(chunk)) > maxSpoolMemory {
		if err := s.moveToFile(); err != nil {
			return spoolError(err)
		}
	}
	s.size += int64(len(chunk))
	if s.file == nil {
		s.memory = append(s.memory, chunk...)
		return nil
	}
	if _, err := s.file.Write(chunk); err != nil {
		return spoolError(err)
	}
	return nil
}

// moveToFile goes on in a file that has no name any more, so that nothing is left of it when the process dies.
func (s *spool) moveToFile() error {
	file, err := os.CreateTemp(s.dir, "harness-spool-")
	if err != nil {
		return err
	}
	s.file = file
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	_, err = file.Write(s.memory)
	s.memory = nil
	return err
}

func spoolError(err error) error {
	return &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseStorage, Err: err, Message: fmt.Sprintf(
		"keep what came with the call in a temporary file: %v; make room there, or point TMPDIR elsewhere", err)}
}

// Close gives up what was spooled. A content that is read afterwards fails.
func (s *spool) Close() error {
	s.memory = nil
	if s.file == nil {
		return nil
	}
	if err := s.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return spoolError(err)
	}
	return nil
}
