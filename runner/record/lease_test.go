package record

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/journal"
	"cellharness/shared"
)

// handle has every field filled, and bytes that are not UTF-8 where bytes are allowed.
func handle(lease string) shared.Handle {
	return shared.Handle{
		Adapter: "local_worktree", Instance: "here", Version: 3, Lease: lease, Resource: "res-\xfe", Root: "/cache/\xff/" + lease,
		Base: "abc", State: []byte{0, 1, 0xff},
	}
}

func labels() shared.Labels {
	return shared.Labels{Owner: "o", Run: runA, Instance: "here", Cell: "k", Attempt: 2}
}

func TestOpenLeases(t *testing.T) {
	t.Parallel()
	f := started(t)
	left := []Left{{Kind: "workspace", Name: "/w", Detail: "busy"}}
	ends := []struct {
		lease  string
		bound  bool
		closed []LeaseClosed
		open   bool
	}{
		{"asked", false, nil, true},
		{"bound", true, nil, true},
		{"clean", true, []LeaseClosed{{Cleanup: CleanupClean}}, false},
		{"never-came", false, []LeaseClosed{{Cleanup: CleanupClean}}, false},
		{"leaked", true, []LeaseClosed{{Cleanup: CleanupLeaked, Left: left}}, true},
		{"unknown", true, []LeaseClosed{{Cleanup: CleanupUnknown}}, true},
		{"kept", true, []LeaseClosed{{Cleanup: CleanupKept}}, true},
		{"leaked-then-gone", true, []LeaseClosed{{Cleanup: CleanupLeaked, Left: left}, {Cleanup: CleanupClean}}, false},
	}
	var want []Lease
	for _, e := range ends {
		l := Lease{Lease: e.lease, Instance: "here", Labels: labels(), Cell: "x/t/v#1", Attempt: 2}
		if err := f.LeaseOpened(LeaseOpened{Lease: e.lease, Instance: "here", Labels: labels(), Cell: "x/t/v#1", Attempt: 2}); err != nil {
			t.Fatal(err)
		}
		if e.bound {
			h := handle(e.lease)
			l.Handle = &h
			if err := f.LeaseBound(LeaseBound{Lease: e.lease, Handle: h}); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range e.closed {
			c.Lease = e.lease
			l.Cleanup, l.Left = c.Cleanup, c.Left
			if err := f.LeaseClosed(c); err != nil {
				t.Fatal(err)
			}
		}
		if e.open {
			want = append(want, l)
		}
	}
	entries, err := f.Entries()
	if err != nil {
		t.Fatal(err)
	}
	got, err := OpenLeases(entries)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLeaseKeepsEveryByteInJSON(t *testing.T) {
	t.Parallel()
	h := handle("l")
	want := Lease{
		Lease: "l", Instance: "here", Labels: labels(), Cell: "x/t/v#1", Attempt: 2, Handle: &h, Cleanup: CleanupLeaked,
		Left: []Left{{Kind: "k", Name: "n", Detail: "d"}},
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Lease
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", data, diff)
	}
}

func TestLeaseEntriesThatDoNotFitAreTold(t *testing.T) {
	t.Parallel()
	tests := map[string]journal.Entry{
		"closed and never opened": {Seq: 1, Kind: KindLeaseClosed, Body: json.RawMessage(`{"lease":"l","cleanup":"clean"}`)},
		"another form":            {Seq: 1, Kind: KindLeaseOpened, Body: json.RawMessage(`{"lease":7}`)},
	}
	for name, entry := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := OpenLeases([]journal.Entry{entry}); err == nil {
				t.Errorf("got %v and no error", got)
			}
		})
	}
}
