package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"cellharness/runner/definition"
	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/pluginhost"
)

// planFlags are the flags of harness plan.
type planFlags struct {
	definitionFlags
	offline bool
	out     string
}

func (a *app) planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan PATH...",
		Short: "Show what a run would do, and spend nothing",
		Long: `Evaluates the definition, launches and negotiates the adapters, and says for every cell which adapter takes it
or why none can (exit 4). No workspace is made.`,
		Example: `  harness plan config/daytona.hcl --only 'here/**'
  harness plan config/quickstart.hcl --offline`,
		Args: atLeastOnePath,
		RunE: func(cmd *cobra.Command, paths []string) error {
			out := a.newOutput("", f.json, (&plain{w: printable{a.stderr}, quiet: true}).take)
			err := a.runPlan(cmd, paths, f, out)
			out.finish(&event.RunFinished{ExitCode: codeOf(err)})
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.offline, "offline", false, "launch no adapter; what depends on one stays undecided")
	cmd.Flags().StringVar(&f.out, "out", "", "write the plan to a `FILE`")
	return cmd
}

func (a *app) runPlan(cmd *cobra.Command, paths []string, f planFlags, out *output) error {
	opts, err := f.options(a, cmd)
	if err != nil {
		return err
	}
	def, err := a.load(paths, opts, out)
	if err != nil {
		return err
	}
	p, err := a.planOf(cmd, def, f.offline, out)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := writePlan(f.out, p); err != nil {
			return fail(exitInternal, err)
		}
	}
	refused := a.refusals(p, out)
	if f.json {
		out.event(planEvent(p, refused))
	} else {
		renderPlan(a.stdout, p, refused)
	}
	if refused > 0 {
		return fail(exitAdapter, nil)
	}
	return nil
}

func (a *app) planOf(cmd *cobra.Command, def *definition.Definition, offline bool, out *output) (*plan.Plan, error) {
	if len(def.Instances()) == 0 {
		return nil, nothingSelected()
	}
	if offline {
		p, _, diags := def.Plan(nil)
		out.diagnostics(diags)
		if diags.HasErrors() {
			return nil, fail(exitDefinition, nil)
		}
		return p, nil
	}
	_, owner, err := a.openState()
	if err != nil {
		return nil, err
	}
	host, err := pluginhost.New(a.hostConfig("", out))
	if err != nil {
		return nil, fail(exitInternal, err)
	}
	defer a.stopQuietly(host)
	p, _, err := a.place(cmd.Context(), def, host, owner, out)
	return p, err
}

func writePlan(name string, p *plan.Plan) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	if err := renameio.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// renderPlan prints a plan for people: each trial, then each adapter, then the cells.
func renderPlan(w io.Writer, p *plan.Plan, refused int) {
	for _, t := range p.Trials {
		cells := 0
		for _, c := range p.Cells {
			if c.Trial == t.Name {
				cells++
			}
		}
		fmt.Fprintf(w, "trial.%s   %d variants, %d repetitions: %d cells\n", t.Name, len(t.Variants), t.Repeat, cells)
	}
	for _, ad := range p.Adapters {
		renderAdapter(w, ad)
	}
	for _, c := range p.Cells {
		where := c.Adapter
		if c.Refused != "" {
			where = "refused"
		}
		fmt.Fprintf(w, "  %-12s %s  %s\n", where, c.Address, limits(c))
	}
	fmt.Fprintf(w, "Plan: %d cells to run, %d refused, %d at once, %s order.\n",
		len(p.Cells)-refused, refused, p.Run.Parallelism, p.Run.Order)
}

func renderAdapter(w io.Writer, ad plan.Adapter) {
	fmt.Fprintf(w, "adapter %s.%s", ad.Kind, ad.Instance)
	if ad.Version != "" {
		fmt.Fprintf(w, "   version %s", ad.Version)
	}
	if ad.Base != "" {
		fmt.Fprintf(w, ", base %.12s", ad.Base)
	}
	if ad.Profile != "" {
		fmt.Fprintf(w, ", credentials %s", ad.Profile)
	}
	fmt.Fprintln(w)
	for _, s := range ad.Secrets {
		fmt.Fprintf(w, "  secret %s from %s %s\n", s.Name, s.Source, strings.Join(s.Args, " "))
	}
	if len(ad.Environment) > 0 {
		fmt.Fprintf(w, "  environment: %s\n", strings.Join(ad.Environment, " "))
	}
	for _, n := range ad.Notices {
		fmt.Fprintf(w, "  note: %s\n", n.Detail)
	}
	for _, pin := range ad.Pins {
		ref := pin.Ref
		if ref == "" {
			ref = "base"
		}
		for _, n := range pin.Notices {
			fmt.Fprintf(w, "  note: %s: %s\n", ref, n.Detail)
		}
	}
}

// limits says how long a cell may take and how often it may be tried.
func limits(c plan.Cell) string {
	text := "timeout " + duration(c.Cell.Timeout)
	if c.Setup != nil {
		text += ", setup " + duration(c.Setup.Timeout)
	}
	if c.Verify != nil {
		text += ", verify " + duration(c.Verify.Timeout)
	}
	return fmt.Sprintf("%s, up to %d attempts", text, c.Attempts)
}

// duration prints 5m0s as 5m, as definitions spell it.
func duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func planEvent(p *plan.Plan, refused int) *event.Plan {
	e := &event.Plan{Cells: len(p.Cells), Refused: refused, Bases: map[string]string{}}
	for _, ad := range p.Adapters {
		e.Bases[ad.Instance] = ad.Base
	}
	for _, c := range p.Cells {
		e.Verdicts = append(e.Verdicts, event.Verdict{Cell: c.Address, Key: c.Key, Adapter: c.Adapter, Refused: c.Refused})
	}
	return e
}
