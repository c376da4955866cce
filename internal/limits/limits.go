// Package limits holds the rule by which this module reads every limit: 0 means
// the documented default, and a negative number means no limit.
package limits

// Or returns standard if n is 0, and n otherwise. A negative n means no limit; the
// caller tells by the sign of the result.
func Or[N ~int | ~int64 | ~float64](n, standard N) N {
	if n == 0 {
		return standard
	}
	return n
}
