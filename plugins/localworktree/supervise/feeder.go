package supervise

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// feederBound is how long a feeder may go on after its command has ended.
const feederBound = time.Second

// feeder writes a command's stdin into its pipe.
type feeder struct {
	from io.Reader
	to   *os.File
	done chan struct{} // closed at the end; only then may the fields below be read
	cut  bool          // the command ended before it had taken everything
	err  error         // from could not be read
}

func newFeeder(from io.Reader, to *os.File) *feeder {
	return &feeder{from: from, to: to, done: make(chan struct{})}
}

// run copies, and closes the pipe so that the command reads end of file.
func (f *feeder) run() {
	defer close(f.done)
	source := &readErrors{from: f.from}
	_, err := io.Copy(f.to, source)
	f.err = source.err
	if err != nil && f.err == nil {
		// Nobody reads any more: not an error, a command may end with its input unread.
		f.cut = true
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrDeadlineExceeded) {
			f.err = err
		}
	}
	if err := f.to.Close(); err != nil && f.err == nil {
		f.err = err
	}
}

// stop ends the copy when nothing of the command is left, and tells whether it has ended: a reader that blocks keeps
// it, and its goroutine, until the reader returns.
func (f *feeder) stop() bool {
	// An error means that the pipe is closed, which is what is wanted.
	_ = f.to.SetWriteDeadline(time.Now())
	bound := time.NewTimer(feederBound)
	defer bound.Stop()
	select {
	case <-f.done:
		return true
	case <-bound.C:
		return false
	}
}

// wasCut tells whether the command ended before it had taken everything.
func (f *feeder) wasCut() bool {
	select {
	case <-f.done:
		return f.cut
	default:
		return true
	}
}

// broken returns why what stdin is read from could not be read.
func (f *feeder) broken() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// readErrors keeps the error of a reader apart from that of the writer it is copied to.
type readErrors struct {
	from io.Reader
	err  error
}

func (r *readErrors) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
