package runner_test

import (
	"slices"
	"strings"
	"testing"

	"cellharness/runner/record"

	"cellharness/runner/plan"
	"cellharness/shared/adaptertest"
)

// TestCrash_InEveryPhase holds that a dead adapter costs one attempt: its workspace is found and removed by the next
// generation, the cell is tried again, and the cells of another instance notice nothing.
func TestCrash_InEveryPhase(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"provision", "setup", "cell", "collect", "verify"} {
		for _, after := range []bool{false, true} {
			name := at + " before its work"
			if after {
				name = at + " after its work"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c, other := cell("a", "fake:write", "x=1"), cell("b")
				setup := step("fake:exit", "0")
				c.Setup, c.Diff, c.Verify = &setup, true, verify("fake:cat", "x")
				other.Adapter = "there"
				w := newWorld(t, c, other)
				w.plan.Adapters = append(w.plan.Adapters, plan.Adapter{Instance: "there", Kind: adaptertest.FakeName})
				w.adapters.instances["there"] = &instance{name: "there", root: t.TempDir()}
				in := w.adapters.instances[here]
				in.hook = dieAt(at, after, 1)
				w.run(t.Context())
				all := w.recorded()
				// The other cell may end while this one is disposed of.
				slices.SortStableFunc(all, func(a, b record.Result) int { return strings.Compare(a.Cell, b.Cell) })
				if len(all) != 3 {
					t.Fatalf("%d records, want 3", len(all))
				}
				wantStatus(t, all[0], "error passed=null cause=adapter_crashed")
				wantStatus(t, all[1], "completed passed=true")
				wantStatus(t, all[2], "completed passed=true")
				if all[0].Generation != 1 || all[1].Generation != 2 || all[0].Cleanup != "clean" {
					t.Errorf("generations %d and %d, cleanup %s; want 1, 2, clean", all[0].Generation, all[1].Generation, all[0].Cleanup)
				}
				if in.started != 2 || w.adapters.instances["there"].started != 1 || all[2].Generation != 1 {
					t.Errorf("%d and %d generations were started, want 2 and 1", in.started, w.adapters.instances["there"].started)
				}
				w.wantClean()
			})
		}
	}
}

func TestCrash_InTeardownChangesNoResult(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		w := newWorld(t, cell("a", "fake:exit", "3"))
		w.adapters.instances[here].hook = dieAt("teardown", after, 1)
		r := w.one()
		wantStatus(t, r, "completed passed=false")
		if r.Cleanup != "clean" || r.Attempt != 1 {
			t.Errorf("cleanup %s after attempt %d, want clean after 1", r.Cleanup, r.Attempt)
		}
		w.wantClean()
	}
}

func TestCrash_WhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a", "fake:out", "begun", "fake:sleep", "1h"))
	w.plan.Cells[0].Attempts = 1
	w.adapters.instances[here].faults = []string{"output sleep:1ms"}
	w.adapters.instances[here].hook = func(c call) error {
		if c.at == "cell" {
			go c.generation.die()
		}
		return nil
	}
	r := w.one()
	wantStatus(t, r, "error passed=null cause=adapter_crashed")
	if r.Stdout == nil || int(r.Stdout.Stored) != len(w.stored("a", "stdout.log")) {
		t.Errorf("stdout %+v does not tell of what is stored", r.Stdout)
	}
	w.wantClean()
}

// TestCrash_BetweenPhases holds that no command runs in the workspace of a dead generation, and that what a finished
// command has left is still collected.
func TestCrash_BetweenPhases(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at        string // the phase after whose answer the process dies
		verify    *plan.Verify
		want      string
		collected bool
	}{
		"before the cell":    {"setup", nil, "error passed=null cause=adapter_crashed", false},
		"before the collect": {"cell", nil, "completed passed=true", true},
		"before the verify":  {"cell", verify("fake:exit", "0"), "error passed=null cause=adapter_crashed", true},
		"before fresh verify": {
			"cell", &plan.Verify{Step: step("fake:cat", "x"), Fresh: true}, "completed passed=true", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cell("a", "fake:write", "x=1")
			setup := step("fake:exit", "0")
			c.Setup, c.Diff, c.Verify, c.Attempts = &setup, true, test.verify, 1
			w := newWorld(t, c)
			in := w.adapters.instances[here]
			in.dieOnceAnswered(test.at)
			r := w.one()
			wantStatus(t, r, test.want)
			if in.started != 2 {
				t.Errorf("%d generations were started, want 2", in.started)
			}
			if r.Generation != 1 {
				t.Errorf("generation %d, want 1, which ran the command", r.Generation)
			}
			if (r.Diff != nil) != test.collected {
				t.Errorf("diff %v, want one: %t", r.Diff, test.collected)
			}
			w.wantClean()
		})
	}
}

// TestCrash_OfAnAdapterThatDoesNotComeBack holds that the cell says so, whatever phase it was in, and that its workspace
// stays on record.
func TestCrash_OfAnAdapterThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"provision", "setup", "cell"} {
		t.Run("after "+at, func(t *testing.T) {
			t.Parallel()
			c := cell("a")
			setup := step("fake:exit", "0")
			c.Setup, c.Diff, c.Attempts = &setup, true, 1
			w := newWorld(t, c)
			in := w.adapters.instances[here]
			in.most = 1
			in.dieOnceAnswered(at)
			r := w.one()
			wantStatus(t, r, "error passed=null cause=adapter_crashed")
			if journal, index := w.openLeases(); r.Cleanup != "unknown" || len(journal) != 1 || len(index) != 1 {
				t.Errorf("cleanup %s, open leases: journal %v, index %v", r.Cleanup, journal, index)
			}
		})
	}
}

func TestAdapter_ThatCannotBeHadIsAnErrorOfProvision(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a"))
	w.adapters.instances[here].most = -1
	r := w.one()
	wantStatus(t, r, "error passed=null cause=provision")
	if r.Attempt != 2 || r.Generation != 0 {
		t.Errorf("attempt %d, generation %d; want 2 and none", r.Attempt, r.Generation)
	}
	w.wantClean()
}
