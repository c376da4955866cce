// Package draw draws the random numbers of the library.
package draw

import (
	"math/rand/v2"
	"time"
)

// Unit draws a number uniformly from [0,1) by a user's generator, or by
// math/rand/v2 if that is nil. What a generator draws beyond the interval is
// moved into it.
func Unit(generator func() float64) float64 {
	if generator == nil {
		return rand.Float64()
	}
	return Clamp(generator())
}

// Clamp moves u into [0,1).
func Clamp(u float64) float64 {
	if u >= 0 && u < 1 {
		return u
	}
	if u >= 1 {
		return 1 - 1.0/(1<<53)
	}
	return 0
}

// OneInFour draws from the clock, so that a fleet draws differently, and a
// simulation the same again.
func OneInFour(now time.Time) bool {
	const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	return uint64(now.UnixNano())*golden>>62 == 0
}
