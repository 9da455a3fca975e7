package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"cellharness/shared"
)

// spool is the file that one output stream is stored in, seen from the side that shows it live.
type spool struct {
	file *os.File
	kind shared.EventKind
	sent int64 // bytes handed to the sink
}

// createSpool makes the file; it must not exist, so that no link of the command's making is followed.
func createSpool(dir, path string, kind shared.EventKind) (*spool, error) {
	if path == "" {
		return nil, &shared.Error{Code: shared.CodeInvalid, Message: "no file is named to store the output in"}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &shared.Error{
			Code: shared.CodeInternal, Cause: shared.CauseStorage, Err: err,
			Message: fmt.Sprintf("the command was never started: create the file for its output: %v", err),
		}
	}
	return &spool{file: file, kind: kind}, nil
}

// errSink says that the sink wants no more events. Its own error is the caller's, who knows it.
var errSink = errors.New("the sink wants no more events")

// burst is the most frames of one stream that are forwarded before the other stream has its turn.
const burst = 16

// forward hands new bytes of the file to sink, burst frames at most, and tells whether there may be more.
func (s *spool) forward(sink shared.EventSink, frame []byte) (more bool, err error) {
	for range burst {
		n, err := s.file.ReadAt(frame, s.sent)
		if n > 0 {
			if err := sink(shared.Event{Kind: s.kind, Data: frame[:n], Offset: s.sent}); err != nil {
				return false, errSink
			}
			s.sent += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read stored output: %w", err)
		}
	}
	return true, nil
}
