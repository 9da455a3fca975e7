package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
)

func main() { os.Exit(harness()) }

// harness is main with an exit code, so that script tests can run it as a program of its own.
func harness() int {
	// A reader of stdout that goes away ends the printing, never a run. The signal is caught and not ignored, since what
	// is ignored stays so in every process that is started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintf(os.Stderr, "harness: find its own executable: %v\n", err)
		return exitInternal
	}
	stdout := &resultWriter{to: os.Stdout}
	code := run(context.Background(), &app{
		args: os.Args[1:], environ: os.Environ(), stdout: stdout, stderr: os.Stderr,
		dir: filepath.Dir(exe), clock: time.Now, newID: func() string { return ulid.Make().String() },
	})
	if err := stdout.lost(); err != nil && code == exitOK {
		fmt.Fprintf(os.Stderr, "Error: the result could not be written whole: %v\n", err)
		return exitInternal
	}
	return code
}

// resultWriter remembers whether all of the result could be written.
type resultWriter struct {
	to io.Writer

	mu  sync.Mutex
	err error // guarded by mu
}

// Write writes to stdout.
func (w *resultWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// lost says why not all was written. A reader that went away has seen what it wanted.
func (w *resultWriter) lost() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.err, syscall.EPIPE) {
		return nil
	}
	return w.err
}

// app is what the process gives its commands.
type app struct {
	args    []string // without the program's name
	environ []string
	stdout  io.Writer // the result
	stderr  io.Writer // the progress
	dir     string    // of the executable; the adapters lie beside it
	clock   func() time.Time
	newID   func() string // ULIDs
}

// lookup reads the environment.
func (a *app) lookup(name string) (string, bool) {
	for _, kv := range a.environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, a *app) int {
	root := a.root()
	root.SetArgs(longFlags(root, a.args))
	err := root.ExecuteContext(ctx)
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		if exit.err != nil {
			fmt.Fprintf(a.stderr, "Error: %v\n", exit.err)
		}
		return exit.code
	}
	fmt.Fprintf(a.stderr, "Error: %v\n", err)
	return exitUsage
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "harness",
		Short: "Measure commands and coding agents over many trials",
		Long: `harness reads trial definitions, expands them into cells, runs every cell in a workspace of its own through an
adapter process, checks the outcome, keeps the evidence and says what can be concluded.`,
		Example: `  harness run config/quickstart.hcl
  harness plan config/agents.hcl --only 'solve/**'
  harness show`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fail(exitUsage, fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
	})
	root.AddCommand(
		a.runCommand(), a.planCommand(), a.validateCommand(), a.fmtCommand(),
		a.runsCommand(), a.showCommand(), a.logsCommand(), a.diffCommand(),
		a.adaptersCommand(), a.versionCommand(),
	)
	return root
}

// longFlags lets people write Terraform's single-dash long flags: -json, which the flag library would read as -j -s
// -o -n. Only names of long flags that exist are rewritten, and nothing after "--".
func longFlags(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil {
		return args
	}
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && len(name) > 1 && cmd.Flags().Lookup(name) != nil {
			arg = "-" + arg
		}
		out = append(out, arg)
	}
	return out
}
