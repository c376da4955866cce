// Package limits holds the rule for a limit in a struct of options: 0 means the
// documented default, and a negative number means no limit.
package limits

import "time"

// Or returns n, or standard if n is 0. A negative n is returned as it is: what
// it means is for the caller to say.
func Or[N int | int64 | time.Duration | float64](n, standard N) N {
	if n == 0 {
		return standard
	}
	return n
}
