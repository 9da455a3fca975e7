package stats

import (
	"fmt"
	"math"
	"testing"
)

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

func TestWilson(t *testing.T) {
	t.Parallel()
	tests := []struct {
		k, n      int
		low, high float64
	}{
		// Newcombe 1998, table I.
		{81, 263, .255289, .366210},
		{15, 148, .062386, .160487},
		{0, 20, 0, .161125},
		{1, 29, .006113, .171755},
		// Computed with an independent program.
		{0, 1, 0, .793451},
		{1, 1, .206549, 1},
		{0, 3, 0, .561497},
		{1, 3, .061492, .792340},
		{2, 3, .207660, .938508},
		{3, 3, .438503, 1},
		{5, 5, .565518, 1},
		{5, 10, .236593, .763407},
		{7, 10, .396778, .892209},
		{10, 20, .299298, .700702},
		{11, 20, .342085, .741802},
		{20, 20, .838875, 1},
		{8, 50, .083374, .285142},
		{17, 50, .224369, .478462},
		{10, 25, .234033, .592605},
		{12, 25, .300313, .665015},
		{18, 25, .524234, .857161},
		{4, 4, .510109, 1},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d of %d", tt.k, tt.n), func(t *testing.T) {
			t.Parallel()
			low, high := Wilson(tt.k, tt.n, Z95)
			if !near(low, tt.low, 6e-7) || !near(high, tt.high, 6e-7) {
				t.Errorf("got %.6f to %.6f, wanted %.6f to %.6f", low, high, tt.low, tt.high)
			}
		})
	}
}

func TestWilsonProperties(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 60; n++ {
		before := -1.0
		for k := 0; k <= n; k++ {
			low, high := Wilson(k, n, Z95)
			p := float64(k) / float64(n)
			if low > p || high < p || low < 0 || high > 1 {
				t.Errorf("%d of %d: %v to %v does not hold %v", k, n, low, high, p)
			}
			mirrorLow, mirrorHigh := Wilson(n-k, n, Z95)
			if !near(low, 1-mirrorHigh, 1e-12) || !near(high, 1-mirrorLow, 1e-12) {
				t.Errorf("%d of %d is no mirror of %d of %d", k, n, n-k, n)
			}
			narrowLow, narrowHigh := Wilson(10*k, 10*n, Z95)
			if narrowHigh-narrowLow >= high-low {
				t.Errorf("%d of %d is no wider than ten times as many", k, n)
			}
			if low+high <= before {
				t.Errorf("%d of %d does not lie above %d of %d", k, n, k-1, n)
			}
			before = low + high
		}
	}
	if low, high := Wilson(0, 0, Z95); !math.IsNaN(low) || !math.IsNaN(high) {
		t.Errorf("0 of 0 gives %v to %v", low, high)
	}
}

func TestNewcombe(t *testing.T) {
	t.Parallel()
	tests := []struct {
		k1, n1, k2, n2 int
		d, low, high   float64
	}{
		// Newcombe 1998, table II.
		{56, 70, 48, 80, .2, .0524, .3339},
		{9, 10, 3, 10, .6, .1705, .8090},
		{6, 7, 2, 7, .5714, .0582, .8062},
		{5, 56, 0, 29, .0893, -.0381, .1926},
		{0, 10, 0, 20, 0, -.1611, .2775},
		{0, 10, 0, 10, 0, -.2775, .2775},
		{10, 10, 0, 20, 1, .6791, 1},
		{10, 10, 0, 10, 1, .6075, 1},
		// Computed with an independent program.
		{18, 25, 10, 25, .32, .0454, .5353},
		{20, 25, 10, 25, .4, .1285, .5999},
		{12, 25, 10, 25, .08, -.1834, .3285},
		{2, 2, 0, 2, 1, .07, 1},
		{5, 5, 0, 5, 1, .3855, 1},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d of %d against %d of %d", tt.k1, tt.n1, tt.k2, tt.n2), func(t *testing.T) {
			t.Parallel()
			d, low, high := Newcombe(tt.k1, tt.n1, tt.k2, tt.n2, Z95)
			if !near(d, tt.d, 6e-5) || !near(low, tt.low, 6e-5) || !near(high, tt.high, 6e-5) {
				t.Errorf("got %.4f, %.4f to %.4f; wanted %.4f, %.4f to %.4f", d, low, high, tt.d, tt.low, tt.high)
			}
			back, backLow, backHigh := Newcombe(tt.k2, tt.n2, tt.k1, tt.n1, Z95)
			if !near(back, -d, 1e-12) || !near(backLow, -high, 1e-12) || !near(backHigh, -low, 1e-12) {
				t.Errorf("the other way round it is %.4f, %.4f to %.4f", back, backLow, backHigh)
			}
		})
	}
}

func TestMedianRanks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		n, low, high int
		confidence   float64 // that the ranks really have
	}{
		{6, 1, 6, .9688},
		{7, 1, 7, .9844},
		{8, 1, 8, .9922},
		{9, 2, 8, .9609},
		{10, 2, 9, .9785},
		{12, 3, 10, .9614},
		{15, 4, 12, .9648},
		{17, 5, 13, .9510},
		{20, 6, 15, .9586},
		{25, 8, 18, .9567},
		{30, 10, 21, .9572},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.n), func(t *testing.T) {
			t.Parallel()
			low, high, ok := MedianRanks(tt.n, 0.95)
			if !ok || low != tt.low || high != tt.high {
				t.Errorf("got %d, %d, %v; wanted %d, %d", low, high, ok, tt.low, tt.high)
			}
			inside := 0.0
			for k := low; k < high; k++ {
				inside += binomialHalf(tt.n, k)
			}
			if !near(inside, tt.confidence, 6e-5) {
				t.Errorf("the confidence is %.4f, wanted %.4f", inside, tt.confidence)
			}
		})
	}
	for n := range 6 {
		if _, _, ok := MedianRanks(n, 0.95); ok {
			t.Errorf("%d values have an interval", n)
		}
	}
	if low, high, ok := MedianRanks(10_000, 0.95); !ok || low != 4902 || high != 5099 {
		// n/2 ± 1.96·sqrt(n)/2 = 4902 and 5098, outward by the half step of the discrete distribution.
		t.Errorf("10,000 values: %d, %d, %v", low, high, ok)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	twenty := make([]float64, 20)
	for i := range twenty {
		twenty[i] = float64(i + 1)
	}
	tests := []struct {
		name      string
		got, want float64
	}{
		{"median of one", Median([]float64{3}), 3},
		{"median of odd", Median([]float64{1, 2, 9}), 2},
		{"median of even", Median([]float64{1, 2, 4, 9}), 3},
		{"median that has no upper end", Median([]float64{1, inf, inf}), inf},
		{"p90 of 20", Quantile(twenty, 0.9), 18},
		{"p95 of 20", Quantile(twenty, 0.95), 19},
		{"p95 of 19 is the maximum", Quantile(twenty[:19], 0.95), 19},
		{"p95 of one", Quantile(twenty[:1], 0.95), 1},
		{"p0", Quantile(twenty, 0), 1},
		{"p100", Quantile(twenty, 1), 20},
		{"mean", Mean([]float64{1, 2, 6}), 3},
		{"stddev", Stddev([]float64{2, 4, 4, 4, 5, 5, 7, 9}), math.Sqrt(32.0 / 7)},
		{"stddev of equals", Stddev([]float64{5, 5}), 0},
		{"median of none", Median(nil), math.NaN()},
		{"p95 of none", Quantile(nil, 0.95), math.NaN()},
		{"mean of none", Mean(nil), math.NaN()},
		{"stddev of one", Stddev([]float64{5}), math.NaN()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			same := tt.got == tt.want || near(tt.got, tt.want, 1e-12) || math.IsNaN(tt.got) && math.IsNaN(tt.want)
			if !same {
				t.Errorf("got %v, wanted %v", tt.got, tt.want)
			}
		})
	}
}

func TestMedianInterval(t *testing.T) {
	t.Parallel()
	sorted := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	if low, high, ok := MedianInterval(sorted, 0.95); !ok || low != 2 || high != 8 {
		t.Errorf("got %v to %v, %v; wanted 2 to 8", low, high, ok)
	}
	if low, _, ok := MedianInterval(sorted[:5], 0.95); ok || !math.IsNaN(low) {
		t.Errorf("five values have an interval from %v", low)
	}
}
