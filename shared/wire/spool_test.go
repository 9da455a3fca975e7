package wire

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cellharness/shared"
)

// pieces returns a source of the chunks of data.
func pieces(data []byte, size int) func() ([]byte, error) {
	return func() ([]byte, error) {
		n := min(size, len(data))
		chunk := data[:n]
		data = data[n:]
		return chunk, nil
	}
}

func TestSpool_ManyContents(t *testing.T) {
	t.Parallel()
	s := spool{dir: t.TempDir()}
	var kept []shared.Content
	inputs := [][]byte{[]byte("first"), {}, pattern(maxSpoolMemory - 6), []byte("crosses into the file"), pattern(maxSpoolMemory)}
	for i, data := range inputs {
		c, err := s.receive(content(data), pieces(data, 1000))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, c)
		if inMemory := i < 3; (s.file == nil) != inMemory {
			t.Errorf("after content %d the spool is in memory: %t, want %t", i, s.file == nil, inMemory)
		}
	}
	if len(s.memory) != 0 {
		t.Errorf("%d bytes stayed in memory", len(s.memory))
	}
	if names, err := filepath.Glob(filepath.Join(s.dir, "*")); err != nil || len(names) != 0 {
		t.Errorf("the file has the name %v, %v; it should have none", names, err)
	}
	for i, c := range kept {
		if got, err := read(c); err != nil || !bytes.Equal(got, inputs[i]) {
			t.Errorf("content %d has %d bytes and is wrong, %v", i, len(got), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := read(kept[0]); err == nil {
		t.Error("a content could be read after the end of its call")
	}
}

func TestSpool_NoRoom(t *testing.T) {
	t.Parallel()
	s := spool{dir: filepath.Join(t.TempDir(), "missing")}
	data := pattern(maxSpoolMemory + 1)
	_, err := s.receive(content(data), pieces(data, maxChunk))
	if !errors.Is(err, shared.OfCause(shared.CauseStorage)) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("receive: %v, want a failure of storage", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
