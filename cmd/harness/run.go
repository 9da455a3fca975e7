package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"cellharness/runner"
	"cellharness/runner/definition"
	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/pluginhost"
	"cellharness/runner/record"
	"cellharness/runner/state"
	"cellharness/runner/summary"
	"cellharness/shared"
)

// runFlags are the flags of harness run.
type runFlags struct {
	definitionFlags
	failFast   bool
	resultsDir string
	progress   string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run PATH...",
		Short: "Run the cells of a definition and keep what comes out",
		Long: `Evaluates the definition, launches the adapters, places every cell and runs them. A failing cell is data and
does not change the exit code; a cell that could not be measured does (exit 5). Ctrl-C stops starting cells, ends the
running ones with their grace and removes their workspaces; a second one ends everything at once.`,
		Example: `  harness run config/quickstart.hcl
  harness run config/agents.hcl --var 'claude=["cat"]' --var 'codex=["cat"]' --repeat 1
  harness run config/daytona.hcl --only 'here/**' --parallelism 2 --json`,
		Args: atLeastOnePath,
		RunE: func(cmd *cobra.Command, paths []string) error { return a.runRun(cmd, paths, f) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.failFast, "fail-fast", false, "start no further cell after one that failed or could not be measured")
	cmd.Flags().BoolVar(&f.keep, "keep-workspaces", false, "keep the workspace of every cell")
	cmd.Flags().StringVar(&f.resultsDir, "results-dir", "", "keep the run below `DIR` (default .harness/runs)")
	cmd.Flags().StringVar(&f.progress, "progress", "auto", "`HOW` to show progress on stderr: auto, plain, json or quiet")
	return cmd
}

func atLeastOnePath(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fail(exitUsage, fmt.Errorf("%s needs the path of a definition; see %s --help", cmd.CommandPath(), cmd.CommandPath()))
	}
	return nil
}

// runRun is harness run: definition, adapters, plan, cells, summary.
func (a *app) runRun(cmd *cobra.Command, paths []string, f runFlags) error {
	opts, err := f.options(a, cmd)
	if err != nil {
		return err
	}
	render, stop, err := a.progress(&f)
	if err != nil {
		return err
	}
	defer stop()
	id := a.newID()
	out := a.newOutput(id, f.json, render)
	s := &session{app: a, out: out, flags: f, id: id}
	defer s.close()
	err = s.run(cmd.Context(), paths, opts)
	out.finish(s.finished(err))
	return err
}

// session is one harness run.
type session struct {
	app    *app
	out    *output
	flags  runFlags
	id     string
	folder *record.Folder
	host   *pluginhost.Host
	report runner.Report
	counts map[string]int
	stops  []func()
}

func (s *session) run(ctx context.Context, paths []string, opts definition.Options) error {
	def, err := s.app.load(paths, opts, s.out)
	if err != nil {
		return err
	}
	if len(def.Instances()) == 0 {
		return nothingSelected()
	}
	st, owner, err := s.app.openState()
	if err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	watch := s.app.watchSignals(ctx, s)
	s.stops = append(s.stops, watch.stop)
	p, blobs, err := s.plan(watch.ctx, def, owner)
	if err != nil {
		s.discard()
		if watch.ctx.Err() != nil {
			return fail(watch.code(), nil)
		}
		return err
	}
	if err := s.record(p, blobs); err != nil {
		return fail(exitInternal, err)
	}
	s.report, err = runner.Run(watch.ctx, s.config(p, owner, st))
	if err != nil {
		s.tellStorage()
		return fail(exitIncomplete, fmt.Errorf("the run stopped early: %w; make room or mend the disk, then start it again", err))
	}
	return s.conclude(p, watch)
}

func nothingSelected() error {
	return fail(exitNothing, errors.New("no cell is selected; check --only, --skip and the exclude blocks"))
}

// openState opens the state of this installation.
func (a *app) openState() (*state.State, string, error) {
	dir, err := state.Dir(a.lookup)
	if err != nil {
		return nil, "", fail(exitUsage, err)
	}
	st, err := state.Open(dir)
	if err != nil {
		return nil, "", fail(exitUsage, err)
	}
	owner, err := st.Owner(a.newID)
	if err != nil {
		return nil, "", fail(exitUsage, err)
	}
	return st, owner, nil
}

// open makes the folder of the run, before any adapter is started.
func (s *session) open() error {
	folder, err := record.Create(s.flags.resultsDir, s.id)
	if err != nil {
		return fail(exitUsage, err)
	}
	s.folder = folder
	events, err := folder.Events()
	if err != nil {
		return fail(exitUsage, err)
	}
	s.stops = append(s.stops, func() { _ = events.Close() })
	s.out.record.open(events)
	s.host, err = pluginhost.New(s.app.hostConfig(folder.AdapterLogDir(), s.out))
	if err != nil {
		return fail(exitInternal, err)
	}
	return nil
}

// plan launches the adapters and places the cells. Nothing is spent when a cell cannot be placed.
func (s *session) plan(ctx context.Context, def *definition.Definition, owner string) (*plan.Plan, plan.Blobs, error) {
	p, blobs, err := s.app.place(ctx, def, s.host, owner, s.out)
	if err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err() // an adapter whose launch was interrupted refuses nothing
	}
	if s.app.refusals(p, s.out) > 0 {
		return nil, nil, fail(exitAdapter, errors.New("nothing was started; change the definition, or leave these cells out with --skip"))
	}
	return p, blobs, nil
}

// place launches and configures the adapters of a definition and makes the plan.
func (a *app) place(ctx context.Context, def *definition.Definition, host *pluginhost.Host, owner string, out *output) (*plan.Plan, plan.Blobs, error) {
	facts, violations := a.start(ctx, def, host, owner)
	if violations.HasErrors() {
		out.diagnostics(violations)
		return nil, nil, fail(exitDefinition, nil)
	}
	p, blobs, diags := def.Plan(facts)
	out.diagnostics(diags)
	if diags.HasErrors() {
		return nil, nil, fail(exitDefinition, nil)
	}
	if len(p.Cells) == 0 {
		return nil, nil, nothingSelected()
	}
	return p, blobs, nil
}

// record writes down what is about to run.
func (s *session) record(p *plan.Plan, blobs plan.Blobs) error {
	if err := s.folder.WritePlan(p, blobs); err != nil {
		return err
	}
	if err := s.folder.WriteRun(s.app.describeRun(s.id, p)); err != nil {
		return err
	}
	err := s.folder.RunStarted(record.RunStarted{
		Harness: shared.Version, Build: shared.Build(), PID: os.Getpid(), Argv: s.app.args,
	})
	if err != nil {
		return err
	}
	s.out.event(&event.RunStarted{
		Folder: s.folder.Dir(), Name: p.Name, Cells: len(p.Cells), Parallelism: p.Run.Parallelism,
		Order: string(p.Run.Order), Seed: p.Run.Seed,
	})
	return nil
}

func (s *session) config(p *plan.Plan, owner string, st *state.State) runner.Config {
	return runner.Config{
		Plan: p, Folder: s.folder, Adapters: hostAdapters{s.host}, Judge: judge{}, Leases: st,
		Secret: s.app.secret, Events: s.out.stream, Owner: owner, Clock: s.app.clock, NewID: s.app.newID,
		FailFast: s.flags.failFast,
	}
}

// conclude stops the adapters, prints what came out, and decides the exit code.
func (s *session) conclude(p *plan.Plan, watch *signals) error {
	// A clean-up that was not clean is told, and changes no result.
	s.stopQuietly()
	code := exitOf(s.report, watch.code())
	if s.report.Interrupted {
		if err := s.folder.RunInterrupted(record.RunInterrupted{Signal: watch.signal()}); err != nil {
			return fail(exitIncomplete, err)
		}
	}
	if err := s.folder.RunEnded(record.RunEnded{ExitCode: code}); err != nil {
		return fail(exitIncomplete, err)
	}
	sum := summary.Summarize(p, s.report.Results)
	s.counts = sum.Counts()
	if !s.flags.json {
		renderSummary(s.app.stdout, sum, s.report.Thresholds, nil, s.folder.Dir())
	}
	if s.out.record.err != nil {
		return fail(max(code, exitIncomplete), s.out.record.err)
	}
	if code == exitOK {
		return nil
	}
	return fail(code, nil)
}

// finished is the last event of the run.
func (s *session) finished(err error) *event.RunFinished {
	e := &event.RunFinished{Counts: s.counts}
	var exit *exitError
	if errors.As(err, &exit) {
		e.ExitCode = exit.code
	} else if err != nil {
		e.ExitCode = exitUsage
	}
	if s.folder != nil {
		e.Folder = s.folder.Dir()
	}
	return e
}

// discard removes the records of a run that never began. What an adapter has said stays: the error points there.
func (s *session) discard() {
	s.stopQuietly()
	if err := s.folder.Discard(); err != nil {
		fmt.Fprintf(s.app.stderr, "Warning: %v\n", err)
	}
	s.folder = nil
}

// stopBound covers the adapters' drain and the steps after it.
const stopBound = 30 * time.Second

// stopQuietly stops the adapters of the run, once.
func (s *session) stopQuietly() {
	if s.host != nil {
		s.app.stopQuietly(s.host)
		s.host = nil
	}
}

// stopQuietly stops adapters. What goes wrong is told and changes no result.
func (a *app) stopQuietly(host *pluginhost.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	if err := host.Stop(ctx); err != nil {
		fmt.Fprintf(a.stderr, "Warning: stop the adapters: %v\n", err)
	}
}

func (s *session) tellStorage() {
	fmt.Fprintf(s.app.stderr, "The records of the run are in %s; what was acknowledged there is safe.\n", s.folder.Dir())
}

func (s *session) close() {
	s.stopQuietly()
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
	if s.folder != nil {
		if err := s.folder.Close(); err != nil {
			fmt.Fprintf(s.app.stderr, "Warning: %v\n", err)
		}
	}
}

// hostConfig is how adapter processes are launched. Their logs go to logDir; where it is empty only last lines are kept.
func (a *app) hostConfig(logDir string, out *output) pluginhost.Config {
	return pluginhost.Config{
		Kinds: shared.Kinds(), Dir: a.dir, LogDir: logDir, Host: hostInfo(), Environ: a.environ, AdoptOrphans: true,
		OnReady: func(r pluginhost.Ready) {
			out.event(&event.AdapterReady{
				Instance: r.Instance, Kind: r.Kind, Version: r.Version, Generation: r.Generation, Digest: r.Digest,
				Milliseconds: r.Took.Milliseconds(), Capabilities: r.Capabilities,
			})
		},
		OnCrash: func(c pluginhost.Crash) {
			out.event(&event.AdapterCrashed{
				Instance: c.Instance, Generation: c.Generation, Exit: c.Exit, LastLines: c.LastLines,
			})
		},
	}
}
