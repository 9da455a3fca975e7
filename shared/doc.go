// Package shared is the contract between the harness and its adapters: the words, and what each of them promises.
//
// A measured cell lives through four legs. Provision gives it a workspace, RunCell runs one command in that workspace
// (once for each of the phases setup, cell and verify), Collect brings back what the command left, Teardown disposes of
// the workspace and says truthfully what is gone. Around them: Negotiate and Configure before the first cell, Find to
// recognise what a dead process left, Drain before a stop.
//
// Three kinds of bad news are never mixed. What the measured command did (a non-zero exit, a timeout, a limit that
// bit) is a [Result]. An operation that failed is an [Error] with a code and a cause; both survive the wire. The death
// of an adapter process is seen by the host alone, which makes the error itself.
//
// The package holds vocabulary only: the standard library, no I/O, no goroutines. Generated wire code is in adapterpb
// and worktreepb, the go-plugin and gRPC glue in wire, the conformance suite and the fake adapter in adaptertest.
// Everybody may import shared; shared imports nothing of this module.
package shared
