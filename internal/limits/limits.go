// Package limits holds the rule by which this module reads every limit, and
// sums of durations that cannot overflow.
package limits

import (
	"math"
	"time"
)

// Or returns standard if n is 0, and n otherwise. In this module 0 means the
// documented default, and a negative number means no limit; the caller tells
// the latter by the sign of the result.
func Or[N ~int | ~int64 | ~float64](n, standard N) N {
	if n == 0 {
		return standard
	}
	return n
}

// OrMost is Or, but most for a negative n.
func OrMost[N ~int | ~int64 | ~float64](n, standard, most N) N {
	if n < 0 {
		return most
	}
	return Or(n, standard)
}

// Cap returns d, and the limit where d is longer. A limit of 0 or less is none.
func Cap(d, limit time.Duration) time.Duration {
	if limit > 0 {
		return min(d, limit)
	}
	return d
}

// Add returns a+b for a b of 0 or more, or the longest duration if the sum
// would overflow.
func Add(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}
