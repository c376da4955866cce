package backoff

import (
	"math"
	"time"
	"unsafe"

	"github.com/gobackoff/backoff/internal/limits"
)

// A Jitter turns the delay of a schedule into the wait that is slept.
//
// delay is that of the schedule. prev is the wait before the previous retry of
// the same call, 0 before the first. u is a number drawn uniformly from [0,1)
// for every wait. A Jitter must be pure and safe for concurrent use. A negative
// wait counts as 0.
//
// Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
// 2015.
type Jitter func(delay, prev time.Duration, u float64) time.Duration

// NoJitter waits exactly the delay, for a schedule that a protocol prescribes.
// Clients that fail together then retry together.
func NoJitter(delay, _ time.Duration, _ float64) time.Duration { return delay }

// FullJitter waits between 0 and the delay, uniformly. It is the default.
func FullJitter(delay, _ time.Duration, u float64) time.Duration {
	return min(scale(delay, u), delay)
}

// EqualJitter waits between half the delay and the delay, uniformly, for
// callers that must not retry at once.
func EqualJitter(delay, _ time.Duration, u float64) time.Duration {
	half := delay / 2
	return half + min(scale(delay-half, u), delay-half)
}

// DecorrelatedJitter waits between base and three times the previous wait, at
// most max: min(max, U(base, 3*prev)), where prev is base before the first
// retry. It ignores the delay of the schedule. A wait of max is followed by
// another one of exactly max two times out of three.
//
// A base of 0 means 100 ms. A max of 0 means 30 s, or thirty times base if that
// is longer; negative means no limit. [Policy.Validate] refuses a negative base,
// and a base beyond max. In [Policy.WaitBefore] and [Policy.Decide] every wait is
// drawn as if it were the first.
func DecorrelatedJitter(base, max time.Duration) Jitter {
	if base < 0 || max > 0 && base > max {
		return invalidJitter
	}
	base = initialOf(base)
	limit := limitOf(max, base)
	return func(_, prev time.Duration, u float64) time.Duration {
		prev = clamp(prev, base, limit)
		span := scale(prev, 3) - base
		return clamp(limits.Add(base, scale(span, u)), 0, limit)
	}
}

// UniformJitter waits between lo and hi times the delay, uniformly:
// UniformJitter(0.8, 1.2) is the +-20 % of gRPC. If hi is above 1, the wait may
// pass the schedule's Max, but not [Policy.MaxDelay]. [Policy.Validate] refuses
// the jitter unless 0 <= lo <= hi and both are finite.
func UniformJitter(lo, hi float64) Jitter {
	if !(lo >= 0 && hi >= lo && hi <= math.MaxFloat64) {
		return invalidJitter
	}
	return func(delay, _ time.Duration, u float64) time.Duration {
		return scale(delay, lo+(hi-lo)*u)
	}
}

// invalidJitter is what a constructor returns for impossible bounds.
func invalidJitter(delay, _ time.Duration, _ float64) time.Duration { return delay }

// Every call validates its policy. It knows these two jitters by their address,
// because to call a jitter costs more than the rest of a call that succeeds.
var noJitterFunc, invalidJitterFunc Jitter = NoJitter, invalidJitter

func isNoJitter(j Jitter) bool      { return code(j) == code(noJitterFunc) }
func isInvalidJitter(j Jitter) bool { return code(j) == code(invalidJitterFunc) }

// code returns the address of the code of a function, which is unique for top-level
// functions. To ask package reflect for it would add 15 KiB to every program.
func code(j Jitter) uintptr { return **(**uintptr)(unsafe.Pointer(&j)) }

// checkJitter returns the error of a jitter with impossible bounds.
func checkJitter(field string, j Jitter) error {
	if j == nil || !isInvalidJitter(j) {
		return nil
	}
	return invalid(field, "has impossible bounds: DecorrelatedJitter wants 0 <= base <= max, UniformJitter 0 <= lo <= hi")
}

// clamp moves d into [lo, hi].
func clamp(d, lo, hi time.Duration) time.Duration { return min(max(d, lo), hi) }
