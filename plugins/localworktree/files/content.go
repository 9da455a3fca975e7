package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"cellharness/shared"
)

// bufferBytes is the most that is held of any file. Below it the system calls show in profiles, above it nothing is
// gained.
const bufferBytes = 256 << 10

// writeContent writes content to the new file name of dir, and fails with a *badContentError when it is not what its
// size and digest say.
func writeContent(
	ctx context.Context, dir *os.Root, name string, mode fs.FileMode, content shared.Content, buffer []byte,
) (err error) {
	source, err := content.Open()
	if err != nil {
		return fmt.Errorf("open content: %w", err)
	}
	defer func() { err = firstError(err, source.Close()) }()
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, file.Close()) }()
	digest := sha256.New()
	// One byte more than is announced shows content that is too long without reading all of it.
	limited := io.LimitReader(contextReader{ctx, source}, content.Size+1)
	size, err := io.CopyBuffer(io.MultiWriter(file, digest), limited, buffer)
	if err != nil {
		return err
	}
	if err := checkContent(content, size, digest); err != nil {
		return err
	}
	return file.Chmod(mode)
}

func checkContent(want shared.Content, size int64, digest hash.Hash) error {
	if size != want.Size {
		more := ""
		if size > want.Size {
			more = " or more"
		}
		return &badContentError{fmt.Sprintf("its content has %d bytes%s, and %d were announced", size, more, want.Size)}
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != want.SHA256 {
		return &badContentError{fmt.Sprintf("its content has the SHA-256 %s, and %s was announced", got, want.SHA256)}
	}
	return nil
}

// badContentError is content that is not what its size and digest say.
type badContentError struct{ what string }

func (e *badContentError) Error() string { return e.what }

// contextReader reads until its context ends, so that a large file does not outlive the call it is read for.
type contextReader struct {
	ctx    context.Context
	reader io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.reader.Read(p)
}
