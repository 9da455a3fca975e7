package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"cellharness/runner/definition"
	"cellharness/runner/event"
)

func (a *app) validateCommand() *cobra.Command {
	var f definitionFlags
	cmd := &cobra.Command{
		Use:     "validate PATH...",
		Short:   "Check a definition without launching anything",
		Example: "  harness validate config/agents.hcl",
		Args:    atLeastOnePath,
		RunE: func(cmd *cobra.Command, paths []string) error {
			opts, err := f.options(a, cmd)
			if err != nil {
				return err
			}
			out := a.newOutput("", f.json, nil)
			def, err := a.load(paths, opts, out)
			if err == nil {
				err = a.checkOffline(def, out)
			}
			out.finish(&event.RunFinished{ExitCode: codeOf(err)})
			if err == nil && !f.json {
				fmt.Fprintln(a.stdout, "The definition is valid.")
			}
			return err
		},
	}
	f.add(cmd)
	return cmd
}

// checkOffline evaluates every cell as far as that goes without an adapter.
func (a *app) checkOffline(def *definition.Definition, out *output) error {
	_, _, diags := def.Plan(nil)
	out.diagnostics(diags)
	if diags.HasErrors() {
		return fail(exitDefinition, nil)
	}
	return nil
}

// codeOf is the exit code that an error asks for.
func codeOf(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	}
	return exitUsage
}

func (a *app) fmtCommand() *cobra.Command {
	var check, diff bool
	cmd := &cobra.Command{
		Use:   "fmt PATH...",
		Short: "Format definitions",
		Long:  "Formats the *.hcl files at the paths in place and prints the names of those it changed.",
		Example: `  harness fmt config
  harness fmt --check --diff config`,
		Args: atLeastOnePath,
		RunE: func(_ *cobra.Command, paths []string) error { return a.format(paths, check, diff) },
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; exit 3 when a file is not formatted")
	cmd.Flags().BoolVar(&diff, "diff", false, "print what would change, and change nothing")
	return cmd
}

// format formats every file, and goes on with the others when one cannot be read as HCL.
func (a *app) format(paths []string, check, diff bool) error {
	files, err := hclFiles(paths)
	if err != nil {
		return fail(exitUsage, err)
	}
	unformatted, broken := false, false
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			return fail(exitUsage, err)
		}
		formatted, diags := definition.Format(name, src)
		if diags.HasErrors() {
			a.write(diags)
			broken = true
			continue
		}
		if bytes.Equal(src, formatted) {
			continue
		}
		unformatted = true
		fmt.Fprintln(a.stdout, name)
		if diff {
			fmt.Fprint(a.stdout, udiff.Unified(name, name, string(src), string(formatted)))
		}
		if check || diff {
			continue
		}
		if err := renameio.WriteFile(name, formatted, 0o644, renameio.WithExistingPermissions()); err != nil {
			return fail(exitInternal, fmt.Errorf("write %s: %w", name, err))
		}
	}
	if broken || (check && unformatted) {
		return fail(exitDefinition, nil)
	}
	return nil
}

// hclFiles lists the files named, and the *.hcl files of the directories named.
func hclFiles(paths []string) ([]string, error) {
	var files []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type()&fs.ModeType == 0 && strings.HasSuffix(e.Name(), ".hcl") {
				files = append(files, filepath.Join(p, e.Name()))
			}
		}
	}
	sort.Strings(files)
	return files, nil
}
