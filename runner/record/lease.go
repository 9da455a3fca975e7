package record

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"cellharness/runner/journal"
	"cellharness/shared"
)

// LeaseOpened tells that a workspace may exist.
type LeaseOpened struct {
	Lease    string // ULID that names the workspace
	Instance string // of the adapter that is asked for it
	Labels   shared.Labels
	Cell     string // address
	Attempt  int
}

// LeaseBound tells which workspace a lease has become.
type LeaseBound struct {
	Lease  string
	Handle shared.Handle
}

// LeaseClosed tells what became of the workspace of a lease. Only CleanupClean means that it is gone.
type LeaseClosed struct {
	Lease   string  `json:"lease"`
	Cleanup Cleanup `json:"cleanup"`
	Left    []Left  `json:"left,omitempty"`
}

// Lease is all that is known of a workspace that may exist. Its JSON form keeps every byte of the handle, so that it
// can be disposed of by any later process.
type Lease struct {
	Lease    string
	Instance string
	Labels   shared.Labels
	Cell     string // address
	Attempt  int
	Handle   *shared.Handle // nil: asked for, and not known whether it came to be
	Cleanup  Cleanup        // empty: nobody has tried to dispose of it
	Left     []Left
}

// OpenLeases returns the leases of a journal whose workspace is not proved gone, in the order in which they were
// opened: never closed, leaked, unknown or kept. The error means that an entry could not be read, so that the list
// would not be complete.
func OpenLeases(entries []journal.Entry) ([]Lease, error) {
	var order []string
	open := map[string]*Lease{}
	for _, e := range entries {
		var l Lease
		switch e.Kind {
		case KindLeaseOpened, KindLeaseBound, KindLeaseClosed:
			if err := json.Unmarshal(e.Body, &l); err != nil {
				return nil, fmt.Errorf("read %s in line %d of the journal: %w", e.Kind, e.Seq, err)
			}
		default:
			continue
		}
		known := open[l.Lease]
		switch {
		case e.Kind == KindLeaseOpened:
			open[l.Lease] = &l
			order = append(order, l.Lease)
		case known == nil:
			return nil, fmt.Errorf("line %d of the journal speaks of lease %s, which was not opened before", e.Seq, l.Lease)
		case e.Kind == KindLeaseBound:
			known.Handle = l.Handle
		default:
			known.Cleanup, known.Left = l.Cleanup, l.Left
		}
	}
	var leases []Lease
	for _, id := range order {
		if open[id].Cleanup != CleanupClean {
			leases = append(leases, *open[id])
		}
	}
	return leases, nil
}

// leaseJSON is the JSON form of everything about leases.
type leaseJSON struct {
	Lease    string      `json:"lease"`
	Instance string      `json:"instance,omitempty"`
	Labels   *labelsJSON `json:"labels,omitempty"`
	Cell     string      `json:"cell,omitempty"`
	Attempt  int         `json:"attempt,omitempty"`
	Handle   *handleJSON `json:"handle,omitempty"`
	Cleanup  Cleanup     `json:"cleanup,omitempty"`
	Left     []Left      `json:"left,omitempty"`
}

type labelsJSON struct {
	Owner    string `json:"owner"`
	Run      string `json:"run"`
	Instance string `json:"instance"`
	Cell     string `json:"cell"`
	Attempt  int64  `json:"attempt"`
}

type handleJSON struct {
	Adapter  string    `json:"adapter"`
	Instance string    `json:"instance"`
	Version  uint32    `json:"version"`
	Lease    string    `json:"lease"`
	Resource exactText `json:"resource"`
	Root     exactText `json:"root"`
	Base     string    `json:"base"`
	State    []byte    `json:"state,omitempty"`
}

// exactText is text that may hold any bytes. In JSON it is a string where it is UTF-8, and otherwise an object with
// its base64: a path that came back changed would be a path that is never removed.
type exactText string

type base64Text struct {
	Base64 []byte `json:"base64"`
}

func (e exactText) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(e)) {
		return json.Marshal(string(e))
	}
	return json.Marshal(base64Text{[]byte(e)})
}

func (e *exactText) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var b base64Text
		err := json.Unmarshal(data, &b)
		*e = exactText(b.Base64)
		return err
	}
	return json.Unmarshal(data, (*string)(e))
}

// MarshalJSON keeps every byte of the lease.
func (l LeaseOpened) MarshalJSON() ([]byte, error) {
	labels := labelsJSON(l.Labels)
	return json.Marshal(leaseJSON{
		Lease: l.Lease, Instance: l.Instance, Labels: &labels, Cell: l.Cell, Attempt: l.Attempt,
	})
}

// MarshalJSON keeps every byte of the handle.
func (l LeaseBound) MarshalJSON() ([]byte, error) {
	return json.Marshal(leaseJSON{Lease: l.Lease, Handle: toHandleJSON(&l.Handle)})
}

// MarshalJSON keeps every byte of the lease.
func (l Lease) MarshalJSON() ([]byte, error) {
	labels := labelsJSON(l.Labels)
	return json.Marshal(leaseJSON{
		Lease: l.Lease, Instance: l.Instance, Labels: &labels, Cell: l.Cell, Attempt: l.Attempt,
		Handle: toHandleJSON(l.Handle), Cleanup: l.Cleanup, Left: l.Left,
	})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (l *Lease) UnmarshalJSON(data []byte) error {
	var j leaseJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*l = Lease{
		Lease: j.Lease, Instance: j.Instance, Cell: j.Cell, Attempt: j.Attempt, Cleanup: j.Cleanup, Left: j.Left,
	}
	if j.Labels != nil {
		l.Labels = shared.Labels(*j.Labels)
	}
	if h := j.Handle; h != nil {
		l.Handle = &shared.Handle{
			Adapter: h.Adapter, Instance: h.Instance, Version: h.Version, Lease: h.Lease,
			Resource: string(h.Resource), Root: string(h.Root), Base: h.Base, State: h.State,
		}
	}
	return nil
}

func toHandleJSON(h *shared.Handle) *handleJSON {
	if h == nil {
		return nil
	}
	return &handleJSON{
		Adapter: h.Adapter, Instance: h.Instance, Version: h.Version, Lease: h.Lease,
		Resource: exactText(h.Resource), Root: exactText(h.Root), Base: h.Base, State: h.State,
	}
}
