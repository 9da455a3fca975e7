package runner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/shared"
)

// provision asks for a workspace: at the base commit, or at the base with a patch on top. Its lease is recorded first.
func (a *attempt) provision(ctx context.Context, patch *shared.Content) (*workspace, error) {
	ws := &workspace{lease: a.cfg.NewID(), labels: shared.Labels{
		Owner: a.cfg.Owner, Run: a.cfg.Folder.ID(), Instance: a.cell.Adapter, Cell: a.cell.Key, Attempt: int64(a.number),
	}}
	phase := shared.PhaseProvision
	if patch != nil {
		phase = shared.PhaseVerify
	}
	return ws, a.phase(ctx, phase, provisionBound, func(ctx context.Context) error {
		adapter, err := a.acquire(ctx)
		if err != nil {
			return err
		}
		ws.generation = adapter.Generation()
		if patch == nil {
			a.adapter, a.result.Generation = adapter, ws.generation
		}
		if err := a.openLease(ws); err != nil {
			return err
		}
		made, err := adapter.Provision(ctx, shared.ProvisionSpec{
			Lease: ws.lease, Labels: ws.labels, Ref: a.cell.Ref, Base: a.cell.Base, Patch: patch, Lifetime: a.lifetime(),
		})
		if err != nil {
			return err
		}
		return a.bind(ws, made)
	})
}

// bind takes the workspace that Provision made. One of another lease is not ours to touch, and one at another commit
// than the plan's would measure something else.
func (a *attempt) bind(ws *workspace, made shared.Provisioned) error {
	if made.Handle.Lease != ws.lease {
		return protocolError("a workspace was asked for under the lease %s, and came under %q", ws.lease, a.text(made.Handle.Lease))
	}
	ws.handle = &made.Handle
	if err := a.cfg.Folder.LeaseBound(record.LeaseBound{Lease: ws.lease, Handle: made.Handle}); err != nil {
		a.lose(err)
		return err
	}
	if a.cell.Base != "" && made.BaseSHA != a.cell.Base {
		return protocolError("a workspace was asked for at commit %s, and was made at %q", a.cell.Base, a.text(made.BaseSHA))
	}
	a.result.BaseSHA = made.BaseSHA
	if len(a.workspaces) == 1 { // a second one has the same to say of the same commit
		a.notice(made.Notices...)
	}
	return nil
}

// lifetime bounds how long the cell's workspace can be needed.
func (a *attempt) lifetime() time.Duration {
	d := provisionBound + collectBound + removeTries*teardownBound + bound(a.cell.Cell)
	if a.cell.Setup != nil {
		d += bound(*a.cell.Setup)
	}
	if v := a.cell.Verify; v != nil {
		d += bound(v.Step)
		if v.Fresh {
			d += provisionBound
		}
	}
	return d
}

// bound is the longest that a command's phase can take.
func bound(s plan.Step) time.Duration { return s.Timeout + grace + commandSlack }

// setup runs the setup command. Unless it exits with 0 in time there is nothing to measure.
func (a *attempt) setup(ctx context.Context, ws *workspace) error {
	out, err := a.step(ctx, ws, stepSpec{phase: shared.PhaseSetup, step: *a.cell.Setup, seeds: a.cell.Seeds})
	if err != nil {
		return err
	}
	if out.result.Status == shared.StatusCompleted && out.result.ExitCode != nil && *out.result.ExitCode == 0 {
		return nil
	}
	return &phaseError{shared.PhaseSetup, &shared.Error{
		Code: shared.CodePrecondition, Cause: shared.CauseSetup,
		Message: fmt.Sprintf("the setup command ended with %s%s", ending(out.result), out.tail()),
	}}
}

// ending says how a command ended, in words.
func ending(r shared.Result) string {
	switch {
	case r.Status == shared.StatusTimedOut:
		return "a timeout"
	case r.Status == shared.StatusLimitExceeded:
		return "the limit of " + string(r.Limit) + " exceeded"
	case r.ExitCode != nil:
		return fmt.Sprintf("status %d", *r.ExitCode)
	}
	return "signal " + r.Signal
}

// command runs what is measured.
func (a *attempt) command(ctx context.Context, ws *workspace) error {
	spec := stepSpec{phase: shared.PhaseCell, step: a.cell.Cell}
	if a.cell.Setup == nil {
		spec.seeds = a.cell.Seeds
	}
	out, err := a.step(ctx, ws, spec)
	a.result.Stdout, a.result.Stderr = out.streams()
	if err != nil {
		return err
	}
	r := out.result
	a.result.Status, a.result.ExitCode, a.result.Limit = r.Status, r.ExitCode, r.Limit
	a.result.Signal = record.Signal(r.Signal)
	a.result.CPUSeconds, a.result.MaxRSS = r.CPU.Seconds(), r.MaxRSS
	return nil
}

// wantsFromBase tells whether the patch from the base is needed: by a fresh workspace for verify, or because the patch
// from the state in which the command started does not apply to the base alone.
func (a *attempt) wantsFromBase() bool {
	fresh := a.cell.Verify != nil && a.cell.Verify.Fresh
	prepared := len(a.cell.Seeds) > 0 || a.cell.Setup != nil
	return fresh || (a.cell.Diff && prepared)
}

// collect brings back artifacts and patch.
func (a *attempt) collect(ctx context.Context, ws *workspace) error {
	spec := shared.CollectSpec{Diff: a.cell.Diff, DiffFromBase: a.wantsFromBase(), MaxBytes: maxArtifact}
	if len(a.cell.Artifacts) == 0 && !spec.Diff && !spec.DiffFromBase {
		return nil
	}
	for _, p := range a.cell.Artifacts {
		spec.Patterns = append(spec.Patterns, shared.Pattern(p))
	}
	return a.phase(ctx, shared.PhaseCollect, collectBound, func(ctx context.Context) error {
		adapter, err := a.acquire(ctx)
		if err != nil {
			return err
		}
		sink := &artifactSink{attempt: a, patches: map[shared.ArtifactKind]shared.Artifact{}}
		defer sink.abandon()
		// A fresh process can collect what another one has made, so the generation does not matter here.
		found, err := adapter.Collect(ctx, *ws.handle, spec, sink)
		a.notice(found.Notices...)
		if sink.err != nil {
			return sink.err // the adapter's error can only repeat it
		}
		if err != nil {
			return err
		}
		if spec.Diff {
			a.result.Diff, err = sink.patch(shared.ArtifactDiff, found.Diff)
		}
		if spec.DiffFromBase && err == nil {
			a.result.DiffFromBase, err = sink.patch(shared.ArtifactDiffFromBase, found.DiffFromBase)
		}
		return err
	})
}

// judge decides whether the cell passed: by its verify command, otherwise by its exit code.
func (a *attempt) judge(ctx context.Context, ws *workspace) error {
	if a.cell.Verify == nil {
		passed := a.result.Status == shared.StatusCompleted && a.result.ExitCode != nil && *a.result.ExitCode == 0
		a.result.Passed = &passed
		return nil
	}
	if a.cell.Verify.Fresh {
		fresh, err := a.freshWorkspace(ctx)
		if err != nil {
			return err
		}
		ws = fresh
	}
	out, err := a.step(ctx, ws, stepSpec{
		phase: shared.PhaseVerify, step: a.cell.Verify.Step, seeds: a.cell.Verify.Seeds,
	})
	if err != nil {
		return err
	}
	a.result.Verify = out.command()
	if out.result.Status != shared.StatusCompleted {
		return &phaseError{shared.PhaseVerify, &shared.Error{
			Code: shared.CodePrecondition, Cause: shared.CauseVerify,
			Message: fmt.Sprintf("the verify command ended with %s, so nothing is known of the outcome%s",
				ending(out.result), out.tail()),
		}}
	}
	return a.pass(out)
}

func (a *attempt) pass(out *output) error {
	e := a.cell.Verify.Pass
	outcome := CommandOutcome{Status: out.result.Status, ExitCode: out.result.ExitCode, Signal: out.result.Signal}
	var err error
	if outcome.Stdout, err = a.output(e, "stdout", "verify/stdout.log"); err != nil {
		return &phaseError{shared.PhaseVerify, err}
	}
	if outcome.Stderr, err = a.output(e, "stderr", "verify/stderr.log"); err != nil {
		return &phaseError{shared.PhaseVerify, err}
	}
	passed := outcome.ExitCode != nil && *outcome.ExitCode == 0
	if !e.IsZero() {
		err = guard(func() (err error) {
			passed, err = a.cfg.Judge.Pass(e, outcome)
			return err
		})
		if err != nil {
			return &phaseError{shared.PhaseVerify, &shared.Error{
				Code: shared.CodePrecondition, Cause: shared.CauseVerify, Err: err,
				Message: fmt.Sprintf("verify.pass (%s) could not be evaluated: %v", e.Source, err),
			}}
		}
	}
	a.result.Passed = &passed
	return nil
}

// freshWorkspace makes a second workspace from the base and all that the first one came to hold.
func (a *attempt) freshWorkspace(ctx context.Context) (*workspace, error) {
	if a.result.DiffFromBase == nil {
		return nil, &phaseError{shared.PhaseVerify, &shared.Error{
			Code: shared.CodePrecondition, Cause: shared.CauseVerify,
			Message: "there is no stored patch from the base, which verify in a fresh workspace starts from",
		}}
	}
	patch := a.result.DiffFromBase
	name := path.Join(a.dir.Dir(), fromBaseFile)
	return a.provision(ctx, &shared.Content{
		Size: patch.Bytes, SHA256: patch.SHA256, Open: func() (io.ReadCloser, error) { return os.Open(name) },
	})
}

// maxLateOutput bounds what a late expression can read of an output; a longer one is an error rather than a cut text.
const maxLateOutput = 16 << 20

// output reads a stored output for a late expression that mentions it, and nothing for one that does not.
func (a *attempt) output(e plan.Expr, word, name string) ([]byte, error) {
	if !strings.Contains(e.Source, word) {
		return nil, nil
	}
	f, err := os.Open(path.Join(a.dir.Dir(), name))
	if err != nil {
		return nil, fmt.Errorf("read %s for %s: %w", name, e.Source, err)
	}
	defer f.Close()
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(f, maxLateOutput+1)); err != nil {
		return nil, fmt.Errorf("read %s for %s: %w", name, e.Source, err)
	}
	if buf.Len() > maxLateOutput {
		return nil, fmt.Errorf("%s has more than %d bytes; write the value to an artifact instead", name, maxLateOutput)
	}
	return buf.Bytes(), nil
}
