package backoff

import (
	"math"
	"time"
	"unsafe"
)

// A Jitter turns the delay of a schedule into the wait that is slept.
//
// It gets the delay, already bounded; the wait it gave before the previous retry
// of the same call, 0 before the first; and a number u drawn uniformly from [0,1),
// afresh for every wait. It must be pure and safe for concurrent use: the
// randomness is in u and the history in prev, so that a policy can be shared, a
// table computed, and a plot drawn without a generator. A negative wait counts
// as 0.
//
// The spread is applied to the bounded delay, so it does not collapse at the
// schedule's Max. [Policy.MaxDelay] bounds what comes out of it, and costs exactly
// that: whatever would be longer waits the same time, together.
//
// Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
type Jitter func(delay, prev time.Duration, u float64) time.Duration

// NoJitter waits exactly the delay. A fleet that fails together comes back
// together: it is for a schedule that somebody else's protocol prescribes.
func NoJitter(delay, _ time.Duration, _ float64) time.Duration {
	return delay
}

// FullJitter waits between 0 and the delay, uniformly. It is the default: it
// spreads most, and costs the server the fewest calls under contention.
func FullJitter(delay, _ time.Duration, u float64) time.Duration {
	return min(scale(delay, u), delay)
}

// EqualJitter waits between half the delay and the delay: never less than half,
// for callers that must not come back at once.
func EqualJitter(delay, _ time.Duration, u float64) time.Duration {
	half := delay / 2
	return half + min(scale(delay-half, u), delay-half)
}

// DecorrelatedJitter waits between base and three times the previous wait, at most
// max: min(max, U(base, 3*prev)), prev being base before the first retry. It
// does not look at the schedule's delay, and so grows by its own draws alone.
//
// A base of 0 means 100 ms; a max of 0 means 30 s, or base if that is longer, and a
// negative one no limit. [Policy.Validate] refuses a negative base, and one beyond max. The price: two thirds of the waits that follow one at max
// are exactly max, so a fleet bunches there.
//
// The previous wait lives in the call. Where there is no call, as in
// [Policy.Delay] and [Policy.Decide], every wait is drawn as if it were the first.
func DecorrelatedJitter(base, max time.Duration) Jitter {
	if base < 0 || max > 0 && base > max {
		return impossible
	}
	base = initialOf(base)
	limit := limitOf(max, base)
	return func(_, prev time.Duration, u float64) time.Duration {
		prev = clamp(prev, base, limit)
		span := scale(prev, 3) - base
		return clamp(saturatingAdd(base, scale(span, u)), 0, limit)
	}
}

// UniformJitter waits between lo and hi times the delay: UniformJitter(0.8, 1.2)
// is the +-20 % of gRPC, UniformJitter(0.5, 1.5) that of many peers. With hi above 1 the
// wait may pass the schedule's Max; [Policy.MaxDelay] bounds it where that matters.
//
// 0 <= lo <= hi must hold and both be finite, else [Policy.Validate] refuses the
// jitter.
func UniformJitter(lo, hi float64) Jitter {
	if !(lo >= 0 && hi >= lo && hi <= math.MaxFloat64) {
		return impossible
	}
	return func(delay, _ time.Duration, u float64) time.Duration {
		return scale(delay, lo+(hi-lo)*u)
	}
}

// AddedJitter waits the delay and between 0 and max more. With [Policy.MaxDelay] as
// the bound of the sum it is the formula of IoT Core and gcloud,
// min(2^n + random, maximum), of which no jitter is left at the maximum.
//
// max must not be negative, else [Policy.Validate] refuses the jitter.
func AddedJitter(max time.Duration) Jitter {
	if max < 0 {
		return impossible
	}
	return func(delay, _ time.Duration, u float64) time.Duration {
		return saturatingAdd(delay, scale(max, u))
	}
}

// SlottedJitter waits a whole number of slots, from none up to as many as the delay
// holds, all equally likely: the draw of Ethernet's backoff (IEEE 802.3, 4.2.3.2.5),
// for which a continuous one in the same range is wrong.
//
// slot must be positive, else [Policy.Validate] refuses the jitter.
func SlottedJitter(slot time.Duration) Jitter {
	if slot <= 0 {
		return impossible
	}
	return func(delay, _ time.Duration, u float64) time.Duration {
		slots := delay / slot
		return min(scale(saturatingAdd(slots, 1), u), slots) * slot
	}
}

// impossible stands for a jitter whose bounds are.
func impossible(delay, _ time.Duration, _ float64) time.Duration { return delay }

// A policy is validated before every call. It knows some jitters by their address, because
// calling one to see costs more than the rest of a call that succeeds.
var noJitter, impossibleJitter Jitter = NoJitter, impossible

func isNoJitter(j Jitter) bool   { return same(j, noJitter) }
func isImpossible(j Jitter) bool { return same(j, impossibleJitter) }

// same reports whether two functions are one. It only compares pointers.
func same(j, k Jitter) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&j)) == *(*unsafe.Pointer)(unsafe.Pointer(&k))
}

func clamp(d, lo, hi time.Duration) time.Duration { return min(max(d, lo), hi) }

// unit forces a number that somebody's generator drew into [0,1).
func unit(u float64) float64 {
	if u >= 0 && u < 1 {
		return u
	}
	if u >= 1 {
		return 1 - 1.0/(1<<53)
	}
	return 0
}
