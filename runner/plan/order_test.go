package plan_test

import (
	"fmt"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/plan"
)

// matrix is 4 combinations of 3 repetitions and one warm-up, in the order of a definition.
func matrix() []plan.Cell {
	var cells []plan.Cell
	for c := range 4 {
		name := fmt.Sprint(c)
		cells = append(cells, plan.Cell{Task: name, Repeat: 1, Warmup: true})
		for r := range 3 {
			cells = append(cells, plan.Cell{Task: name, Repeat: r + 1})
		}
	}
	return cells
}

func TestSequenceIsAPermutationThatStartsWithWarmUps(t *testing.T) {
	t.Parallel()
	cells := matrix()
	for _, order := range []plan.Order{plan.OrderInterleaved, plan.OrderRandom, plan.OrderSequential} {
		got := plan.Sequence(cells, order, 7)
		if diff := cmp.Diff(got, plan.Sequence(cells, order, 7)); diff != "" {
			t.Errorf("%s: the same seed gives another order:\n%s", order, diff)
		}
		for n, i := range got[:4] {
			if !cells[i].Warmup {
				t.Errorf("%s: cell %d at place %d is no warm-up", order, i, n)
			}
		}
		sorted := append([]int{}, got...)
		sort.Ints(sorted)
		for n, i := range sorted {
			if n != i {
				t.Fatalf("%s: no permutation: %v", order, got)
			}
		}
	}
}

func TestInterleavedRunsEveryCombinationOnceARound(t *testing.T) {
	t.Parallel()
	cells := matrix()
	got := plan.Sequence(cells, plan.OrderInterleaved, 7)[4:]
	orders := map[string]bool{}
	for round := range 3 {
		tasks := ""
		for _, i := range got[round*4 : round*4+4] {
			if cells[i].Repeat != round+1 {
				t.Errorf("round %d holds repetition %d", round, cells[i].Repeat)
			}
			tasks += cells[i].Task
		}
		orders[tasks] = true
	}
	if len(orders) == 1 {
		t.Errorf("every round has the same order: %v", orders)
	}
}

func TestSequentialIsTheOrderOfTheDefinition(t *testing.T) {
	t.Parallel()
	want := []int{0, 4, 8, 12, 1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15}
	if diff := cmp.Diff(want, plan.Sequence(matrix(), plan.OrderSequential, 7)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestSeedChangesTheOrder(t *testing.T) {
	t.Parallel()
	cells := matrix()
	for _, order := range []plan.Order{plan.OrderInterleaved, plan.OrderRandom} {
		if cmp.Equal(plan.Sequence(cells, order, 1), plan.Sequence(cells, order, 2)) {
			t.Errorf("%s: seeds 1 and 2 give one order", order)
		}
	}
}
