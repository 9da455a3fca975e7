package adaptertest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellharness/shared"
	"cellharness/shared/adaptertest"
)

// Variables that make this test's executable something else.
const (
	beFake   = "ADAPTERTEST_BE_FAKE"   // a fake adapter
	beFaulty = "ADAPTERTEST_BE_FAULTY" // a fake adapter with this fault from its start
	beLiar   = "ADAPTERTEST_BE_LIAR"   // the conformance suite on a fake adapter that tells this lie
)

// fault is for faults that are written in this file, and so are right.
func fault(text string) adaptertest.Fault {
	f, err := adaptertest.ParseFault(text)
	if err != nil {
		panic(err)
	}
	return f
}

func TestMain(m *testing.M) {
	if os.Getenv(beFake) != "" {
		os.Exit(adaptertest.FakeMain())
	}
	if text := os.Getenv(beFaulty); text != "" {
		os.Exit(adaptertest.NewFake(adaptertest.FakeName, fault(text)).Serve())
	}
	os.Exit(m.Run())
}

// configuration is one that the fake accepts, with a root of its own.
func configuration(t *testing.T, faults ...string) shared.Configuration {
	t.Helper()
	return shared.Configuration{
		Instance: "here", Owner: "owner-of-the-test",
		Settings:    adaptertest.FakeSettings(filepath.Join(t.TempDir(), "workspaces"), faults...),
		Refs:        []string{"v1"},
		Environment: map[string]string{"PATH": os.Getenv("PATH"), "PASSED": "from the host"},
	}
}

func subject(faults ...string) adaptertest.Subject {
	return adaptertest.Subject{
		Name: adaptertest.FakeName,
		New: func(t *testing.T) (shared.Adapter, shared.Configuration) {
			return adaptertest.NewFake(adaptertest.FakeName), configuration(t, faults...)
		},
		Process: func(t *testing.T) (shared.Adapter, shared.Configuration) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			return adaptertest.Process(t, exe, []string{beFake + "=1"}), configuration(t, faults...)
		},
		Ref:         "v1",
		BadSettings: []byte(`{"root": "relative"}`),
		BadField:    "root",
	}
}

func TestFake(t *testing.T) { adaptertest.Run(t, subject()) }

// TestFake_WithoutWorkspaces holds that an adapter which only negotiates can pass the suite.
func TestFake_WithoutWorkspaces(t *testing.T) {
	s := subject()
	s.Process = nil
	s.New = func(t *testing.T) (shared.Adapter, shared.Configuration) {
		f := adaptertest.NewFake(adaptertest.FakeName)
		f.Capabilities.Provisions = false
		return f, configuration(t)
	}
	adaptertest.Run(t, s)
}

// TestLiar is run by TestLies alone.
func TestLiar(t *testing.T) {
	lie := os.Getenv(beLiar)
	if lie == "" {
		t.Skip("it fails by intention; TestLies runs it in a process of its own")
	}
	s := subject()
	s.Process = nil
	s.New = func(t *testing.T) (shared.Adapter, shared.Configuration) {
		if at, ok := adaptertest.Lies()[lie]; ok {
			moment, _, _ := strings.Cut(at, ":")
			f := adaptertest.NewFake(adaptertest.FakeName, fault(moment+" lie:"+lie))
			return f, configuration(t)
		}
		// It claims to enforce what it does not.
		f := adaptertest.NewFake(adaptertest.FakeName)
		f.Capabilities.Limits[shared.Dimension(lie)] = shared.Support{Level: shared.LevelEnforced, Mechanism: "none"}
		return f, configuration(t)
	}
	adaptertest.Run(t, s)
}

// TestLies holds that the suite fails an adapter that lies, in the case that is about the lie.
func TestLies(t *testing.T) {
	t.Parallel()
	caught := map[string]string{
		"name":            "negotiate",
		"unfit":           "negotiate",
		"seeds":           "seed_all_or_none",
		"exit_code":       "exit_code",
		"output":          "output_large",
		"count":           "output_streams_apart",
		"streams":         "output_streams_apart",
		"env":             "env_of_the_host",
		"timeout":         "timeout",
		"survivors":       "survivors",
		"limit":           "output_limit",
		"digest":          "artifact_states",
		"missing":         "artifact_states",
		"links":           "artifact_links",
		"diff":            "patch_of_nothing",
		"removed":         "teardown_removes",
		"wall_time":       "timeout_attacked",
		"process_cleanup": "survivors_attack",
	}
	for lie := range adaptertest.Lies() {
		if caught[lie] == "" {
			t.Errorf("no case is said to catch the lie %q", lie)
		}
	}
	for lie, name := range caught {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			out, err := runSelf(t, []string{beLiar + "=" + lie}, "-test.run=^TestLiar$/^direct$/^"+name+"$", "-test.v")
			if err == nil || !strings.Contains(out, "--- FAIL: TestLiar/direct/"+name+" ") {
				t.Errorf("the suite ended with %v; want the case %s to fail:\n%s", err, name, out)
			}
		})
	}
}

// runSelf runs this test's executable as something else.
func runSelf(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second // what it left running may hold its output
	out, err := cmd.CombinedOutput()
	return string(out), err
}
