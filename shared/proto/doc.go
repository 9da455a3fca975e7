// Package proto holds the text of the wire contract and the test that keeps the generated code fresh.
//
// The text under harness/ is the specification; adapterpb and worktreepb are generated from it, and wire.lock shows each
// field, value and method on a line, so that a review sees what a change does to the wire. After an edit:
//
//	go test ./shared/proto -run TestGenerated -update
//
// The wire only grows: a line of wire.lock that has been released is never changed, and what is removed is reserved.
package proto
