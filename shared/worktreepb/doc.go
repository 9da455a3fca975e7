// Code generated from harness/worktree/v1/worktree.proto by the test of shared/proto. DO NOT EDIT.

// Package worktreepb is the generated code of the package harness.worktree.v1. Only shared/wire translates between it and the types of
// shared.
package worktreepb
