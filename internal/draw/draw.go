// Package draw draws random numbers, from the generator that a user has set or
// from the default one.
package draw

import mathrand "math/rand/v2"

// Largest is the largest number that Unit returns: the one just below 1.
const Largest = 1 - 1.0/(1<<53)

// Unit draws a number from [0,1), with rand or, where that is nil, with
// math/rand/v2. What a user's rand returns beyond the interval is taken as the
// nearest number within it, and a NaN as 0.
func Unit(rand func() float64) float64 {
	if rand == nil {
		return mathrand.Float64()
	}
	switch u := rand(); {
	case u >= 1:
		return Largest
	case u >= 0:
		return u
	}
	return 0
}
