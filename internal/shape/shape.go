// Package shape has the waits of old protocols, for package presets and for policies
// in files. New programs have no use for them.
package shape

import (
	"cmp"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/limits"
)

// Truncated returns a schedule with the delays of s, each at most most, before jitter.
// A nil s means backoff.Exponential{}. A most of 0 means 30 s, a negative one no limit.
// An invalid s is returned as it is, so that Validate refuses it.
func Truncated(s backoff.Schedule, most time.Duration) backoff.Schedule {
	if (backoff.Policy{Schedule: s}).Validate() != nil {
		return s
	}
	if most = cmp.Or(most, 30*time.Second); most < 0 {
		most = math.MaxInt64
	}
	return truncated{s, most}
}

type truncated struct {
	schedule backoff.Schedule
	most     time.Duration
}

// Delay implements [backoff.Schedule].
func (t truncated) Delay(retry int) time.Duration {
	if t.schedule == nil {
		t.schedule = backoff.Exponential{}
	}
	return min(max(0, t.schedule.Delay(retry)), t.most)
}

// impossible is the jitter of bounds that cannot be. Validate refuses it.
func impossible() backoff.Jitter { return backoff.UniformJitter(-1, -1) }

// Added returns the jitter that waits the delay and between 0 and most more. Validate
// refuses it if most is negative.
//
// With MaxDelay as the bound of the sum, it is the formula of IoT Core and gcloud,
// min(2^n + random, maximum), which leaves no jitter at the maximum.
func Added(most time.Duration) backoff.Jitter {
	if most < 0 {
		return impossible()
	}
	return func(delay, prev time.Duration, u float64) time.Duration {
		return limits.Add(delay, backoff.FullJitter(most, prev, u))
	}
}

// Slotted returns the jitter that waits a whole number of slots, from none up to as
// many as the delay holds, all equally likely. Validate refuses it unless slot is
// positive.
//
// This is the draw of Ethernet's backoff (IEEE 802.3, 4.2.3.2.5), which a continuous
// draw in the same range does not replace.
func Slotted(slot time.Duration) backoff.Jitter {
	if slot <= 0 {
		return impossible()
	}
	return func(delay, prev time.Duration, u float64) time.Duration {
		slots := delay / slot
		return min(backoff.FullJitter(limits.Add(slots, 1), prev, u), slots) * slot
	}
}
