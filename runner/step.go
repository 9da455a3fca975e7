package runner

import (
	"context"
	"errors"
	"io"
	"path"

	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/redact"
	"cellharness/shared"
)

// stepSpec is one command of an attempt.
type stepSpec struct {
	phase shared.Phase
	step  plan.Step
	seeds []plan.Seed
}

// output is what a command left: its result, and its streams as they are stored.
type output struct {
	result         shared.Result
	stdout, stderr *capture
}

// streams are the records of the stored streams; nil for a command that never got so far.
func (o *output) streams() (stdout, stderr *record.Stream) {
	if o == nil {
		return nil, nil
	}
	return o.stdout.record(o.result.Stdout.Bytes), o.stderr.record(o.result.Stderr.Bytes)
}

// command is the record of a setup or verify command.
func (o *output) command() *record.Command {
	c := &record.Command{
		Status: o.result.Status, ExitCode: o.result.ExitCode, Signal: record.Signal(o.result.Signal), Seconds: o.result.Wall.Seconds(),
	}
	c.Stdout, c.Stderr = o.streams()
	return c
}

// tail is the end of what the command wrote, for a message; stderr where there is some.
func (o *output) tail() string {
	text := o.stderr.tail()
	if text == "" {
		text = o.stdout.tail()
	}
	if text == "" {
		return ""
	}
	return ": " + text
}

// step runs one command in the workspace and stores its output.
func (a *attempt) step(ctx context.Context, ws *workspace, spec stepSpec) (*output, error) {
	cell, err := a.request(ctx, spec)
	if err != nil {
		return nil, &phaseError{spec.phase, err}
	}
	out, err := a.capture(spec.phase)
	if err != nil {
		return nil, &phaseError{spec.phase, storageError("the output", a.dir.Dir(), err)}
	}
	err = a.phase(ctx, spec.phase, bound(spec.step), func(ctx context.Context) error {
		adapter, err := a.acquire(ctx)
		if err != nil {
			return err
		}
		if adapter.Generation() != ws.generation {
			return &shared.Error{
				Code: shared.CodeUnavailable, Cause: shared.CauseAdapterCrashed,
				Message: "the adapter process that held the workspace is gone",
			}
		}
		out.result, err = adapter.RunCell(ctx, *ws.handle, cell, a.sink(spec.phase, out))
		return err
	})
	return out, a.finish(spec.phase, out, err)
}

// finish closes the stored output and says what of a command's end is to be believed; ended is what its phase met. Output
// that could not be stored, or was not what it should have been, is told first: the adapter's error may only repeat it.
func (a *attempt) finish(phase shared.Phase, out *output, ended error) error {
	stored := out.close()
	a.notice(out.masked()...)
	if stored != nil {
		return &phaseError{phase, storageError("the output", a.dir.Dir(), stored)}
	}
	if err := out.disorder(); err != nil {
		return &phaseError{phase, err}
	}
	if ended != nil {
		return ended
	}
	a.notice(out.result.Notices...)
	if err := out.check(); err != nil {
		return &phaseError{phase, err}
	}
	began := a.result.Phases[string(phase)].Start
	a.result.Phases[string(phase)] = record.Phase{Start: began, Seconds: out.result.Wall.Seconds()}
	return nil
}

// request is the command as the adapter gets it.
func (a *attempt) request(ctx context.Context, spec stepSpec) (shared.Cell, error) {
	s := spec.step
	cell := shared.Cell{
		Address: a.cell.Address, Phase: spec.phase, Kind: shared.ExecCell, Argv: s.Entrypoint, Env: s.Env,
		SeedAs: shared.SeedUncommitted, Timeout: s.Timeout, Grace: grace, Limits: s.Limits.Shared(),
	}
	if s.Kind == "prompt_cell" {
		cell.Kind = shared.PromptCell
	}
	if a.cell.SeedAs == "commit" && spec.phase != shared.PhaseVerify {
		cell.SeedAs = shared.SeedCommit
	}
	if s.Stdin != nil {
		content := a.content(*s.Stdin)
		cell.Stdin = &content
	}
	for _, seed := range spec.seeds {
		cell.Seeds = append(cell.Seeds, shared.Seed{Path: shared.Path(seed.Path), Content: a.content(seed.Blob)})
	}
	for _, ref := range s.SecretEnv {
		secret, err := a.cfg.Secret(ctx, ref)
		if err != nil {
			return cell, &shared.Error{Code: shared.CodeUnauthenticated, Cause: shared.CauseAuth, Err: err, Message: err.Error()}
		}
		if cell.SecretEnv == nil {
			cell.SecretEnv = map[string]shared.Secret{}
		}
		cell.SecretEnv[ref.Name] = secret
		a.secrets = append(a.secrets, secret)
	}
	var err error
	a.masker, err = redact.New(a.secrets)
	return cell, err
}

func (a *attempt) content(b plan.Blob) shared.Content {
	return shared.Content{
		Size: b.Bytes, SHA256: b.SHA256, Open: func() (io.ReadCloser, error) { return a.cfg.Folder.OpenBlob(b.SHA256) },
	}
}

// capture opens the files that a command's output goes to. Those of the cell itself stand in the attempt's folder,
// those of the commands around it in a folder of their phase.
func (a *attempt) capture(phase shared.Phase) (*output, error) {
	folder := ""
	if phase != shared.PhaseCell {
		folder = string(phase)
	}
	stdout, err := newCapture(a.dir, path.Join(folder, "stdout"), a.masker)
	if err != nil {
		return nil, err
	}
	stderr, err := newCapture(a.dir, path.Join(folder, "stderr"), a.masker)
	if err != nil {
		return nil, errors.Join(err, stdout.close())
	}
	return &output{stdout: stdout, stderr: stderr}, nil
}

// sink stores output as it comes and passes on what else happens.
func (a *attempt) sink(phase shared.Phase, out *output) shared.EventSink {
	return func(e shared.Event) error {
		switch e.Kind {
		case shared.EventStdout:
			return out.stdout.write(e)
		case shared.EventStderr:
			return out.stderr.write(e)
		case shared.EventSignal:
			a.cfg.Events.Emit(&event.CellSignal{Cell: a.cell.Address, Attempt: a.number, Phase: phase, Signal: e.Signal})
		case shared.EventError:
			a.cfg.Events.Emit(&event.CellError{
				Cell: a.cell.Address, Attempt: a.number, Phase: phase, Cause: e.Err.Cause,
				Message: a.text(e.Err.Message),
			})
		}
		return nil
	}
}
