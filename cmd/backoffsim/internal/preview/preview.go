// Package preview shows how long the calls under a policy would wait, without
// making any:
//
//	policy := backoff.Policy{MaxAttempts: 6, Jitter: backoff.EqualJitter}
//	view := preview.Of(policy, 0)
//	for i, wait := range view.Waits {
//		fmt.Println("retry", i+1, "after", wait.Min, "to", wait.Max)
//	}
//	fmt.Println("all waits together:", view.Worst, "at most")
//
// A preview shows the policy's own Schedule, Jitter and MaxAttempts. If ByClass
// has others for a class of failures, see [ForClass]. It is of calls of normal
// priority. The waits of a background call are four times as long, up to
// MaxDelay, and a policy does not know which calls those will be.
package preview

import (
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/timeouts"
)

// A Preview is how long a call waits before each of its retries.
type Preview struct {
	// Waits has one element per retry.
	Waits []Wait
	// Worst is the longest time that a call of normal priority can take until its
	// last attempt ends in failure: the longest waits and, where AttemptTimeout limits them,
	// the attempts, within MaxElapsed. Without AttemptTimeout the attempts
	// themselves come on top. Each wait can grow to MaxRetryAfter, and by a tenth
	// of that, if a server asks for it.
	Worst time.Duration
}

// A Wait is the wait before one retry.
type Wait struct {
	Delay          time.Duration // of the schedule, before jitter
	Min, Mean, Max time.Duration // after jitter
}

// The defaults that Policy documents.
const (
	defaultMaxAttempts = 4
	unlimitedRetries   = 10   // are shown where MaxAttempts sets no limit
	mostRetries        = 1000 // are shown, however many are asked for
)

// Of returns the waits before the given number of retries, whether or not the
// policy's limits let all of them happen. For a number of 0 or less it returns
// those before all retries that MaxAttempts allows, or 10 where it sets no
// limit. It returns no more than the first 1,000, and Worst is of these.
//
// Of computes the waits on a grid of draws, without the policy's Rand. Means
// are exact to about 0.1 %, or 1 % for a jitter that looks at the previous
// wait. Bounds are those of the draws 0 and just below 1.
func Of(p backoff.Policy, retries int) Preview {
	if retries <= 0 {
		if retries = MaxAttempts(p) - 1; retries < 0 {
			retries = unlimitedRetries
		}
	}
	retries = min(retries, mostRetries)
	view := Preview{Waits: make([]Wait, retries)}
	s := sample{policy: p}
	for i := range view.Waits {
		w := s.wait(delay(p.Schedule, i+1))
		view.Waits[i] = w
		view.Worst = limits.Add(view.Worst, w.Max)
	}
	view.Worst = within(p.MaxElapsed, view.Worst)
	view.Worst = withAttempts(p, view.Worst, retries+1)
	return view
}

// ForClass returns a policy that does after every failure what p does after a
// failure of the given class, by ByClass: for a preview of a call that fails
// with this class only.
//
//	throttled := preview.Of(preview.ForClass(policy, backoff.ClassThrottled), 0)
func ForClass(p backoff.Policy, class backoff.Class) backoff.Policy {
	own := p.ByClass[class]
	if own.Schedule != nil {
		p.Schedule = own.Schedule
	}
	if own.Jitter != nil {
		p.Jitter = own.Jitter
	}
	p.MaxAttempts = limits.Or(own.MaxAttempts, p.MaxAttempts)
	p.ByClass = nil
	return p
}

// MaxAttempts returns the MaxAttempts of a policy, with the default filled in. A
// negative number means no limit.
func MaxAttempts(p backoff.Policy) int { return limits.Or(p.MaxAttempts, defaultMaxAttempts) }

// withAttempts adds the time that so many attempts may take. Where one of them
// is not limited it adds nothing.
func withAttempts(p backoff.Policy, waits time.Duration, attempts int) time.Duration {
	limit := timeouts.Of(&p)
	if limit == nil {
		return waits
	}
	total := waits
	for i := range attempts {
		timeout := delay(limit, i+1)
		if timeout == 0 {
			return waits
		}
		total = limits.Add(total, timeout)
	}
	return within(p.MaxElapsed, total)
}

// within bounds d by a limit that is above 0.
func within(limit, d time.Duration) time.Duration {
	if limit > 0 {
		return min(d, limit)
	}
	return d
}

// delay is the delay of a schedule that may be nil.
func delay(s backoff.Schedule, retry int) time.Duration {
	if s == nil {
		s = backoff.Exponential{}
	}
	return max(0, s.Delay(retry))
}
