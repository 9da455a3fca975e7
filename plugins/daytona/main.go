// Command daytona is the adapter process of Daytona sandboxes. The harness starts it; by hand it says so and ends.
package main

import (
	"os"

	"cellharness/plugins/daytona/adapter"
)

func main() { os.Exit(adapter.Main()) }
