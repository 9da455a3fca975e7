package plan

import (
	"math/rand/v2"
	"sort"
)

// Sequence returns the indices of cells in the order in which they are to be started; it depends on nothing but its
// arguments. Warm-up cells come first in every order.
//
// Interleaved runs every combination once before the first is repeated, each round shuffled by seed and repetition, so
// that what drifts during a run meets all variants alike, and a run that is stopped early is balanced. Random is one
// shuffle of all.
func Sequence(cells []Cell, order Order, seed int64) []int {
	rounds := map[int][]int{}
	for i, c := range cells {
		round := 0
		if !c.Warmup && order == OrderInterleaved {
			round = c.Repeat
		}
		if c.Warmup {
			round = -1
		}
		rounds[round] = append(rounds[round], i)
	}
	numbers := make([]int, 0, len(rounds))
	for n := range rounds {
		numbers = append(numbers, n)
	}
	sort.Ints(numbers)
	out := make([]int, 0, len(cells))
	for _, n := range numbers {
		round := rounds[n]
		if order != OrderSequential {
			shuffle := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
			shuffle.Shuffle(len(round), func(a, b int) { round[a], round[b] = round[b], round[a] })
		}
		out = append(out, round...)
	}
	return out
}
