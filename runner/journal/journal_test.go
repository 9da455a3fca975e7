package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type work struct{ G, N int }

// clock ticks a second a call from a fixed start.
func clock() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

// written makes a journal of n entries and returns its path and bytes.
func written(t *testing.T, n int) (string, []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := Create(path, clock())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := j.Append("work", work{N: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path, content(t, path)
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// folder lists the names and contents of the folder of path, without the lock file.
func folder(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n.Name() != "journal.jsonl.lock" {
			files[n.Name()] = string(content(t, filepath.Join(filepath.Dir(path), n.Name())))
		}
	}
	return files
}

func numbers(t *testing.T, entries []Entry) []int {
	t.Helper()
	ns := []int{}
	for i, e := range entries {
		if e.Seq != int64(i+1) || e.Kind != "work" {
			t.Fatalf("entry %d is %d %s", i+1, e.Seq, e.Kind)
		}
		var w work
		if err := json.Unmarshal(e.Body, &w); err != nil {
			t.Fatal(err)
		}
		ns = append(ns, w.N)
	}
	return ns
}

func TestLineHasTheDocumentedForm(t *testing.T) {
	t.Parallel()
	_, data := written(t, 1)
	// The checksum was computed with an independent implementation (Python, table of polynomial 0x82f63b78).
	want := `{"seq":1,"time":"2026-01-02T03:04:07Z","kind":"work","v":1,"body":{"G":0,"N":0},"crc":"de875390"}` + "\n"
	if got := string(data); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestReadGivesWhatWasAppended(t *testing.T) {
	t.Parallel()
	path, _ := written(t, 3)
	entries, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 1, 2}, numbers(t, entries)); diff != "" {
		t.Error(diff)
	}
	if want := time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC); !entries[0].Time.Equal(want) {
		t.Errorf("time is %v, wanted %v", entries[0].Time, want)
	}
}

func TestOneWriterAtATime(t *testing.T) {
	t.Parallel()
	path, _ := written(t, 1)
	j, _, err := Open(path, clock())
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if _, _, err := Open(path, clock()); !errors.As(err, &busy) || busy.PID != os.Getpid() {
		t.Errorf("second writer: got %v, wanted a *BusyError with pid %d", err, os.Getpid())
	}
	if _, err := Create(path, clock()); !errors.As(err, &busy) {
		t.Errorf("second creator: got %v, wanted a *BusyError", err)
	}
	if pid, held, err := Busy(path); err != nil || !held || pid != os.Getpid() {
		t.Errorf("Busy is %d, %v, %v", pid, held, err)
	}
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	if _, held, err := Busy(path); err != nil || held {
		t.Errorf("after Close Busy is %v, %v", held, err)
	}
	if err := j.Append("work", work{}); !errors.Is(err, ErrClosed) {
		t.Errorf("append after Close: %v", err)
	}
	if _, err := Create(path, clock()); !errors.Is(err, os.ErrExist) {
		t.Errorf("create over a journal: %v", err)
	}
}

// faultyFile counts and can be told to block or to fail.
type faultyFile struct {
	storage
	mu       sync.Mutex
	writes   int
	syncs    int
	unsynced []byte
	synced   []byte
	hold     chan struct{} // a sync waits for it to be closed
	entered  chan struct{} // gets a value when a sync begins
	writeErr error
	syncErr  error
}

func (f *faultyFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	if f.writeErr != nil {
		return 0, f.writeErr
	}
	f.unsynced = append(f.unsynced, p...)
	return len(p), nil
}

func (f *faultyFile) Sync() error {
	if f.entered != nil {
		f.entered <- struct{}{}
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.syncs++
	f.synced, f.unsynced = append(f.synced, f.unsynced...), nil
	return f.syncErr
}

func faulty(f *faultyFile) *Journal {
	return &Journal{clock: clock(), file: f, next: &batch{}}
}

func TestConcurrentAppendsShareASync(t *testing.T) {
	t.Parallel()
	const appends = 50
	f := &faultyFile{hold: make(chan struct{}), entered: make(chan struct{}, 10)}
	j := faulty(f)
	var group sync.WaitGroup
	errs := make(chan error, appends+1)
	group.Go(func() { errs <- j.Append("first", nil) })
	<-f.entered // the first is being synced; all others have to gather behind it
	for range appends {
		group.Go(func() { errs <- j.Append("other", nil) })
	}
	waitFor(t, func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.seq == appends+1
	})
	close(f.hold)
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if f.syncs != 2 {
		t.Errorf("%d appends took %d syncs, wanted 2", appends+1, f.syncs)
	}
	entries, tail, err := Scan("journal.jsonl", f.synced)
	if err != nil || tail != nil || len(entries) != appends+1 {
		t.Errorf("%d entries are on the disk, tail %v, error %v", len(entries), tail, err)
	}
}

func waitFor(t *testing.T, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition was not met in 30 s")
		}
	}
}

func TestEntryIsSyncedWhenAppendReturns(t *testing.T) {
	t.Parallel()
	f := &faultyFile{}
	j := faulty(f)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for n := range 50 {
				kind := fmt.Sprintf("k-%d-%d", g, n)
				if err := j.Append(kind, nil); err != nil {
					t.Error(err)
				}
				f.mu.Lock()
				found := bytes.Contains(f.synced, []byte(`"`+kind+`"`))
				f.mu.Unlock()
				if !found {
					t.Errorf("%s was acknowledged and is not synced", kind)
				}
			}
		})
	}
	group.Wait()
}

func TestNoteIsWrittenAndNotSynced(t *testing.T) {
	t.Parallel()
	f := &faultyFile{}
	j := faulty(f)
	if err := j.Note("note", nil); err != nil {
		t.Fatal(err)
	}
	if f.writes != 1 || f.syncs != 0 {
		t.Errorf("%d writes and %d syncs, wanted 1 and 0", f.writes, f.syncs)
	}
	if err := j.Append("entry", nil); err != nil {
		t.Fatal(err)
	}
	if f.syncs != 1 {
		t.Errorf("%d syncs after an Append, wanted 1", f.syncs)
	}
}

func TestThenRunsInOrderAfterTheSync(t *testing.T) {
	t.Parallel()
	f := &faultyFile{}
	j := faulty(f)
	var order []string // written by then alone, one at a time
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for n := range 20 {
				kind := fmt.Sprintf("k-%d-%d", g, n)
				if err := j.AppendThen(kind, nil, func() { order = append(order, kind) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	entries, _, err := Scan("journal.jsonl", f.synced)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range entries {
		want = append(want, e.Kind)
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order of then differs from the journal:\n%s", diff)
	}
}

func TestFailedDiskPoisons(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		break_ func(*faultyFile, error)
		want   error
	}{
		"write": {func(f *faultyFile, err error) { f.writeErr = err }, syscall.ENOSPC},
		"sync":  {func(f *faultyFile, err error) { f.syncErr = err }, syscall.EIO},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &faultyFile{}
			j := faulty(f)
			if err := j.Append("good", nil); err != nil {
				t.Fatal(err)
			}
			tt.break_(f, tt.want)
			ran := false
			if err := j.AppendThen("bad", nil, func() { ran = true }); !errors.Is(err, tt.want) || ran {
				t.Errorf("got %v (then ran: %v), wanted %v", err, ran, tt.want)
			}
			tt.break_(f, nil)
			writes := f.writes
			for range 2 {
				if err := j.Append("later", nil); !errors.Is(err, tt.want) {
					t.Errorf("later: got %v, wanted %v for ever", err, tt.want)
				}
			}
			if err := j.Note("later", nil); !errors.Is(err, tt.want) {
				t.Errorf("note: got %v, wanted %v", err, tt.want)
			}
			if f.writes != writes {
				t.Error("a poisoned journal was written to")
			}
		})
	}
}

func TestFullDiskPoisons(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("needs /dev/full, which gives ENOSPC: %v", err)
	}
	defer full.Close()
	j := &Journal{clock: clock(), file: full, next: &batch{}}
	for range 2 {
		if err := j.Append("work", nil); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, wanted ENOSPC", err)
		}
	}
}

func TestUnmarshalableBodyHarmsNothing(t *testing.T) {
	t.Parallel()
	f := &faultyFile{}
	j := faulty(f)
	if err := j.Append("bad", func() {}); err == nil {
		t.Error("a func was appended")
	}
	if err := j.Append("good", nil); err != nil {
		t.Errorf("after it: %v", err)
	}
}
