package presets

import (
	"cmp"
	"math"
	"time"

	"github.com/gobackoff/backoff"
)

// CenkaltiBackoff is the ExponentialBackOff of github.com/cenkalti/backoff,
// with the MaxElapsedTime that is a field there up to v4, and an option since.
// Where a program sets nothing, that library has {500 ms, 0.5, 1.5, 1 min, 15
// min}; within a CenkaltiBackoff nothing has a default.
//
// It takes every value with which that library waits. Set MaxAttempts of the
// policy for WithMaxTries.
//
// Source: cenkalti/backoff, exponential.go and retry.go; measured with v7.0.3.
type CenkaltiBackoff struct {
	// InitialInterval is the delay before the first retry, 0 or more. 0 means
	// none before any retry.
	InitialInterval time.Duration
	// RandomizationFactor is the share of the delay by which a wait may be
	// shorter or longer, 0 or more. 0 means no jitter. Beyond 1 some waits
	// would be less than nothing, and are 0.
	RandomizationFactor float64
	// Multiplier is the factor between two delays, 0 or more. 0 means that all
	// delays are InitialInterval. Below 1 the delays shrink; after the one that
	// is less than a nanosecond they begin with InitialInterval again.
	Multiplier float64
	// MaxInterval bounds the delays after the first, 0 or more. 0 means that
	// all are InitialInterval.
	MaxInterval time.Duration
	// MaxElapsedTime is the time after which no retry is made, 0 or more. 0
	// means no limit. Below the first wait it means no retries.
	MaxElapsedTime time.Duration
}

// Policy returns the policy of a Retry with this backoff. It retries without a
// limit to the attempts. A negative value, a NaN and an infinity are errors:
// that library then waits no more, or for ever.
func (c CenkaltiBackoff) Policy() (backoff.Policy, error) { return c.policy("CenkaltiBackoff", true) }

// policy returns the policy, with retries or without. Its errors name the
// configuration as given.
func (c CenkaltiBackoff) policy(name string, retries bool) (backoff.Policy, error) {
	err := cmp.Or(
		check(c.InitialInterval >= 0, name+".InitialInterval", c.InitialInterval, "0 or more"),
		check(c.RandomizationFactor >= 0 && c.RandomizationFactor <= math.MaxFloat64,
			name+".RandomizationFactor", c.RandomizationFactor, "0 or more"),
		check(c.Multiplier >= 0 && c.Multiplier <= math.MaxFloat64,
			name+".Multiplier", c.Multiplier, "0 (for no growth) or more"),
		check(c.MaxInterval >= 0, name+".MaxInterval", c.MaxInterval, "0 or more"),
		check(c.MaxElapsedTime >= 0, name+".MaxElapsedTime", c.MaxElapsedTime, "0 or more"),
	)
	switch {
	case err != nil:
		return backoff.Policy{}, err
	case !retries:
		return backoff.Policy{MaxAttempts: 1}, nil
	}
	return backoff.Policy{MaxAttempts: -1, MaxElapsed: c.MaxElapsedTime, Schedule: c.schedule(), Jitter: c.jitter()}, nil
}

// schedule returns the delays. The first one may be beyond MaxInterval.
func (c CenkaltiBackoff) schedule() backoff.Schedule {
	switch {
	case c.MaxInterval == 0 || c.Multiplier == 0:
		return backoff.Constant(c.InitialInterval)
	case c.Multiplier < 1 && c.InitialInterval > 0:
		return c.shrinking()
	case c.InitialInterval > c.MaxInterval:
		return backoff.Sequence(c.InitialInterval, c.MaxInterval)
	}
	return growing(c.InitialInterval, c.MaxInterval, c.Multiplier)
}

// shrinking returns the delays of a multiplier below 1.
func (c CenkaltiBackoff) shrinking() backoff.Schedule {
	second := min(float64(c.InitialInterval)*c.Multiplier, float64(c.MaxInterval))
	round := 1 + max(0, 1+math.Floor(math.Log(second)/-math.Log(c.Multiplier)))
	return backoff.ScheduleFunc(func(retry int) time.Duration {
		n := math.Mod(float64(retry-1), round)
		if n == 0 {
			return c.InitialInterval
		}
		return time.Duration(second * math.Pow(c.Multiplier, n-1))
	})
}

// jitter returns the jitter.
func (c CenkaltiBackoff) jitter() backoff.Jitter {
	if c.RandomizationFactor <= 1 {
		return between(1-c.RandomizationFactor, 1+c.RandomizationFactor)
	}
	return func(delay, prev time.Duration, u float64) time.Duration {
		factor := max(0, 1+c.RandomizationFactor*(2*u-1))
		return backoff.UniformJitter(factor, factor)(delay, prev, u)
	}
}
