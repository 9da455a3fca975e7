package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cellharness/runner/event"
	"cellharness/runner/pluginhost"
	"cellharness/shared"
)

func (a *app) adaptersCommand() *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "adapters",
		Short: "Launch and negotiate every adapter, and show what it can",
		Long: `Launches each of the two adapters, negotiates with it and shows what it is and what it can. Levels of limits are
those of this machine: none, observed, best_effort (with what escapes) or enforced. Exit 4 when one cannot be had.`,
		Example: "  harness adapters",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := a.newOutput("", json, nil)
			err := a.showAdapters(cmd, out)
			out.finish(&event.RunFinished{ExitCode: codeOf(err)})
			return err
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON lines on stdout")
	return cmd
}

func (a *app) showAdapters(cmd *cobra.Command, out *output) error {
	host, err := pluginhost.New(a.hostConfig("", out))
	if err != nil {
		return fail(exitAdapter, err)
	}
	defer a.stopQuietly(host)
	missing := 0
	for _, kind := range shared.Kinds() {
		description, digest, err := host.Describe(cmd.Context(), kind.Name)
		if err != nil {
			missing++
			fmt.Fprintf(a.stderr, "Error: %v\n", err)
			continue
		}
		if !out.json {
			renderDescription(a.stdout, description, digest)
			continue
		}
		out.event(&event.AdapterReady{
			Kind: kind.Name, Version: description.Version, Digest: digest, Capabilities: description.Capabilities,
		})
	}
	if missing > 0 {
		return fail(exitAdapter, nil)
	}
	return nil
}

func renderDescription(w io.Writer, d shared.Description, digest string) {
	c := d.Capabilities
	fmt.Fprintf(w, "%s   version %s, services %s, binary %.12s\n", d.Name, d.Version, strings.Join(d.Services, " "), digest)
	fmt.Fprintf(w, "  cold start %s · streaming %s · transfer %s · image build %s · hosts prompt cells %s · makes workspaces %s\n",
		c.ColdStart, yes(c.Streaming), c.Transfer, yes(c.ImageBuild), yes(c.HostsPromptCells), yes(c.Provisions))
	for _, dim := range shared.Dimensions() {
		s := c.Support(dim)
		line := fmt.Sprintf("  %-16s %-12s %s", dim, s.Level, s.Mechanism)
		if s.Reason != "" {
			line += " (" + s.Reason + ")"
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
