package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTornAtEveryByteOfTheLastTwoLines(t *testing.T) {
	t.Parallel()
	_, data := written(t, 4)
	ends := lineEnds(data)
	for cut := ends[1]; cut < len(data); cut++ {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		overwrite(t, path, data[:cut])
		whole := bytes.Count(data[:cut], []byte{'\n'})
		torn := data[ends[whole-1]:cut]

		read, err := Read(path)
		if err != nil || len(read) != whole {
			t.Fatalf("cut at %d: Read gives %d entries and %v, wanted %d", cut, len(read), err, whole)
		}
		j, entries, err := Open(path, clock())
		if err != nil || len(entries) != whole {
			t.Fatalf("cut at %d: Open gives %d entries and %v, wanted %d", cut, len(entries), err, whole)
		}
		checkTorn(t, j, path, torn)
		if err := errors.Join(j.Append("work", work{N: whole}), j.Close()); err != nil {
			t.Fatal(err)
		}
		again, err := Read(path)
		if err != nil {
			t.Fatalf("cut at %d: read again: %v", cut, err)
		}
		if got := numbers(t, again); len(got) != whole+1 || got[whole] != whole {
			t.Fatalf("cut at %d: after one more entry there are %v", cut, got)
		}
	}
}

func checkTorn(t *testing.T, j *Journal, path string, torn []byte) {
	t.Helper()
	tail := j.Torn()
	if len(torn) == 0 {
		if tail != nil {
			t.Fatalf("nothing is torn, and Torn is %+v", tail)
		}
		return
	}
	if tail == nil || tail.File != path+".torn-1" || tail.Bytes != int64(len(torn)) {
		t.Fatalf("%q is torn, and Torn is %+v", torn, tail)
	}
	if got := content(t, tail.File); !bytes.Equal(got, torn) {
		t.Fatalf("%s holds %q, wanted %q", tail.File, got, torn)
	}
}

func lineEnds(data []byte) []int {
	var ends []int
	for i, b := range data {
		if b == '\n' {
			ends = append(ends, i+1)
		}
	}
	return ends
}

func TestBadLastLineIsSetAside(t *testing.T) {
	t.Parallel()
	_, data := written(t, 3)
	ends := lineEnds(data)
	flipped := bytes.Clone(data)
	flipped[ends[1]+20] ^= 1
	tests := map[string]struct {
		data  []byte
		whole int
	}{
		"zero tail":             {append(bytes.Clone(data), make([]byte, 4096)...), 3},
		"doubled line":          {append(bytes.Clone(data), data[ends[1]:]...), 3},
		"wrong checksum":        {flipped, 2},
		"empty line":            {append(bytes.Clone(data), '\n'), 3},
		"nothing but a bad one": {[]byte("x"), 0},
		"empty file":            {nil, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			overwrite(t, path, tt.data)
			j, entries, err := Open(path, clock())
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if len(entries) != tt.whole {
				t.Errorf("%d entries, wanted %d", len(entries), tt.whole)
			}
			kept := append(content(t, path), tt.data[len(content(t, path)):]...)
			if j.Torn() != nil {
				kept = append(content(t, path), content(t, j.Torn().File)...)
			}
			if !bytes.Equal(kept, tt.data) {
				t.Errorf("journal and torn end together are %d bytes, wanted the %d that were there", len(kept), len(tt.data))
			}
		})
	}
}

func TestEachTornEndGetsAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	path, data := written(t, 2)
	for n := 1; n <= 3; n++ {
		overwrite(t, path, append(bytes.Clone(data), "torn"...))
		j, _, err := Open(path, clock())
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%s.torn-%d", path, n); j.Torn().File != want {
			t.Errorf("torn end is in %s, wanted %s", j.Torn().File, want)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamageBeforeTheLastLineIsRefused(t *testing.T) {
	t.Parallel()
	_, data := written(t, 4)
	ends := lineEnds(data)
	second := data[ends[0]:ends[1]]
	replaced := func(b []byte) []byte { return bytes.Join([][]byte{data[:ends[0]], b, data[ends[1]:]}, nil) }
	tests := map[string][]byte{
		"missing line": replaced(nil),
		"doubled line": replaced(bytes.Repeat(second, 2)),
		"zeros":        replaced(append(make([]byte, len(second)-1), '\n')),
		"empty line":   replaced([]byte("\n")),
		"two in one":   replaced(append(bytes.Clone(second[:len(second)-1]), ' ')),
	}
	for at := range second {
		flipped := bytes.Clone(second)
		flipped[at] ^= 1
		tests[fmt.Sprintf("flipped bit in byte %d", at)] = replaced(flipped)
	}
	for name, damaged := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			overwrite(t, path, damaged)
			before := folder(t, path)
			_, _, openErr := Open(path, clock())
			_, readErr := Read(path)
			for _, err := range []error{openErr, readErr} {
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) {
					t.Fatalf("got %v, wanted a *CorruptError", err)
				}
				if line := wantedLine(name); corrupt.Line != line || !strings.Contains(err.Error(), fmt.Sprintf("line %d", line)) {
					t.Errorf("got %v, wanted line %d", err, line)
				}
			}
			if diff := cmp.Diff(before, folder(t, path)); diff != "" {
				t.Errorf("the folder changed:\n%s", diff)
			}
		})
	}
}

// wantedLine is the first line that cannot be right: a copy of line 2 is line 3.
func wantedLine(name string) int {
	if name == "doubled line" {
		return 3
	}
	return 2
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	path, data := written(t, 2)
	line := []byte(`{"seq":3,"time":"2026-01-02T03:04:05Z","kind":"new","v":7,"body":{}`)
	data = append(data, fmt.Appendf(line, "%s%08x\"}\n", crcMark, checksum(line))...)
	overwrite(t, path, data)
	_, _, openErr := Open(path, clock())
	_, readErr := Read(path)
	for _, err := range []error{openErr, readErr} {
		var newer *SchemaError
		if !errors.As(err, &newer) || newer.Got != 7 || newer.Known != Schema {
			t.Errorf("got %v, wanted a *SchemaError that names 7 and %d", err, Schema)
		}
	}
	if !bytes.Equal(content(t, path), data) {
		t.Error("the journal was changed")
	}
}

func FuzzScan(f *testing.F) {
	line, err := encode(Entry{Seq: 1, Kind: "work", Body: json.RawMessage(`{}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(",\"crc\":\"00000000\"}\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, tail, err := Scan("journal.jsonl", data)
		if err != nil {
			return
		}
		whole := bytes.Count(data, []byte{'\n'})
		if tail == nil && len(entries) != whole {
			t.Errorf("%d lines give %d entries and no tail", whole, len(entries))
		}
		if tail != nil && tail.Offset+tail.Bytes != int64(len(data)) {
			t.Errorf("the tail %+v does not reach the end, %d", tail, len(data))
		}
	})
}
