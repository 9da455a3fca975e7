package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"cellharness/runner"
	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/runner/summary"
)

// lookFlags are the flags of the commands that look at recorded runs.
type lookFlags struct {
	resultsDir string
	attempt    int
}

func (f *lookFlags) add(cmd *cobra.Command, attempt bool) {
	cmd.Flags().StringVar(&f.resultsDir, "results-dir", "", "look for runs below `DIR` (default .harness/runs)")
	if attempt {
		cmd.Flags().IntVar(&f.attempt, "attempt", 0, "look at attempt `N` of the cell (default the last)")
	}
}

// recorded is a run that is looked at.
type recorded struct {
	folder  *record.Folder
	plan    *plan.Plan
	results []record.Result
}

// open reads a run: the newest where name is empty.
func (f *lookFlags) open(name string) (*recorded, error) {
	var dir string
	var err error
	if name == "" {
		dir, err = record.Latest(f.resultsDir)
	} else {
		dir, err = record.Find(f.resultsDir, name)
	}
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	r := &recorded{}
	if r.folder, err = record.Open(dir); err != nil {
		return nil, fail(exitUsage, err)
	}
	if r.plan, err = r.folder.ReadPlan(); err != nil {
		return nil, fail(exitUsage, err)
	}
	if r.results, err = r.folder.Results(); err != nil {
		return nil, fail(exitUsage, err)
	}
	return r, nil
}

// attempt finds an ended attempt of a cell by its address: the last one where number is 0.
func (r *recorded) attempt(address string, number int) (record.Result, string, error) {
	for i := len(r.results) - 1; i >= 0; i-- {
		result := r.results[i]
		if result.Cell == address && (number == 0 || result.Attempt == number) {
			return result, filepath.Join(r.folder.Dir(), "cells", result.Key, fmt.Sprint(result.Attempt)), nil
		}
	}
	for _, c := range r.plan.Cells {
		if c.Address == address {
			return record.Result{}, "", fail(exitUsage, fmt.Errorf("no attempt of %s has ended in run %s", address, r.folder.ID()))
		}
	}
	return record.Result{}, "", fail(exitUsage, fmt.Errorf("run %s has no cell %s; harness show %s lists them", r.folder.ID(), address, r.folder.ID()))
}

func (a *app) runsCommand() *cobra.Command {
	var f lookFlags
	cmd := &cobra.Command{
		Use: "runs", Short: "List the recorded runs, newest first", Example: "  harness runs", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.listRuns(f) },
	}
	f.add(cmd, false)
	return cmd
}

func (a *app) listRuns(f lookFlags) error {
	runs, err := record.List(f.resultsDir)
	if err != nil {
		return fail(exitUsage, err)
	}
	t := table.NewWriter()
	t.SetStyle(table.StyleDefault)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.SuppressTrailingSpaces()
	t.AppendHeader(table.Row{"run", "name", "started", "state", "ended"})
	for _, r := range runs {
		state := string(r.State)
		if r.ExitCode != nil {
			state += fmt.Sprintf(" (exit %d)", *r.ExitCode)
		}
		if r.Err != nil {
			state += ": " + r.Err.Error()
		}
		t.AppendRow(table.Row{r.ID, r.Run.Name, r.Run.Started.Format("2006-01-02 15:04:05"), state, r.Ended})
	}
	fmt.Fprintln(a.stdout, t.Render())
	return nil
}

func (a *app) showCommand() *cobra.Command {
	var f lookFlags
	cmd := &cobra.Command{
		Use: "show [RUN [CELL]]", Short: "Show the summary of a run, or the record of one cell",
		Example: `  harness show
  harness show 01JD 'quickstart/defect["off_by_one"]/revert#1'`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return a.show(f, args) },
	}
	f.add(cmd, true)
	return cmd
}

func (a *app) show(f lookFlags, args []string) error {
	r, err := f.open(first(args))
	if err != nil {
		return err
	}
	if len(args) == 2 {
		_, dir, err := r.attempt(args[1], f.attempt)
		if err != nil {
			return err
		}
		return a.copyFile(filepath.Join(dir, "result.json"))
	}
	for _, result := range r.results {
		if result.Last {
			fmt.Fprintln(printable{a.stdout}, cellLine(result))
		}
	}
	thresholds := runner.Thresholds(r.plan, r.results, judge{})
	open, err := r.untold()
	if err != nil {
		return fail(exitUsage, err)
	}
	renderSummary(a.stdout, summary.Summarize(r.plan, r.results), thresholds, open, r.folder.Dir())
	return nil
}

// untold lists the leases that nobody has tried to close: the run goes on, or its process died.
func (r *recorded) untold() ([]record.Lease, error) {
	entries, err := r.folder.Entries()
	if err != nil {
		return nil, err
	}
	leases, err := record.OpenLeases(entries)
	return slices.DeleteFunc(leases, func(l record.Lease) bool { return l.Cleanup != "" }), err
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func (a *app) logsCommand() *cobra.Command {
	var f lookFlags
	var phase, adapter string
	cmd := &cobra.Command{
		Use: "logs RUN [CELL]", Short: "Print what a cell wrote: its stdout to stdout, its stderr to stderr",
		Example: `  harness logs 01JD 'quickstart/defect["off_by_one"]/revert#1' --phase verify
  harness logs 01JD --adapter here`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := f.open(args[0])
			if err != nil {
				return err
			}
			if adapter != "" {
				return a.copyFile(filepath.Join(r.folder.AdapterLogDir(), filepath.Base(adapter)+".log"))
			}
			if len(args) < 2 {
				return fail(exitUsage, errors.New("name a cell, or an adapter with --adapter"))
			}
			return a.logs(r, args[1], f.attempt, phase)
		},
	}
	f.add(cmd, true)
	cmd.Flags().StringVar(&phase, "phase", "cell", "the `PHASE` whose output is printed: setup, cell or verify")
	cmd.Flags().StringVar(&adapter, "adapter", "", "print the log of the adapter `INSTANCE` instead")
	return cmd
}

func (a *app) logs(r *recorded, address string, attempt int, phase string) error {
	_, dir, err := r.attempt(address, attempt)
	if err != nil {
		return err
	}
	switch phase {
	case "cell":
	case "setup", "verify":
		dir = filepath.Join(dir, phase)
	default:
		return fail(exitUsage, fmt.Errorf("--phase is %q; it can be setup, cell or verify", phase))
	}
	if err := a.copyFile(filepath.Join(dir, "stdout.log")); err != nil {
		return err
	}
	return copyTo(a.stderr, filepath.Join(dir, "stderr.log"))
}

func (a *app) diffCommand() *cobra.Command {
	var f lookFlags
	cmd := &cobra.Command{
		Use: "diff RUN CELL", Short: "Print the patch of a cell, byte for byte",
		Example: `  harness diff 01JD 'quickstart/defect["off_by_one"]/revert#1' | git apply --stat`,
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := f.open(args[0])
			if err != nil {
				return err
			}
			result, dir, err := r.attempt(args[1], f.attempt)
			if err != nil {
				return err
			}
			if result.Diff == nil {
				return fail(exitUsage, fmt.Errorf("attempt %d of %s has no patch; a cell has one where its artifacts list diff", result.Attempt, result.Cell))
			}
			return a.copyFile(filepath.Join(dir, "diff.patch"))
		},
	}
	f.add(cmd, true)
	return cmd
}

func (a *app) copyFile(name string) error { return copyTo(a.stdout, name) }

func copyTo(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fail(exitUsage, err)
	}
	defer f.Close()
	if _, err := io.Copy(w, f); err != nil && !strings.Contains(err.Error(), "broken pipe") {
		return fail(exitInternal, fmt.Errorf("print %s: %w", name, err))
	}
	return nil
}
