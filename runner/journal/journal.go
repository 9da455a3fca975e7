package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// ErrClosed is returned by a journal that was closed.
var ErrClosed = errors.New("the journal is closed")

// Journal is the one writer of a journal file. Its methods may be called from many goroutines.
type Journal struct {
	clock func() time.Time
	file  storage
	lock  *flock.Flock
	tail  *Tail

	mu   sync.Mutex // guards what follows; held for moments only
	seq  int64
	next *batch
	err  error // why nothing is appended any more

	flush  sync.Mutex // held while a batch is written and synced
	closed bool       // guarded by flush
}

// storage is what a journal needs of its file.
type storage interface {
	io.Writer
	Sync() error
	Close() error
}

// batch is what is written and synced at once: while one batch is on its way to the disk, the entries of all other
// goroutines gather in the next one. Without it 64 cells that end together would wait for 64 syncs, one after another.
type batch struct {
	data    []byte
	durable bool // whether an entry of it has to be on the disk
	then    []func()
	done    bool
	err     error
}

// Create makes the journal at path, which must not exist, and syncs its folder, so that the file itself survives a
// power cut. A journal that another process writes is a *BusyError.
func Create(path string, clock func() time.Time) (*Journal, error) {
	return locked(path, clock, func() (*Journal, error) {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return nil, fmt.Errorf("create journal: %w", err)
		}
		if err := syncFolder(path); err != nil {
			return nil, errors.Join(fmt.Errorf("create journal: %w", err), file.Close())
		}
		return &Journal{clock: clock, file: file, next: &batch{}}, nil
	})
}

// Open makes this process the writer of the journal at path and returns what it holds. What is left of a torn last
// line is moved into a file beside it, which Torn tells of. A journal that another process writes is a *BusyError,
// damage before the last line a *CorruptError, one of a newer version a *SchemaError; none of them changes anything.
func Open(path string, clock func() time.Time) (*Journal, []Entry, error) {
	// Looked at first, so that no lock file is made for a journal that does not exist.
	if _, err := os.Stat(path); err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	var entries []Entry
	j, err := locked(path, clock, func() (j *Journal, err error) {
		j, entries, err = open(path, clock)
		return j, err
	})
	if err != nil {
		return nil, nil, err
	}
	return j, entries, nil
}

// locked makes a journal under its lock, which is given back where that does not succeed.
func locked(path string, clock func() time.Time, makeJournal func() (*Journal, error)) (*Journal, error) {
	l, err := lock(path)
	if err != nil {
		return nil, err
	}
	j, err := makeJournal()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	j.lock = l
	if err := sign(path, clock()); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func open(path string, clock func() time.Time) (*Journal, []Entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	entries, tail, err := Scan(path, data)
	if err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	if tail != nil {
		if err := cut(path, file, tail, data[tail.Offset:]); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("set the torn end of %s aside: %w", path, err), file.Close())
		}
	}
	j := &Journal{clock: clock, file: file, tail: tail, seq: int64(len(entries)), next: &batch{}}
	return j, entries, nil
}

// cut moves the tail into a file of its own, in an order in which no power cut loses it.
func cut(path string, file *os.File, tail *Tail, data []byte) error {
	aside, err := createAside(path)
	if err != nil {
		return err
	}
	_, err = aside.Write(data)
	err = errors.Join(err, aside.Sync(), aside.Close())
	if err != nil {
		return err
	}
	if err := syncFolder(path); err != nil {
		return err
	}
	tail.File = aside.Name()
	return errors.Join(file.Truncate(tail.Offset), file.Sync())
}

// asideMost bounds how many torn ends are kept beside one journal; a run does not die that often.
const asideMost = 1000

// createAside makes the first free file of path.torn-1, path.torn-2 and so on.
func createAside(path string) (*os.File, error) {
	for n := 1; n <= asideMost; n++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.torn-%d", path, n), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if !errors.Is(err, os.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("there are %d torn ends beside it already; remove some of them", asideMost)
}

func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Torn returns the torn end that Open found and set aside, nil where there was none.
func (j *Journal) Torn() *Tail { return j.tail }

// Append adds an entry with body as JSON. When it returns nil the entry is on the disk. After a write or a sync that
// did not succeed the state of the file is unknown, so this and every later call returns that error.
func (j *Journal) Append(kind string, body any) error {
	return j.append(kind, body, true, nil)
}

// AppendThen is Append, and calls then once the entry is on the disk, before it returns. Calls of then are made one
// at a time in the order of the entries, so that what is derived from the journal can be written in its order.
func (j *Journal) AppendThen(kind string, body any, then func()) error {
	return j.append(kind, body, true, then)
}

// Note adds an entry that nobody relies on after a power cut: it is written, and synced only with a later Append.
func (j *Journal) Note(kind string, body any) error {
	return j.append(kind, body, false, nil)
}

func (j *Journal) append(kind string, body any, durable bool, then func()) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("append %s to journal: %w", kind, err)
	}
	b, err := j.add(kind, raw, durable, then)
	if err == nil {
		err = j.commit(b)
	}
	if err != nil {
		return fmt.Errorf("append %s to journal: %w", kind, err)
	}
	return nil
}

// add puts an entry into the batch that is written next.
func (j *Journal) add(kind string, body json.RawMessage, durable bool, then func()) (*batch, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return nil, j.err
	}
	line, err := encode(Entry{Seq: j.seq + 1, Time: j.clock().UTC(), Kind: kind, Body: body})
	if err != nil {
		return nil, err
	}
	j.seq++
	b := j.next
	b.data = append(b.data, line...)
	b.durable = b.durable || durable
	if then != nil {
		b.then = append(b.then, then)
	}
	return b, nil
}

// commit returns when the batch is written. The first goroutine to come writes it, for all others that wait.
func (j *Journal) commit(b *batch) error {
	j.flush.Lock()
	defer j.flush.Unlock()
	if b.done {
		return b.err
	}
	j.mu.Lock()
	j.next = &batch{}
	err := j.err
	j.mu.Unlock()
	if err == nil {
		err = j.write(b)
	}
	b.done, b.err = true, err
	if err != nil {
		j.poison(err)
		return err
	}
	for _, then := range b.then {
		then()
	}
	return nil
}

func (j *Journal) write(b *batch) error {
	if _, err := j.file.Write(b.data); err != nil {
		return err
	}
	if !b.durable {
		return nil
	}
	return j.file.Sync()
}

// poison makes every later call return err. A sync that failed once may report success the next time although the
// data is gone, so there is no way to go on with the same file.
func (j *Journal) poison(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
	}
}

// Close ends the writing and gives up the lock. It waits for the batch that is on its way to the disk; an Append that
// is not part of it returns ErrClosed. Closing twice is fine.
func (j *Journal) Close() error {
	j.flush.Lock()
	defer j.flush.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	j.poison(ErrClosed)
	return errors.Join(j.file.Close(), j.lock.Close())
}
