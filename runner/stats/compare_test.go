package stats

import (
	"math"
	"testing"
)

// The values come from an independent program that inverts the interval.
func TestNewcombeP(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k1, n1, k2, n2 int
		want           float64
	}{
		{18, 25, 10, 25, .02157},
		{20, 25, 10, 25, .00352},
		{56, 70, 48, 80, .00813},
		{9, 10, 3, 10, .00496},
		{12, 25, 10, 25, .56862},
		{5, 5, 0, 5, .00051},
		{4, 8, 4, 8, 1},
	} {
		if got := NewcombeP(c.k1, c.n1, c.k2, c.n2); math.Abs(got-c.want) > 1e-5 {
			t.Errorf("NewcombeP(%d/%d, %d/%d) = %.6f, want %.5f", c.k1, c.n1, c.k2, c.n2, got, c.want)
		}
	}
	if got := NewcombeP(0, 0, 1, 2); !math.IsNaN(got) {
		t.Errorf("NewcombeP of no cells = %v, want NaN", got)
	}
}
