package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// lockPatience is how long a writer waits for the lock. A writer holds it for its whole life, so waiting for one is
// useless; this only outlasts a Busy of another process, which holds it for microseconds.
const (
	lockPatience = 300 * time.Millisecond
	lockRetry    = 10 * time.Millisecond
)

// BusyError is a journal that another process writes.
type BusyError struct {
	Path string
	PID  int // of the writer; 0 where it could not be read
}

// Error names the process.
func (e *BusyError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is being written by another process; wait until that run has ended", e.Path)
	}
	return fmt.Sprintf("%s is being written by process %d; wait until that run has ended, or stop it with kill -INT %d",
		e.Path, e.PID, e.PID)
}

// holder is the content of the lock file. It is for messages only: the lock itself is what counts.
type holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

func lockPath(path string) string { return path + ".lock" }

// lock makes this process the writer of the journal at path.
func lock(path string) (*flock.Flock, error) {
	l := flock.New(lockPath(path), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o644))
	return l, acquire(path, l.TryLockContext)
}

// Share keeps writers away from the journal at path until release is called, so that what is derived from it can be
// written. Several processes may share it. The error is a *BusyError where there is a writer.
func Share(path string) (release func() error, err error) {
	l := flock.New(lockPath(path), flock.SetFlag(os.O_CREATE|os.O_RDONLY), flock.SetPermissions(0o644))
	return l.Close, acquire(path, l.TryRLockContext)
}

func acquire(path string, try func(context.Context, time.Duration) (bool, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	held, err := try(ctx, lockRetry)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("lock journal: %w", err)
	}
	if !held {
		return &BusyError{Path: path, PID: readHolder(path)}
	}
	return nil
}

// sign writes into the lock file who holds the lock.
func sign(path string, now time.Time) error {
	data, err := json.Marshal(holder{PID: os.Getpid(), Since: now.UTC()})
	if err != nil {
		return fmt.Errorf("lock journal: %w", err)
	}
	if err := os.WriteFile(lockPath(path), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("lock journal: %w", err)
	}
	return nil
}

// readHolder returns the process that wrote the lock file, or 0: its only use is a better message.
func readHolder(path string) int {
	data, err := os.ReadFile(lockPath(path))
	if err != nil {
		return 0
	}
	var h holder
	if json.Unmarshal(data, &h) != nil {
		return 0
	}
	return h.PID
}

// Busy tells whether a process writes the journal at path, and which. The answer may be old when it arrives. The
// error means that it could not be told.
func Busy(path string) (pid int, busy bool, err error) {
	if _, err := os.Stat(lockPath(path)); errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	l := flock.New(lockPath(path), flock.SetFlag(os.O_RDONLY))
	held, err := l.TryRLock()
	if err != nil {
		return 0, false, fmt.Errorf("ask for the lock of the journal: %w", err)
	}
	if !held {
		return readHolder(path), true, nil
	}
	return 0, false, l.Close()
}
