package migrate

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/poll"
)

// What the rules make of it.

func hereCall(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  15 * time.Minute,
		Schedule:    backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 1.5, Max: time.Minute},
		Jitter:      backoff.UniformJitter(0.5, 1.5),
	}
	f := func(ctx context.Context) (string, error) { return "done", r.call(ctx) }
	return backoff.DoValue(ctx, &policy, f)
}

func hereEvery(ctx context.Context, r *remote) (string, error) {
	const D, E = 3 * time.Second, time.Minute
	policy := backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  E,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
	return done(policy.Do(ctx, r.call))
}

func hereTries(ctx context.Context, r *remote) (string, error) {
	const N = 4
	policy := backoff.Policy{
		MaxAttempts: N,
		Schedule:    cenkaltisDefault.Schedule,
		Jitter:      cenkaltisDefault.Jitter,
	}
	return done(policy.Do(ctx, r.call))
}

func hereGrowing(ctx context.Context, r *remote) (string, error) {
	const A, B, F, R = time.Second, 3 * time.Second, 2, 0.1
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: A, Max: B, Multiplier: F},
		Jitter:      backoff.UniformJitter(1-R, 1+R),
	}
	return done(policy.Do(ctx, r.call))
}

func hereZero(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Constant(0),
	}
	return done(policy.Do(ctx, r.call))
}

func hereRetries(ctx context.Context, r *remote) (string, error) {
	const N = 3
	policy := backoff.Policy{
		MaxAttempts: N + 1,
		Schedule:    backoff.Constant(time.Second),
		Jitter:      backoff.NoJitter,
	}
	return done(policy.Do(ctx, r.call))
}

func hereFinal(ctx context.Context, r *remote) (string, error) {
	policy := cenkaltisDefault
	return done(policy.Do(ctx, func(ctx context.Context) error {
		err := r.call(ctx)
		return backoff.Permanent(err)
	}))
}

func hereHook(ctx context.Context, r *remote) (string, error) {
	retries := 0
	f := func(error, time.Duration) { retries++ }
	policy := backoff.Policy{
		MaxAttempts: 3,
		Schedule:    cenkaltisDefault.Schedule,
		Jitter:      cenkaltisDefault.Jitter,
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				f(e.Err, e.Wait)
			}
		},
	}
	err := policy.Do(ctx, r.call)
	return retried(retries, err)
}

func hereTicker(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
	run := policy.Start(ctx)
	for range run.Attempts() {
		err := r.call(ctx)
		if err == nil {
			break
		}
		run.Fail(err)
	}
	return done(run.Err())
}

func hereAfter(ctx context.Context, r *remote) (string, error) {
	const N = 30
	policy := cenkaltisDefault
	return done(policy.Do(ctx, func(ctx context.Context) error {
		err := r.call(ctx)
		return backoff.RetryAfter(err, N*time.Second)
	}))
}

func hereAvast(ctx context.Context, r *remote) (string, error) {
	const D, N = time.Second, 5
	policy := backoff.Policy{
		MaxAttempts: N,
		Schedule:    backoff.Exponential{Initial: D, Max: -1},
		Jitter:      backoff.AddedJitter(100 * time.Millisecond),
	}
	return done(policy.Do(ctx, r.call))
}

func hereAvastFixed(ctx context.Context, r *remote) (string, error) {
	const D = time.Second
	policy := backoff.Policy{
		MaxAttempts: 10,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
	return done(policy.Do(ctx, r.call))
}

func hereAvastMax(ctx context.Context, r *remote) (string, error) {
	const B = 3 * time.Second
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: time.Second, Max: -1},
		Jitter:      backoff.AddedJitter(100 * time.Millisecond),
		MaxDelay:    B,
	}
	return done(policy.Do(ctx, r.call))
}

func hereAvastRetryIf(ctx context.Context, r *remote) (string, error) {
	f := isBusy
	policy := backoff.Policy{
		Classify: backoff.RetryIf(f),
	}
	return done(policy.Do(ctx, r.call))
}

func hereRetryMax(ctx context.Context, r *remote) (string, error) {
	const A, B, N = time.Second, 3 * time.Second, 4
	policy := backoff.Policy{
		MaxAttempts: N + 1,
		Schedule:    backoff.Exponential{Initial: A, Max: B},
		Jitter:      backoff.NoJitter,
		Idempotency: backoff.Idempotent,
	}
	return status(r.post(ctx, backoffhttp.WrapClient(&http.Client{Transport: r}, policy)))
}

func hereLinear(ctx context.Context, r *remote) (string, error) {
	const A, B = time.Second, 2 * time.Second
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Linear{Initial: A, Step: A, Max: -1},
		Jitter:      backoff.UniformJitter(1, float64(B)/float64(A)),
		Idempotency: backoff.Idempotent,
	}
	return status(r.post(ctx, backoffhttp.WrapClient(&http.Client{Transport: r}, policy)))
}

func hereTimeout(ctx context.Context, r *remote) (string, error) {
	const D = 2 * time.Second
	client := &http.Client{Transport: r, Timeout: D}
	policy := backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Constant(time.Second),
		Jitter:      backoff.NoJitter,
		Idempotency: backoff.Idempotent,
	}
	return status(r.post(ctx, backoffhttp.WrapClient(client, policy)))
}

func hereSleep(ctx context.Context, r *remote) (string, error) {
	const D, N = time.Second, 5
	policy := backoff.Policy{
		MaxAttempts: N,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
	return done(policy.Do(ctx, r.call))
}

func hereSleepyPoll(ctx context.Context, r *remote) (string, error) {
	const D = 2 * time.Second
	f := func(ctx context.Context) (bool, error) { return r.found(ctx) }
	policy := backoff.Policy{
		MaxAttempts: 1,
		MaxElapsed:  -1,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
	return done(poll.Until(ctx, policy, f))
}

func herePoll(ctx context.Context, r *remote) (string, error) {
	const D, E = 2 * time.Second, 11 * time.Second
	f := func(ctx context.Context) (bool, error) { return r.found(ctx) }
	ctx, cancel := context.WithTimeout(ctx, E)
	defer cancel()
	policy := backoff.Policy{
		MaxAttempts: 1,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
	return done(poll.Until(ctx, policy, f))
}

func hereRetriedPoll(ctx context.Context, r *remote) (string, error) {
	const D, E = 2 * time.Second, 11 * time.Second
	policy := backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  E,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
	return done(poll.Until(ctx, policy, func(ctx context.Context) (bool, error) {
		found, err := r.found(ctx)
		if err != nil {
			return false, backoff.Permanent(err)
		}
		if !found {
			return false, fmt.Errorf("pending: %w", poll.ErrNotYet)
		}
		return true, nil
	}))
}

func hereStop(parent context.Context, r *remote) (string, error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(parent))
	context.AfterFunc(parent, func() { stop() })
	policy := backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Constant(time.Second),
		Jitter:      backoff.NoJitter,
	}
	return done(policy.Do(ctx, r.call))
}

func hereCompared(ctx context.Context, r *remote) (string, error) {
	policy := cenkaltisDefault
	policy.MaxAttempts = 3
	err := policy.Do(ctx, r.call)
	if backoff.Cause(err) == errBusy {
		return "busy", nil
	}
	return done(err)
}
