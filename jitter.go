package backoff

import (
	"math"
	"time"
	"unsafe"

	"github.com/gobackoff/backoff/internal/limits"
)

// A Jitter turns the delay of a schedule into the wait that is slept.
//
// A Jitter gets the delay, already bounded by the schedule; prev, the wait
// before the previous retry of the same call, 0 before the first; and u, a
// number drawn uniformly from [0,1), once for every wait. It must be pure and
// safe for concurrent use. The randomness is in u and the history in prev, so
// that policies can be shared, and tables and plots need no generator. A
// negative wait counts as 0.
//
// A jitter spreads the bounded delay, so the spread does not collapse at the
// schedule's Max. [Policy.MaxDelay] bounds the wait instead, at a price: all
// waits that would be longer become the same.
//
// Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
// 2015.
type Jitter func(delay, prev time.Duration, u float64) time.Duration

// NoJitter waits exactly the delay. Clients that fail together then retry
// together. NoJitter is for a schedule that a protocol prescribes.
func NoJitter(delay, _ time.Duration, _ float64) time.Duration { return delay }

// FullJitter waits between 0 and the delay, uniformly. It is the default,
// because it spreads most and costs the server the fewest calls under
// contention.
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
// retry. It does not look at the schedule's delay; the waits grow by their own
// draws.
//
// A base of 0 means 100 ms. A max of 0 means 30 s, or thirty times base if that
// is longer; a negative max means no limit. [Policy.Validate] refuses a negative
// base, and a base beyond max. The price: of the waits that follow a wait of
// max, two thirds are exactly max, so clients bunch there.
//
// The previous wait lives in the call. In [Policy.WaitBefore] and [Policy.Decide],
// which have no call, every wait is drawn as if it were the first.
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

// UniformJitter waits between lo and hi times the delay: UniformJitter(0.8,
// 1.2) is the +-20 % of gRPC, UniformJitter(0.5, 1.5) that of many other
// libraries. If hi is above 1, the wait may pass the schedule's Max;
// [Policy.MaxDelay] bounds it.
//
// [Policy.Validate] refuses the jitter unless 0 <= lo <= hi and both are
// finite.
func UniformJitter(lo, hi float64) Jitter {
	if !(lo >= 0 && hi >= lo && hi <= math.MaxFloat64) {
		return invalidJitter
	}
	return func(delay, _ time.Duration, u float64) time.Duration {
		return scale(delay, lo+(hi-lo)*u)
	}
}

// invalidJitter is what a constructor returns for bounds that cannot be.
func invalidJitter(delay, _ time.Duration, _ float64) time.Duration { return delay }

// Every call validates its policy. It knows these two jitters by their address,
// because to call a jitter costs more than the rest of a call that succeeds.
var noJitterFunc, invalidJitterFunc Jitter = NoJitter, invalidJitter

func isNoJitter(j Jitter) bool      { return code(j) == code(noJitterFunc) }
func isInvalidJitter(j Jitter) bool { return code(j) == code(invalidJitterFunc) }

// code returns the address of the code of a function, which is unique for top-level
// functions. To ask package reflect for it would add 15 KiB to every program.
func code(j Jitter) uintptr { return **(**uintptr)(unsafe.Pointer(&j)) }

// checkJitter returns the error of a jitter that was made with bounds which
// cannot be.
func checkJitter(field string, j Jitter) error {
	if j == nil || !isInvalidJitter(j) {
		return nil
	}
	return invalid(field, "has impossible bounds: DecorrelatedJitter wants 0 <= base <= max, UniformJitter 0 <= lo <= hi")
}

// clamp moves d into [lo, hi].
func clamp(d, lo, hi time.Duration) time.Duration { return min(max(d, lo), hi) }
