package stats

import "math"

// Median returns the middle of values, which are in ascending order; of an even number the mean of the two in the
// middle. NaN of none.
func Median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Quantile returns the nearest-rank quantile of values in ascending order: the smallest value that at least the share
// q, 0 to 1, of them does not exceed. It is always one of the values; the 0.95 quantile of fewer than 20 is their
// maximum. NaN of none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	// 0.95 × 20 must be 19, whatever the last binary digit says.
	rank := int(math.Ceil(q*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// MedianRanks returns the ranks, from 1, of the two values out of n in ascending order that enclose the median with at
// least the given confidence, 0 to 1, whatever the distribution: the narrowest symmetric pair. ok is false when n is
// too small for any pair; for 0.95 that is below 6.
func MedianRanks(n int, confidence float64) (low, high int, ok bool) {
	// The number of values below the median is binomial with n and 1/2. The ranks r and n+1-r miss it when that number
	// is below r or above n-r.
	outside := 0.0
	for r := 1; r <= n/2; r++ {
		outside += 2 * binomialHalf(n, r-1)
		if 1-outside < confidence {
			break
		}
		low = r
	}
	return low, n + 1 - low, low > 0
}

// binomialHalf is the probability of k heads in n throws. By logarithms, since the coefficients overflow for n > 1029.
func binomialHalf(n, k int) float64 {
	lgamma := func(x int) float64 { v, _ := math.Lgamma(float64(x)); return v }
	return math.Exp(lgamma(n+1) - lgamma(k+1) - lgamma(n-k+1) - float64(n)*math.Ln2)
}

// MedianInterval returns the interval of the median of values in ascending order, see MedianRanks.
func MedianInterval(sorted []float64, confidence float64) (low, high float64, ok bool) {
	l, h, ok := MedianRanks(len(sorted), confidence)
	if !ok {
		return math.NaN(), math.NaN(), false
	}
	return sorted[l-1], sorted[h-1], true
}

// Mean returns the arithmetic mean. NaN of none.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Stddev returns the standard deviation of a sample, divided by n-1. NaN of fewer than two.
func Stddev(values []float64) float64 {
	if len(values) < 2 {
		return math.NaN()
	}
	mean, sum := Mean(values), 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}
