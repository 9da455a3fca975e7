package stats

import "math"

// Z95 is the quantile of the normal distribution that belongs to a two-sided confidence of 95 %.
const Z95 = 1.959963984540054

// Wilson returns the score interval of the rate k/n, clamped to [0, 1]. NaN, NaN when n is 0. Unlike the textbook
// interval p ± z·sqrt(p(1-p)/n) it holds its confidence for few cells and for rates near 0 and 1
// (Newcombe, Statistics in Medicine 17, 1998, p. 857, method 3).
func Wilson(k, n int, z float64) (low, high float64) {
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	size := float64(n)
	p := float64(k) / size
	scale := 1 + z*z/size
	centre := (p + z*z/(2*size)) / scale
	half := z * math.Sqrt(p*(1-p)/size+z*z/(4*size*size)) / scale
	low, high = math.Max(0, centre-half), math.Min(1, centre+half)
	// At the ends the bound is exact; in floating point it may miss by the last digit.
	if k == 0 {
		low = 0
	}
	if k == n {
		high = 1
	}
	return low, high
}

// Newcombe returns the difference k1/n1 - k2/n2 and its interval, made of the two Wilson intervals. All NaN when n1 or
// n2 is 0 (Newcombe, Statistics in Medicine 17, 1998, p. 873, method 10).
func Newcombe(k1, n1, k2, n2 int, z float64) (difference, low, high float64) {
	p1, p2 := float64(k1)/float64(n1), float64(k2)/float64(n2)
	l1, u1 := Wilson(k1, n1, z)
	l2, u2 := Wilson(k2, n2, z)
	difference = p1 - p2
	return difference, difference - math.Hypot(p1-l1, u2-p2), difference + math.Hypot(u1-p1, p2-l2)
}
