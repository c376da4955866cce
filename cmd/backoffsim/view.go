package main

import (
	"encoding/json"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/timeouts"
	"github.com/gobackoff/backoff/preview"
)

const (
	mostRetries  = 1000 // that can be asked for
	shownRetries = 20   // that are shown unasked
	triedRetries = 100  // that attempts are counted in
)

// A view is what there is to see of a policy without running it.
type view struct {
	Policy     string `json:"policy"`
	Parameters string `json:"parameters"`
	// MaxAttempts is -1 for no limit.
	MaxAttempts int   `json:"maxAttempts"`
	Attempts    count `json:"attempts"`
	// Within are the attempts that begin before the deadline.
	Within *count `json:"withinDeadline,omitempty"`
	// Worst is how long a call can take. Without TimedAttempts the attempts come on top. It is
	// null where nothing limits it.
	Worst         *seconds `json:"worst"`
	TimedAttempts bool     `json:"timedAttempts"`
	Retries       []step   `json:"retries"`
	more          int      // retries that are not shown
}

// A step is one retry.
type step struct {
	Retry int     `json:"retry"`
	Delay seconds `json:"delay"`
	Wait  spread  `json:"wait"`
	Total spread  `json:"total"`
}

type spread struct {
	Min  seconds `json:"min"`
	Mean seconds `json:"mean"`
	Max  seconds `json:"max"`
}

// A count is of attempts, at the longest, the mean, and the shortest waits. More says
// that they were not counted to the end.
type count struct {
	Least int  `json:"least"`
	Mean  int  `json:"mean"`
	Most  int  `json:"most"`
	More  bool `json:"more,omitempty"`
}

// seconds is a duration that is a number of seconds in JSON.
type seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// look previews a policy.
func look(c candidate, f *policyFlags) view {
	p := c.policy
	v := view{Policy: c.name, Parameters: c.parameters, MaxAttempts: p.MaxAttempts}
	if p.MaxAttempts == 0 {
		v.MaxAttempts = len(preview.Of(p, 0).Waits) + 1
	}
	steps := firstRetries(p, max(f.retries, possible(&v)))
	v.Attempts = attempts(&p, steps, 0, f.attempt)
	if f.deadline > 0 {
		within := attempts(&p, steps, f.deadline, f.attempt)
		v.Within = &within
	}
	v.Retries = steps[:shown(&p, v.Attempts, f.retries)]
	if f.retries == 0 && !v.Attempts.More {
		v.more = v.Attempts.Most - 1 - len(v.Retries)
	}
	v.judge(&p)
	return v
}

// possible is how many retries attempts are counted in.
func possible(v *view) int {
	if v.MaxAttempts < 0 {
		return triedRetries
	}
	return min(v.MaxAttempts-1, triedRetries)
}

// firstRetries returns the first n retries, whether the policy allows them or not.
func firstRetries(p backoff.Policy, n int) []step {
	steps := make([]step, n)
	var total spread
	for i, w := range preview.Of(p, n).Waits {
		total.Min = sum(total.Min, seconds(w.Min))
		total.Mean = sum(total.Mean, seconds(w.Mean))
		total.Max = sum(total.Max, seconds(w.Max))
		steps[i] = step{Retry: i + 1, Delay: seconds(w.Delay), Wait: spread{seconds(w.Min), seconds(w.Mean), seconds(w.Max)}, Total: total}
	}
	return steps
}

func sum(a, b seconds) seconds {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// shown is how many retries to show: what was asked for, or what there may be.
func shown(p *backoff.Policy, c count, asked int) int {
	switch {
	case asked > 0:
		return asked
	case p.MaxAttempts < 0 && p.MaxElapsed <= 0:
		return 10
	}
	return min(c.Most-1, shownRetries)
}

// attempts counts how many attempts there can be.
func attempts(p *backoff.Policy, steps []step, deadline, each time.Duration) count {
	var c count
	var more bool
	c.Least, _ = begun(p, steps, deadline, each, func(s step) seconds { return s.Wait.Max })
	c.Mean, _ = begun(p, steps, deadline, each, func(s step) seconds { return s.Wait.Mean })
	c.Most, more = begun(p, steps, deadline, each, func(s step) seconds { return s.Wait.Min })
	c.More = more
	return c
}

// begun counts the attempts that begin when every wait is as wait says, by the rules of
// the loop. more says that the steps were not enough.
func begun(p *backoff.Policy, steps []step, deadline, each time.Duration, wait func(step) seconds) (n int, more bool) {
	limit := p.MaxAttempts
	if limit == 0 {
		limit = len(preview.Of(*p, 0).Waits) + 1
	}
	now := seconds(0)
	for n = 1; n <= len(steps); n++ {
		if limit > 0 && n >= limit {
			return n, false
		}
		now = sum(sum(now, seconds(lasting(p, n, each))), wait(steps[n-1]))
		if deadline > 0 && now >= seconds(deadline) {
			return n, false
		}
		if p.MaxElapsed > 0 && (now > seconds(p.MaxElapsed) || now == seconds(p.MaxElapsed) && timeouts.Of(p) != nil) {
			return n, false
		}
	}
	return n, limit < 0 || n < limit
}

// lasting is how long the given attempt takes.
func lasting(p *backoff.Policy, number int, each time.Duration) time.Duration {
	timeout := timeouts.Of(p)
	if timeout == nil {
		return each
	}
	if limit := timeout.Delay(number); limit > 0 {
		return min(each, limit)
	}
	return each
}

// judge tells how long a call can take.
func (v *view) judge(p *backoff.Policy) {
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
