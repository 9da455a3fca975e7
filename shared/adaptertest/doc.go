// Package adaptertest holds what tests of adapters, and tests with adapters, need: the conformance suite that every
// adapter passes, and a fake adapter that passes it too and can be told to fail.
//
// [Run] is the contract of package shared as a test. It runs the same cases on an adapter called directly, through
// gRPC inside the process, and in a process of its own. It knows no adapter: what differs it reads from capabilities
// or from the [Subject], and what it leaves out it skips with a reason.
//
// [Fake] is a small but whole adapter. Its workspaces are directories, its commands are real processes, or, for tests
// of the engine that need thousands of cells, the quick commands that it interprets by itself. A [Fault] makes it
// crash, hang, fail or lie at a moment of choice. It is outside the registry: only tests that pass a registry with
// [FakeKind] can name it.
//
// Only tests import this package.
package adaptertest
