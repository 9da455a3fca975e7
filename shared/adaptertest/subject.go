package adaptertest

import (
	"fmt"
	"slices"
	"testing"

	"cellharness/shared"
	"cellharness/shared/wire"
)

// Subject is an adapter that the conformance suite is run on.
type Subject struct {
	// Name is the registered name that the adapter has to say.
	Name string

	// New returns a fresh adapter, neither negotiated nor configured, and a configuration that it accepts. Whatever
	// it makes belongs to t. Commands need a POSIX shell and the usual small programs in the PATH they get.
	New func(t *testing.T) (shared.Adapter, shared.Configuration)

	// Process is New for an adapter in a process of its own; the function Process of this package starts one. Nil
	// skips the cases in a process.
	Process func(t *testing.T) (shared.Adapter, shared.Configuration)

	// Ref is what workspaces are made of: one of Configuration.Refs, or empty for the instance's own base. The cases
	// make files of many short names in a workspace, so its commit should hold little.
	Ref string

	// BadSettings are settings that the adapter has to refuse, and BadField is the field that it has to name.
	BadSettings []byte
	BadField    string

	// Skip names cases that this adapter cannot pass, each with the reason.
	Skip map[string]string
}

// Run runs the conformance suite on an adapter that is called directly, through gRPC inside this process, and in a
// process of its own. It plants a variable in the environment, so the test that calls it may not be parallel; its own
// subtests are.
func Run(t *testing.T, s Subject) {
	t.Helper()
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(canaryName, canaryValue)
	t.Run("direct", func(t *testing.T) { s.run(t, s.New) })
	t.Run("grpc", func(t *testing.T) { s.run(t, s.throughGRPC) })
	t.Run("process", func(t *testing.T) {
		if s.Process == nil {
			t.Skip("the subject has no process")
		}
		s.run(t, s.Process)
	})
}

func (s Subject) check() error {
	if s.Name == "" || s.New == nil || s.BadSettings == nil || s.BadField == "" {
		return fmt.Errorf("the subject lacks Name, New, BadSettings or BadField")
	}
	for name := range s.Skip {
		known := func(c testCase) bool { return c.name == name }
		if !slices.ContainsFunc(cases(), known) {
			return fmt.Errorf("the subject skips %q, which is no case of the suite", name)
		}
	}
	return nil
}

func (s Subject) throughGRPC(t *testing.T) (shared.Adapter, shared.Configuration) {
	a, cfg := s.New(t)
	client, stop, err := wire.InProcess(a)
	if err != nil {
		t.Fatalf("connect through gRPC: %v", err)
	}
	t.Cleanup(stop)
	return client, cfg
}

// testCase is one promise of the contract.
type testCase struct {
	name string
	run  func(t *testing.T, b *bench)
}

func cases() []testCase {
	return slices.Concat(
		contractCases(), workspaceCases(), seedCases(), commandCases(), outputCases(), endCases(), artifactCases(), patchCases(),
	)
}

// run runs all cases with adapters from open. Most of them share one adapter, as cells do.
func (s Subject) run(t *testing.T, open func(t *testing.T) (shared.Adapter, shared.Configuration)) {
	b := newBench(t, s, open)
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			if reason := s.Skip[c.name]; reason != "" {
				t.Skip(reason)
			}
			t.Parallel()
			c.run(t, b)
		})
	}
}
