package presets

import (
	"time"

	"github.com/gobackoff/backoff"
)

// The types in files config_*.go are settings in the form of other systems.
// They have the fields of the other system and its meaning of 0, which is
// mostly 0, and a method Policy that says the same in the form of this library.
// All of them keep these rules:
//
//   - A configuration without retries is MaxAttempts: 1. One that retries for
//     ever is MaxAttempts: -1; then the context must end the call.
//   - A delay of 0 is backoff.Constant(0), which retries at once.
//   - A value that the other system refuses, or that makes no sense, is an error
//     that names the field and the value, also where retries are off.
//   - Everything else is as for all presets.

// growing returns the schedule of delays that begin with initial and grow by
// factor up to limit. A factor of 0 means that they do not grow. limit must not
// be below initial; a negative one is none.
func growing(initial, limit time.Duration, factor float64) backoff.Schedule {
	if initial == 0 || factor == 0 {
		return backoff.Constant(initial)
	}
	return backoff.Exponential{Initial: initial, Max: limit, Multiplier: factor}
}

// between returns the jitter that waits lo to hi times the delay. lo and hi may
// be the same 1.
func between(lo, hi float64) backoff.Jitter {
	if lo == hi {
		return backoff.NoJitter
	}
	return backoff.UniformJitter(lo, hi)
}
