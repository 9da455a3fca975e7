// Command localworktree is the adapter that gives every cell a git worktree on this machine. The harness starts it.
package main

import (
	"os"

	"cellharness/plugins/localworktree/adapter"
)

func main() { os.Exit(adapter.Main()) }
