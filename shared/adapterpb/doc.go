// Code generated from harness/adapter/v1/adapter.proto by the test of shared/proto. DO NOT EDIT.

// Package adapterpb is the generated code of the package harness.adapter.v1. Only shared/wire translates between it and the types of
// shared.
package adapterpb
