package supervise

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// pumpBuffer is how much a pump reads at once: larger than most writes, and half of a pipe, so that the command can
// write on while the pump stores.
const pumpBuffer = 32 << 10

// pump moves one output stream of the command from its pipe to its spool file. The spool file is never handed to the
// command itself, which could cut or seek it.
type pump struct {
	from io.Reader
	to   io.Writer
	// limit is the most bytes to store; zero for no limit. What comes after it is counted only.
	limit int64
	// full is called once, when the limit is passed; broken once, when storing fails.
	full, broken func()

	bytes, stored int64
	sum           hash.Hash
	err           error
	done          chan struct{} // closed at the end; only then may the fields above be read
}

func newPump(from io.Reader, to io.Writer, limit int64, full, broken func()) *pump {
	return &pump{from: from, to: to, limit: limit, full: full, broken: broken, sum: sha256.New(), done: make(chan struct{})}
}

// run pumps until every write end of the pipe is closed, or until the read end's deadline.
func (p *pump) run() {
	defer close(p.done)
	buffer := make([]byte, pumpBuffer)
	for {
		n, err := p.from.Read(buffer)
		p.take(buffer[:n])
		if err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			p.fail(fmt.Errorf("read the output: %w", err))
			return
		}
	}
}

// take counts data and stores what the limit allows.
func (p *pump) take(data []byte) {
	before := p.bytes
	p.bytes += int64(len(data))
	if p.limit > 0 && p.bytes > p.limit {
		if before <= p.limit {
			p.full()
		}
		data = data[:max(0, p.limit-before)]
	}
	if len(data) == 0 || p.err != nil {
		return
	}
	n, err := p.to.Write(data)
	p.stored += int64(n)
	p.sum.Write(data[:n])
	if err != nil {
		p.fail(err)
	}
}

func (p *pump) fail(err error) {
	p.err = err
	p.broken()
}

// result may be called when done is closed.
func (p *pump) result() stored {
	s := stored{Bytes: p.bytes, Stored: p.stored, SHA256: hex.EncodeToString(p.sum.Sum(nil))}
	if p.err != nil {
		s.Err = p.err.Error()
	}
	return s
}
