package presets

import (
	"time"

	"github.com/gobackoff/backoff"
)

// tableConstant waits 1 s before every retry.
//
// Source: the table of strategies in "Exponential Backoff and Retry Strategy".
// tableLinear and tableExponential are from the same table and start at the
// same 1 s. The table names no cap, no jitter and no limit.
func tableConstant() backoff.Policy {
	return backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
}

// tableLinear waits 1 s, 2 s, 3 s, without a cap: base*attempt. Here the table
// counts the attempt from 1, but from 0 for tableExponential.
func tableLinear() backoff.Policy {
	return backoff.Policy{
		Schedule: backoff.Linear{Initial: time.Second, Max: -1},
		Jitter:   backoff.NoJitter,
	}
}

// tableExponential waits 1 s, 2 s, 4 s, without a cap: base*2^attempt, with the
// attempt counted from 0.
func tableExponential() backoff.Policy {
	return backoff.Policy{
		Schedule: backoff.Exponential{Initial: time.Second, Max: -1},
		Jitter:   backoff.NoJitter,
	}
}

// Canonical waits min(30 s, 100 ms * factor^n), n from 0, and so exactly 30 s
// from some retry on. The article's factor is 2, which 0 means too, or 1.5
// where many clients share a resource. The article recommends 3 to 5 attempts;
// the library's default is 4.
//
// Source: "Exponential Backoff and Retry Strategy". Its text lets the fifth
// retry wait up to 3.2 s. Its table, which counts from 0, gives 1.6 s; 3.2 s is
// the sixth. This follows the table; Initial: 200 ms follows the text.
func Canonical(factor float64) backoff.Policy {
	return backoff.Policy{Schedule: canonical(factor), Jitter: backoff.NoJitter}
}

// canonical returns the schedule of [Canonical].
func canonical(factor float64) backoff.Schedule {
	return backoff.Exponential{
		Initial:    100 * time.Millisecond,
		Max:        30 * time.Second,
		Multiplier: factor,
	}
}

// articleHelper is the article's TypeScript helper, retryWithBackoff, without
// options: 100 ms, doubling, up to 30 s, and full jitter, which at the cap
// draws from [0, 30 s].
//
// The options of the helper are fields here. maxRetries is MaxAttempts-1.
// initialDelay, maxDelay and backoffFactor are fields of the Schedule.
// jitterStrategy is Jitter. isRetryableError is Classify with
// [backoff.RetryIf]. abortSignal is the context. The default of maxRetries is
// not known, so the library's default applies.
//
// Source: "Exponential Backoff and Retry Strategy", retry-with-backoff.ts.
func articleHelper() backoff.Policy {
	return backoff.Policy{Schedule: canonical(2), Jitter: backoff.FullJitter}
}

// articleExample is the helper as the article's example calls it: 200 ms,
// doubling, 5 s, 4 retries, and equal jitter, which at the cap draws from [2.5
// s, 5 s].
//
// Source: "Exponential Backoff and Retry Strategy", example-usage.ts.
func articleExample() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: 200 * time.Millisecond, Max: 5 * time.Second},
		Jitter:      backoff.EqualJitter,
	}
}
