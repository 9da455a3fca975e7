// Package runner is the engine: it takes a frozen plan and live adapters, gives every cell its attempts, keeps the
// evidence, disposes of the workspaces and hands back the records.
//
// It knows adapters through the interface of package shared alone and reads their capabilities, never their names.
// Definitions, adapter processes, the terminal, the clock and chance are given to it: packages definition and
// pluginhost are plugged in by the command, and fakes by tests. What it promises: a workspace's lease is on disk
// before the workspace is asked for; a record that was acknowledged is not lost; only infrastructure causes start
// another attempt; a failed teardown never changes a result and is never hidden.
package runner
