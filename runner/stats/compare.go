package stats

import "math"

// MinDistinguishable is how many counted cells each side needs before two rates may be told apart. Below it the
// interval of the difference alone is wrong too often: with two cells a side, in one of eight cases.
const MinDistinguishable = 5

// NewcombeP returns the p value of the difference of two rates: 1 less the confidence at which a bound of the Newcombe
// interval touches 0. It is 1 where the rates are equal, and NaN when n1 or n2 is 0.
func NewcombeP(k1, n1, k2, n2 int) float64 {
	if n1 == 0 || n2 == 0 {
		return math.NaN()
	}
	excludes := func(z float64) bool {
		_, low, high := Newcombe(k1, n1, k2, n2, z)
		return low > 0 || high < 0
	}
	low, high := 0.0, 10.0 // beyond z = 10 a p value is 0 for every purpose
	if excludes(high) {
		return 0
	}
	for range 60 { // halves the range until the digits of a float64 are used up
		if mid := (low + high) / 2; excludes(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Erfc(low / math.Sqrt2)
}
