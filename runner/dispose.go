package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cellharness/runner/event"
	"cellharness/runner/record"
	"cellharness/runner/state"
	"cellharness/shared"
)

// openLease records that a workspace may exist from now on: in the machine's index and, durably, in the journal.
func (a *attempt) openLease(ws *workspace) error {
	err := a.cfg.Leases.Add(state.Lease{
		Lease: ws.lease, Owner: a.cfg.Owner, Run: a.cfg.Folder.ID(), Folder: a.cfg.Folder.Dir(),
		Instance: a.cell.Adapter, Cell: a.cell.Address, Key: a.cell.Key, Attempt: a.number, Opened: a.cfg.Clock().UTC(),
	})
	if err != nil {
		a.lose(err)
		return err
	}
	err = a.cfg.Folder.LeaseOpened(record.LeaseOpened{
		Lease: ws.lease, Instance: a.cell.Adapter, Labels: ws.labels, Cell: a.cell.Address, Attempt: a.number,
	})
	if err != nil {
		err = errors.Join(err, a.cfg.Leases.Remove(ws.lease)) // nothing will be asked for under it
		a.lose(err)
		return err
	}
	a.workspaces = append(a.workspaces, ws)
	a.cfg.Events.Emit(&event.LeaseOpened{Lease: ws.lease, Cell: a.cell.Address, Attempt: a.number})
	return nil
}

// dispose removes the attempt's workspaces, or keeps them where the definition asks for it. It goes on when the run is
// cancelled, within its own bound, and what it could not do is told beside the result, never in its place.
func (a *attempt) dispose(ctx context.Context) {
	keep := a.keep()
	var gone []*workspace
	for _, ws := range a.workspaces {
		if keep && ws.handle != nil {
			a.keepWorkspace(ws)
		} else {
			gone = append(gone, ws)
		}
	}
	if len(gone) == 0 {
		return
	}
	bound := time.Duration(len(gone)*removeTries) * teardownBound
	err := a.phase(context.WithoutCancel(ctx), shared.PhaseTeardown, bound, func(ctx context.Context) error {
		var errs []error
		for _, ws := range gone {
			left, err := a.remove(ctx, ws)
			errs = append(errs, err)
			a.closeLease(ws, left, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		a.keepStack(err)
		a.cfg.Events.Emit(&event.CellError{
			Cell: a.cell.Address, Attempt: a.number, Phase: shared.PhaseTeardown, Cause: causeIn(err),
			Message: a.text(err.Error()),
		})
	}
}

// keep tells whether the definition wants to see the workspaces of this attempt. One that the user stopped has not
// failed.
func (a *attempt) keep() bool {
	for _, ad := range a.cfg.Plan.Adapters {
		if ad.Instance != a.cell.Adapter {
			continue
		}
		failed := a.result.Status != shared.StatusCancelled && (a.result.Passed == nil || !*a.result.Passed)
		return ad.Keep == shared.KeepAlways || (ad.Keep == shared.KeepOnFailure && failed)
	}
	return false
}

// keepWorkspace leaves a workspace and its lease, so that gc finds it when it is no longer wanted.
func (a *attempt) keepWorkspace(ws *workspace) {
	a.ended(ws, record.CleanupKept, []record.Left{{
		Kind: "workspace", Name: ws.name(), Detail: "kept, as keep_workspaces asks for",
	}})
}

// removeTries covers the death of the adapter process in the first of them: the next generation takes over.
const removeTries = 2

// remove tears a workspace down and says what is left of it.
func (a *attempt) remove(ctx context.Context, ws *workspace) (left []record.Left, err error) {
	for range removeTries {
		err = guard(func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, teardownBound)
			defer cancel()
			left, err = a.removeOnce(ctx, ws)
			return err
		})
		if cause := causeIn(err); cause != shared.CauseAdapterCrashed && cause != shared.CauseAdapterHung {
			break
		}
	}
	return left, err
}

func (a *attempt) removeOnce(ctx context.Context, ws *workspace) ([]record.Left, error) {
	adapter, err := a.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire the adapter: %w", err)
	}
	handles := []shared.Handle{}
	if ws.handle != nil {
		handles = append(handles, *ws.handle)
	} else {
		// Provision has not answered with a workspace. It may be under way still, so it is ended by its lease; and
		// whatever is there all the same is looked for.
		d := adapter.Description()
		handles = append(handles, shared.Handle{
			Adapter: d.Name, Instance: a.cell.Adapter, Version: d.HandleVersion, Lease: ws.lease,
		})
		if left, err := teardown(ctx, adapter, handles); err != nil || len(left) > 0 {
			return left, err
		}
		handles = handles[:0]
		found, err := adapter.Find(ctx, ws.labels)
		if err != nil {
			return nil, fmt.Errorf("look for the workspace: %w", err)
		}
		for _, f := range found {
			if f.Handle.Lease == ws.lease {
				handles = append(handles, f.Handle)
			}
		}
	}
	return teardown(ctx, adapter, handles)
}

// teardown removes workspaces and says what is left of them.
func teardown(ctx context.Context, adapter Adapter, handles []shared.Handle) (left []record.Left, err error) {
	for _, h := range handles {
		report, err := adapter.Teardown(ctx, h)
		if err != nil {
			return left, fmt.Errorf("remove workspace %s: %w", h.Lease, err)
		}
		left = append(left, leftOf(report)...)
	}
	return left, nil
}

func leftOf(report shared.TeardownReport) []record.Left {
	var left []record.Left
	for _, r := range report.Resources {
		if r.State == shared.ResourceRemoved || r.State == shared.ResourceAbsent {
			continue
		}
		left = append(left, record.Left{Kind: r.Kind, Name: record.Printable(r.Name), Detail: record.Printable(r.Detail)})
	}
	return left
}

// closeLease records what became of a workspace that was to be removed. A lease of which nothing is known, or of which
// something is left, stays open: gc comes back to it.
func (a *attempt) closeLease(ws *workspace, left []record.Left, err error) {
	cleanup := record.CleanupClean
	switch {
	case err != nil:
		cleanup = record.CleanupUnknown
		left = append(left, record.Left{Kind: "workspace", Name: ws.name(), Detail: a.text(err.Error())})
	case len(left) > 0:
		cleanup = record.CleanupLeaked
	}
	a.ended(ws, cleanup, left)
}

// ended records the end of a workspace in the result, the journal, the machine's index and the events.
func (a *attempt) ended(ws *workspace, cleanup record.Cleanup, left []record.Left) {
	a.result.Left = append(a.result.Left, left...)
	a.result.Cleanup = worse(a.result.Cleanup, cleanup)
	if err := a.cfg.Folder.LeaseClosed(record.LeaseClosed{Lease: ws.lease, Cleanup: cleanup, Left: left}); err != nil {
		a.lose(err)
	}
	if cleanup == record.CleanupClean {
		if err := a.cfg.Leases.Remove(ws.lease); err != nil {
			a.lose(err)
		}
	}
	a.cfg.Events.Emit(&event.LeaseClosed{Lease: ws.lease, Cleanup: cleanup, Left: left})
}

// worse is what an attempt with two workspaces has to tell of its cleanup.
func worse(a, b record.Cleanup) record.Cleanup {
	order := []record.Cleanup{record.CleanupClean, record.CleanupKept, record.CleanupUnknown, record.CleanupLeaked}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// name is what a person can look for.
func (ws *workspace) name() string {
	if ws.handle == nil {
		return ws.lease
	}
	return record.Printable(ws.handle.Root)
}
