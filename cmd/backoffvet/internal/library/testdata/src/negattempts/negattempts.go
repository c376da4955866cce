package negattempts

import (
	"context"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/poll"
)

type config struct {
	Retries    int
	MaxRetries int
	Tries      uint
	Total      time.Duration
}

func done(context.Context) (bool, error) { return true, nil }

func ofField(c config) backoff.Policy {
	if c.Total > 0 {
		return backoff.Policy{}
	}
	return backoff.Policy{MaxAttempts: c.Retries + 1} // want `c.Retries \+ 1 is 0 where c.Retries is -1, .* and 0 means the default of 4 here`
}

func ofParameter(retries int64) (p backoff.Policy) {
	p.MaxAttempts = 1 + int(retries) // want `is 0 where retries is -1`
	return p
}

func ofRuns(restarts int) backoff.Supervisor {
	return backoff.Supervisor{MaxRuns: restarts + 1} // want `0 means no limit here`
}

func ofClass(retries *int) backoff.Policy {
	return backoff.Policy{ByClass: map[backoff.Class]backoff.ClassLimits{
		backoff.ClassThrottled: {MaxAttempts: *retries + 1}, // want `is 0 where \*retries is -1`
	}}
}

func inContext(ctx context.Context, retries int) context.Context {
	return backoffhttp.WithRetry(ctx, func(p *backoff.Policy) {
		p.MaxAttempts = retries + 1 // want `is 0 where retries is -1`
	})
}

func untilDeadline(deadline time.Time) backoff.Policy {
	return backoff.Policy{MaxElapsed: time.Until(deadline)} // want `time.Until\(deadline\) may be 0 or negative, which means no limit here`
}

func rest(c config, began time.Time) backoff.Policy {
	return backoff.Policy{
		MaxElapsed:     c.Total - time.Since(began),        // want `may be 0 or negative`
		AttemptTimeout: began.Add(c.Total).Sub(time.Now()), // want `may be 0 or negative`
	}
}

func restInVariable(ctx context.Context, p backoff.Policy) backoff.Policy {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		p.MaxElapsed = left // want `left may be 0 or negative`
	}
	return p
}

// Those below are right.

func constant() backoff.Policy {
	const retries = 3
	n := 3
	return backoff.Policy{
		MaxAttempts: retries + 1,
		MaxElapsed:  time.Minute - time.Second,
		ByClass:     map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: n + 1}},
	}
}

func unsigned(c config, delays []time.Duration) []backoff.Policy {
	return []backoff.Policy{
		{MaxAttempts: int(c.Tries) + 1},
		{MaxAttempts: len(delays) + 1},
		{MaxAttempts: max(c.Retries, 0) + 1},
		{MaxAttempts: c.Retries},
		{MaxAttempts: c.Retries + 2},
	}
}

func asked(c config) backoff.Policy {
	if c.MaxRetries < 0 {
		return backoff.Policy{MaxAttempts: -1}
	}
	return backoff.Policy{MaxAttempts: c.MaxRetries + 1}
}

func bounded(deadline time.Time) backoff.Policy {
	return backoff.Policy{MaxElapsed: max(time.Until(deadline), 1)}
}

func restAsked(total, used time.Duration, deadline time.Time) []backoff.Policy {
	left := time.Until(deadline)
	if left <= 0 || used >= total {
		return nil
	}
	return []backoff.Policy{{MaxElapsed: left}, {MaxElapsed: total - used}}
}

func deadlineAsked(deadline time.Time) backoff.Policy {
	if time.Now().After(deadline) {
		return backoff.Policy{MaxAttempts: 1}
	}
	return backoff.Policy{MaxElapsed: time.Until(deadline)}
}

func polls(ctx context.Context, deadline time.Time) error {
	return poll.Until(ctx, backoff.Policy{MaxElapsed: time.Until(deadline)}, done)
}

func other(n int) struct{ MaxAttempts int } {
	return struct{ MaxAttempts int }{MaxAttempts: n + 1}
}
