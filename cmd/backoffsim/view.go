package main

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/preview"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/timeouts"
)

const (
	maxRetries       = 1000 // that -retries may ask for
	defaultRetries   = 20   // that are shown without -retries
	unlimitedRetries = 10   // that are shown if nothing limits a call
	countedRetries   = 100  // up to which attempts are counted
)

// A view is what can be said about a policy without running it.
type view struct {
	Policy     string `json:"policy"`
	Parameters string `json:"parameters"`
	// MaxAttempts is -1 for no limit.
	MaxAttempts int   `json:"maxAttempts"`
	Attempts    count `json:"attempts"`
	// Within counts the attempts that begin before the deadline.
	Within *count `json:"withinDeadline,omitempty"`
	// Worst is how long a call can take. It includes the attempts if
	// TimedAttempts is true, and only the waits if not. It is null if nothing
	// limits a call.
	Worst         *seconds `json:"worst"`
	TimedAttempts bool     `json:"timedAttempts"`
	Retries       []step   `json:"retries"`
	// NeverGrows says that the schedule is written as one that grows, and has
	// the same delay before every retry.
	NeverGrows bool `json:"neverGrows,omitempty"`
	more       int  // retries that are not shown
}

// A step is one retry.
type step struct {
	Retry int     `json:"retry"`
	Delay seconds `json:"delay"`
	Wait  spread  `json:"wait"`
	Total spread  `json:"total"`
}

// A spread is the range of a wait, with its mean.
type spread struct {
	Min  seconds `json:"min"`
	Mean seconds `json:"mean"`
	Max  seconds `json:"max"`
}

// A count is the number of attempts at the longest, the mean and the shortest
// waits. More says that there may be more attempts than were counted.
type count struct {
	Least int  `json:"least"`
	Mean  int  `json:"mean"`
	Most  int  `json:"most"`
	More  bool `json:"more,omitempty"`
}

// seconds is a duration that is encoded as a number of seconds in JSON.
type seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// newView previews a policy.
func newView(c candidate, f *policyFlags) view {
	p := c.policy
	v := view{Policy: c.name, Parameters: c.parameters, MaxAttempts: preview.MaxAttempts(p)}
	counted := countedRetries
	if v.MaxAttempts >= 0 {
		counted = min(v.MaxAttempts-1, counted)
	}
	counter := attemptCounter{policy: &p, maxAttempts: v.MaxAttempts, attempt: f.attempt}
	counter.retries = firstRetries(p, max(f.retries, counted))
	v.Attempts = counter.count(0)
	if f.deadline > 0 {
		within := counter.count(f.deadline)
		v.Within = &within
	}
	switch most := v.Attempts.Most - 1; {
	case f.retries > 0:
		v.Retries = counter.retries[:f.retries]
	case p.MaxAttempts < 0 && p.MaxElapsed <= 0:
		v.Retries = counter.retries[:unlimitedRetries]
	default:
		v.Retries = counter.retries[:min(most, defaultRetries)]
		if !v.Attempts.More {
			v.more = most - len(v.Retries)
		}
	}
	v.setWorst(&p)
	v.NeverGrows = preview.Of(p, 1).NeverGrows
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
	steps := make([]step, n)
	var total spread
	for i, w := range preview.Of(p, n).Waits {
		wait := spread{seconds(w.Min), seconds(w.Mean), seconds(w.Max)}
		total = spread{sum(total.Min, wait.Min), sum(total.Mean, wait.Mean), sum(total.Max, wait.Max)}
		steps[i] = step{Retry: i + 1, Delay: seconds(w.Delay), Wait: wait, Total: total}
	}
	return steps
}

// sum adds two durations, at most to the longest duration.
func sum(a, b seconds) seconds { return seconds(limits.Add(time.Duration(a), time.Duration(b))) }

// An attemptCounter counts the attempts of a call by the rules of the loop.
type attemptCounter struct {
	policy      *backoff.Policy
	maxAttempts int           // negative for no limit
	attempt     time.Duration // how long an attempt takes without a timeout
	retries     []step
}

// count counts the attempts that begin before the deadline. 0 means no
// deadline.
func (a *attemptCounter) count(deadline time.Duration) count {
	var c count
	c.Least, _ = a.begun(deadline, func(s step) seconds { return s.Wait.Max })
	c.Mean, _ = a.begun(deadline, func(s step) seconds { return s.Wait.Mean })
	c.Most, c.More = a.begun(deadline, func(s step) seconds { return s.Wait.Min })
	return c
}

// begun counts the attempts that begin with the given waits. more says that
// there are more attempts than known retries.
func (a *attemptCounter) begun(deadline time.Duration, wait func(step) seconds) (n int, more bool) {
	now := seconds(0)
	for n = 1; n <= len(a.retries); n++ {
		if a.maxAttempts > 0 && n >= a.maxAttempts {
			return n, false
		}
		now = a.next(sum(now, seconds(a.attemptTime(n))), wait(a.retries[n-1]))
		if deadline > 0 && now >= seconds(deadline) || a.elapsed(now) {
			return n, false
		}
	}
	return n, a.maxAttempts < 0 || n < a.maxAttempts
}

// next returns when the next attempt begins, given when the last one failed.
func (a *attemptCounter) next(failed, wait seconds) seconds {
	next, limit := sum(failed, wait), seconds(a.policy.MaxElapsed)
	if a.policy.ShortenLastWait && failed < limit && timeouts.Of(a.policy) == nil {
		return min(next, limit)
	}
	return next
}

// elapsed reports whether MaxElapsed allows no attempt at a time.
func (a *attemptCounter) elapsed(now seconds) bool {
	limit := seconds(a.policy.MaxElapsed)
	if limit <= 0 {
		return false
	}
	return now > limit || now == limit && timeouts.Of(a.policy) != nil
}

// attemptTime returns how long the given attempt takes.
func (a *attemptCounter) attemptTime(number int) time.Duration {
	if timeout := timeouts.Of(a.policy); timeout != nil {
		if limit := timeout.Delay(number); limit > 0 {
			return min(a.attempt, limit)
		}
	}
	return a.attempt
}

// setWorst sets how long a call can take.
func (v *view) setWorst(p *backoff.Policy) {
	if v.MaxAttempts < 0 && p.MaxElapsed <= 0 {
		return
	}
	limited := *p
	limited.MaxAttempts = v.Attempts.Most
	worst := seconds(preview.Of(limited, 0).Worst)
	v.Worst = &worst
	timeout := timeouts.Of(p)
	v.TimedAttempts = timeout != nil
	for n := 1; v.TimedAttempts && n <= v.Attempts.Most; n++ {
		v.TimedAttempts = timeout.Delay(n) > 0
	}
}
