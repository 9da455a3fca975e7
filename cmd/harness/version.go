package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"cellharness/runner/event"
	"cellharness/shared"
	"cellharness/shared/wire"
)

func (a *app) versionCommand() *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of the harness and of the adapter protocol",
		Example: "  harness version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if json {
				a.newOutput("", true, nil).finish(&event.RunFinished{})
				return nil
			}
			build := shared.Build()
			if build == "" {
				build = "unknown"
			}
			fmt.Fprintf(a.stdout, "harness %s (build %s, %s, protocol %d)\n", shared.Version, build, runtime.Version(), wire.ProtocolVersion)
			return nil
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON lines on stdout")
	return cmd
}
