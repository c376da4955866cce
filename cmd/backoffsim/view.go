package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/preview"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/timeouts"
)

const (
	maxRetries       = 1000 // that -retries may ask for
	defaultRetries   = 20   // that are shown without -retries
	unlimitedRetries = 10   // that are shown if there is no end of them
	countedAttempts  = 101
)

// A view is what can be said about a policy without running it.
type view struct {
	policy   string
	attempts count
	within   count // of the attempts that begin before the deadline
	// worst is how long a call can take. It includes the attempts if timed is
	// true, and only the waits if not. It is negative if nothing limits a call.
	worst   time.Duration
	timed   bool
	retries []step
	more    int // retries that are not shown
}

// A step is one retry.
type step struct {
	retry       int
	delay       time.Duration
	wait, total spread
}

// A spread is the range of a wait, with its mean.
type spread struct{ min, mean, max time.Duration }

// add adds two spreads. The longest duration is the most.
func (s spread) add(o spread) spread {
	return spread{limits.Add(s.min, o.min), limits.Add(s.mean, o.mean), limits.Add(s.max, o.max)}
}

// A count is the number of attempts for high, middle and low random numbers. If
// more is true there may be more attempts than were counted.
type count struct {
	least, middle, most int
	more                bool
}

// newView previews a policy.
func newView(c candidate, f *policyFlags) view {
	p := c.policy
	v := view{policy: c.name, attempts: countAttempts(p, 0)}
	if f.deadline > 0 {
		v.within = countAttempts(p, f.deadline)
	}
	switch retries := v.attempts.most - 1; {
	case f.retries > 0:
		v.retries = firstRetries(p, f.retries)
	case v.attempts.more:
		v.retries = firstRetries(p, unlimitedRetries)
	default:
		v.retries = firstRetries(p, min(retries, defaultRetries))
		v.more = retries - len(v.retries)
	}
	v.setWorst(p)
	return v
}

// byClass returns a policy, and after it what it is for calls that fail with one
// class only, for each class that has a schedule or a limit of its own.
func byClass(c candidate) []candidate {
	all := []candidate{c}
	for _, class := range slices.Sorted(maps.Keys(c.policy.ByClass)) {
		own := c
		own.name += " (" + class.String() + ")"
		own.policy = preview.ForClass(c.policy, class)
		all = append(all, own)
	}
	return all
}

// firstRetries returns the first n retries, whether the policy allows them or
// not.
func firstRetries(p backoff.Policy, n int) []step {
	var steps []step
	var total spread
	for i, w := range preview.Of(p, max(1, n)).Waits[:n] {
		wait := spread{w.Min, w.Mean, w.Max}
		total = total.add(wait)
		steps = append(steps, step{retry: i + 1, delay: w.Delay, wait: wait, total: total})
	}
	return steps
}

// countAttempts counts the attempts of a call that always fails. A deadline of 0
// means none.
func countAttempts(p backoff.Policy, deadline time.Duration) (c count) {
	high, low := failingCall(p, deadline, 1-1e-12), failingCall(p, deadline, 0)
	c.least, c.most = min(high, low), max(high, low)
	c.middle = failingCall(p, deadline, 0.5)
	c.more = c.most == countedAttempts && p.MaxAttempts != countedAttempts
	return c
}

// failingCall counts the attempts of a call in virtual time, if all may be
// repeated. Attempts take no time, and u is the random number of all waits.
func failingCall(p backoff.Policy, deadline time.Duration, u float64) (attempts int) {
	began := time.Unix(0, 0)
	now := began
	clock.Source = func() time.Time { return now }
	defer func() { clock.Source = nil }()
	p.Rand = func() float64 { return u }
	p.ByClass, p.Idempotency = nil, nil // p has the limits of the class that it is for
	run := p.Start(context.Background())
	for attempts < countedAttempts {
		if _, ok := run.Begin(0); !ok {
			break
		}
		attempts++
		wait, ok := run.Retry(errDown)
		now = now.Add(wait)
		if !ok || deadline > 0 && now.Sub(began) >= deadline {
			break
		}
	}
	return attempts
}

var errDown = errors.New("down")

// setWorst sets how long a call can take.
func (v *view) setWorst(p backoff.Policy) {
	if p.MaxAttempts < 0 && p.MaxElapsed <= 0 {
		v.worst = -1
		return
	}
	timeout := timeouts.Of(&p)
	p.MaxAttempts = v.attempts.most
	v.worst = preview.Of(p, 0).Worst
	v.timed = timeout != nil
	for n := 1; v.timed && n <= v.attempts.most; n++ {
		v.timed = timeout.Delay(n) > 0
	}
}
