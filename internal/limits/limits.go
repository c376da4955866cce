// Package limits is the arithmetic of settings: defaults, and sums that cannot
// overflow.
package limits

import (
	"math"
	"time"
)

// Or returns n, or the standard where n is 0. In this library 0 means the
// documented default, everywhere.
func Or[N int | int64 | time.Duration | float64](n, standard N) N {
	if n == 0 {
		return standard
	}
	return n
}

// Add returns a+b for a b of 0 or more, or the longest duration where the sum
// would overflow.
func Add(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}
