// Package limits holds the library's rule for limits that a user may leave out.
package limits

import "time"

// Or returns n, or standard where n is 0: the documented default. A negative n
// means no limit and is returned as it is.
func Or[N int | int64 | time.Duration | float64](n, standard N) N {
	if n == 0 {
		return standard
	}
	return n
}
