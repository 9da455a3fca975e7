package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"cellharness/plugins/localworktree/files"
	"cellharness/plugins/localworktree/supervise"
	"cellharness/plugins/localworktree/worktree"
	"cellharness/shared"
)

// defaultPath is the PATH of a command whose definition passes none on.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// RunCell writes the seeds, remembers the state in which the measured command starts, and runs the command.
func (a *Adapter) RunCell(ctx context.Context, h shared.Handle, cell shared.Cell, sink shared.EventSink) (shared.Result, error) {
	var none shared.Result
	if cell.Kind == shared.PromptCell && len(cell.Env)+len(cell.SecretEnv) > 0 {
		return none, &shared.Error{Code: shared.CodeInvalid, Message: "a prompt cell takes no env: it runs with the host's own sign-in"}
	}
	o, err := a.occupant(ctx, h)
	if err != nil {
		return none, err
	}
	if err := a.refuseWhenDraining(); err != nil {
		return none, err
	}
	ctx, end, err := a.occupy(ctx, o)
	if err != nil {
		return none, err
	}
	defer end()
	if err := prepare(ctx, o, cell); err != nil {
		return none, err
	}
	in, err := a.configured()
	if err != nil {
		return none, err
	}
	return a.execute(ctx, in, o, cell, sink)
}

// occupy marks the workspace as one in which something is under way. The function it returns ends that.
func (a *Adapter) occupy(ctx context.Context, o *occupant) (context.Context, func(), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o.done != nil {
		return nil, nil, &shared.Error{Code: shared.CodePrecondition, Message: "something is under way in the workspace already"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	o.cancel, o.done = cancel, done
	return ctx, func() {
		cancel(nil)
		a.mu.Lock()
		o.cancel, o.done = nil, nil
		a.mu.Unlock()
		close(done)
	}, nil
}

// prepare puts the seeds in place and takes the state in which the measured command starts.
func prepare(ctx context.Context, o *occupant, cell shared.Cell) error {
	if err := o.workspace.Present(); err != nil {
		return vanished(err)
	}
	if len(cell.Seeds) > 0 {
		if err := seed(ctx, o.workspace, cell); err != nil {
			return err
		}
		o.touched = true
	}
	if cell.Phase != shared.PhaseCell {
		o.touched = true
		return nil
	}
	start := o.workspace.StartTree()
	if o.touched {
		snapshot, err := o.workspace.Snapshot(ctx)
		if err != nil {
			return repoError("take the state in which the command starts", err)
		}
		start = snapshot.Tree
	}
	o.start = start
	return remember(o.workspace, start)
}

// startFile keeps, beside the workspace's tree, the state in which the measured command started, so that a fresh
// process can collect.
const startFile = "start"

func remember(ws *worktree.Workspace, start string) error {
	if err := os.WriteFile(filepath.Join(ws.Dir(), startFile), []byte(start), 0o600); err != nil {
		return &shared.Error{
			Code: shared.CodeInternal, Cause: shared.CauseStorage, Err: err,
			Message: "remember the state in which the command starts: " + err.Error(),
		}
	}
	return nil
}

func seed(ctx context.Context, ws *worktree.Workspace, cell shared.Cell) error {
	root, err := os.OpenRoot(ws.Tree())
	if err != nil {
		return vanished(err)
	}
	defer root.Close()
	if err := files.WriteSeeds(ctx, root, cell.Seeds); err != nil {
		return err
	}
	if cell.SeedAs != shared.SeedCommit {
		return nil
	}
	paths := make([]string, len(cell.Seeds))
	for i, s := range cell.Seeds {
		paths[i] = string(s.Path)
	}
	if err := ws.CommitSeeds(ctx, paths); err != nil {
		return &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseSeed, Message: "commit the seeds: " + err.Error(), Err: err}
	}
	return nil
}

// vanished is the error of a workspace that is not where it was made.
func vanished(err error) error {
	return &shared.Error{
		Code: shared.CodePrecondition, Cause: shared.CauseCollect, Err: err,
		Message: fmt.Sprintf("the workspace is gone: %v; the command must leave its own directory in place", err),
	}
}

func (a *Adapter) execute(ctx context.Context, in *instance, o *occupant, cell shared.Cell, sink shared.EventSink) (shared.Result, error) {
	var none shared.Result
	spool, err := os.MkdirTemp(o.workspace.Dir(), "spool-")
	if err != nil {
		return none, &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseStorage, Message: err.Error(), Err: err}
	}
	defer os.RemoveAll(spool) // what is left of it goes with the workspace
	cmd := supervise.Command{
		Dir: o.workspace.Tree(), Argv: cell.Argv, Env: environ(in, cell), Timeout: cell.Timeout, Grace: cell.Grace,
		Limits: cell.Limits, StdoutPath: filepath.Join(spool, "stdout"), StderrPath: filepath.Join(spool, "stderr"),
		Token: o.workspace.Name(),
		// What the command writes lies all below it: its tree, its temporary directory and its output.
		DiskRoot: o.workspace.Dir(),
		// The tree borrows its objects from there.
		Visible: []string{in.store.Root()},
	}
	if cell.Stdin != nil {
		stdin, err := cell.Stdin.Open()
		if err != nil {
			return none, fmt.Errorf("open the text for stdin: %w", err)
		}
		defer stdin.Close()
		cmd.Stdin = stdin
	}
	return a.runner.Run(ctx, cmd, sink)
}

// environ is the environment of a command, built from nothing: what the definition passes on, then the command's own.
func environ(in *instance, cell shared.Cell) []string {
	vars := map[string]string{"PATH": defaultPath}
	for name, value := range in.environ {
		vars[name] = value
	}
	for name, value := range cell.Env {
		vars[name] = value
	}
	for name, secret := range cell.SecretEnv {
		vars[name] = secret.Reveal()
	}
	out := make([]string, 0, len(vars))
	for name, value := range vars {
		out = append(out, name+"="+value)
	}
	sort.Strings(out)
	return out
}

// Collect takes the patch first, from the tree as the command left it, then the artifacts.
func (a *Adapter) Collect(ctx context.Context, h shared.Handle, spec shared.CollectSpec, sink shared.ArtifactSink) (shared.Collection, error) {
	var found shared.Collection
	o, err := a.occupant(ctx, h)
	if err != nil {
		return found, err
	}
	if err := o.workspace.Present(); err != nil {
		return found, vanished(err)
	}
	if spec.Diff || spec.DiffFromBase {
		if err := patches(ctx, o, spec, sink, &found); err != nil {
			return found, err
		}
	}
	if len(spec.Patterns) == 0 {
		return found, nil
	}
	root, err := os.OpenRoot(o.workspace.Tree())
	if err != nil {
		return found, vanished(err)
	}
	defer root.Close()
	noticed, err := files.Collect(ctx, root, spec.Patterns, spec.MaxBytes, sink)
	found.Notices = append(found.Notices, noticed...)
	return found, err
}

// patches sends the patches that are asked for, all of them to the one state that the command left.
func patches(ctx context.Context, o *occupant, spec shared.CollectSpec, sink shared.ArtifactSink, found *shared.Collection) error {
	start := o.start
	if start == "" {
		b, err := os.ReadFile(filepath.Join(o.workspace.Dir(), startFile))
		if err != nil {
			return &shared.Error{Code: shared.CodePrecondition, Message: "no measured command has run in the workspace", Err: err}
		}
		start = string(b)
	}
	end, err := o.workspace.Snapshot(ctx)
	if errors.Is(err, worktree.ErrVanished) {
		return vanished(err)
	}
	if err != nil {
		return &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseCollect, Message: err.Error(), Err: err}
	}
	found.Notices = append(found.Notices, notices(end.Notices)...)
	if spec.Diff {
		if found.Diff, err = patch(ctx, o.workspace, shared.ArtifactDiff, start, end.Tree, sink); err != nil {
			return err
		}
	}
	if spec.DiffFromBase {
		found.DiffFromBase, err = patch(ctx, o.workspace, shared.ArtifactDiffFromBase, o.workspace.BaseTree(), end.Tree, sink)
	}
	return err
}

// patch sends one patch as an artifact.
func patch(ctx context.Context, ws *worktree.Workspace, kind shared.ArtifactKind, from, to string, sink shared.ArtifactSink) (*shared.Diff, error) {
	if err := sink.Begin(kind, shared.DiffName); err != nil {
		return nil, err
	}
	stat, err := ws.Diff(ctx, from, to, io.Writer(sink))
	if err != nil {
		return nil, &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseCollect, Message: "take the patch: " + err.Error(), Err: err}
	}
	err = sink.End(shared.Artifact{
		Kind: kind, Path: shared.DiffName, State: shared.ArtifactPresent, Bytes: stat.Bytes, SHA256: stat.SHA256,
	})
	return &shared.Diff{
		Files: stat.Files, Insertions: stat.Insertions, Deletions: stat.Deletions, Bytes: stat.Bytes,
		SHA256: stat.SHA256, From: from, Tree: to,
	}, err
}

// Teardown ends the command that runs, then removes the workspace.
func (a *Adapter) Teardown(ctx context.Context, h shared.Handle) (shared.TeardownReport, error) {
	var report shared.TeardownReport
	removals, err := a.remove(ctx, h)
	if err != nil {
		return report, err
	}
	for _, r := range removals {
		report.Resources = append(report.Resources, shared.ResourceReport{
			Kind: r.Kind, Name: r.Name, State: resourceState(r.State), Detail: r.Detail,
		})
	}
	if report.Complete() {
		a.mu.Lock()
		delete(a.occupants, h.Lease)
		a.mu.Unlock()
	}
	return report, nil
}

func (a *Adapter) remove(ctx context.Context, h shared.Handle) ([]worktree.Removal, error) {
	if err := a.endWork(ctx, h.Lease); err != nil {
		return nil, err
	}
	o, err := a.occupant(ctx, h)
	if errors.Is(err, shared.ErrNotFound) {
		in, err := a.configured()
		if err != nil {
			return nil, err
		}
		return in.store.Remove(ctx, h.Lease), nil // what an earlier removal has left is looked for all the same
	}
	if err != nil {
		return nil, err
	}
	return o.workspace.Remove(ctx), nil
}

// endWork ends what is under way in a workspace: its making, or a command.
func (a *Adapter) endWork(ctx context.Context, lease string) error {
	a.mu.Lock()
	o, ok := a.occupants[lease]
	if !ok || o.done == nil {
		a.mu.Unlock()
		return nil
	}
	done := o.done
	o.cancel(errors.New("the workspace is being removed"))
	a.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return &shared.Error{Code: shared.CodeTimeout, Message: "what is under way in the workspace has not ended", Err: ctx.Err()}
	}
}

func resourceState(state string) shared.ResourceState {
	switch state {
	case worktree.StateRemoved:
		return shared.ResourceRemoved
	case worktree.StateAbsent:
		return shared.ResourceAbsent
	}
	return shared.ResourceLeaked
}
