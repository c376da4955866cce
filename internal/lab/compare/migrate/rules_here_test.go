package migrate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
	"github.com/gobackoff/backoff/poll"
)

// What the rules make of it.

var (
	cenkaltisDefault = backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 1.5, Max: time.Minute},
		Jitter:      backoff.UniformJitter(0.5, 1.5),
	}
	avastsDefault = backoff.Policy{
		Schedule: backoff.Exponential{Initial: 100 * time.Millisecond, Max: -1},
		Jitter:   added(100 * time.Millisecond),
	}
	constant = backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}
)

// here is a call under a policy.
func here(policy backoff.Policy) form {
	return func(ctx context.Context, r *remote) (string, error) { return done(policy.Do(ctx, r.call)) }
}

// hereMarked is a call whose failures are marked.
func hereMarked(policy backoff.Policy, mark func(error) error) form {
	return func(ctx context.Context, r *remote) (string, error) {
		return done(policy.Do(ctx, func(ctx context.Context) error { return mark(r.call(ctx)) }))
	}
}

// with sets fields of a policy.
func with(policy backoff.Policy, set func(policy *backoff.Policy)) backoff.Policy {
	set(&policy)
	return policy
}

func hereCall(ctx context.Context, r *remote) (string, error) {
	policy := cenkaltisDefault
	policy.MaxElapsed = 15 * time.Minute
	f := func(ctx context.Context) (string, error) { return "done", r.call(ctx) }
	return backoff.DoValue(ctx, policy, f)
}

func hereRetries(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{MaxAttempts: N + 1, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}
	f := r.call
	return done(policy.Do(ctx, f))
}

func everyError(policy *backoff.Policy) {
	*policy = backoff.Policy{
		MaxAttempts: -1, Schedule: policy.Schedule, Jitter: policy.Jitter,
		Classify: backoff.RetryIf(func(error) bool { return true }),
	}
}

func herePermanentError(err error) error {
	return backoff.Permanent(err)
}

func hereRetryAfterError(err error) error {
	const N = 30
	return backoff.RetryAfter(err, N*time.Second)
}

func hereHook(ctx context.Context, r *remote) (string, error) {
	retries := uint(0)
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
	return counted(retries, 2, err)
}

func hereNotify4(ctx context.Context, r *remote) (string, error) {
	retries := uint(0)
	notify := func(error, time.Duration) { retries++ }
	policy := with(constant, func(policy *backoff.Policy) {
		*policy = backoff.Policy{
			MaxAttempts: N + 1, Schedule: policy.Schedule, Jitter: policy.Jitter,
			Observer: func(_ context.Context, e backoff.Event) {
				if e.Kind == backoff.EventRetry {
					notify(e.Err, e.Wait)
				}
			},
		}
	})
	f := r.call
	return counted(retries, N, policy.Do(ctx, f))
}

func hereData(ctx context.Context, r *remote) (string, error) {
	policy := with(constant, func(policy *backoff.Policy) { policy.MaxAttempts = N + 1 })
	f := func(ctx context.Context) (string, error) { return "done", r.call(ctx) }
	return backoff.DoValue(ctx, policy, f)
}

func hereCompared(err error) (string, error) {
	if backoff.Cause(err) == X {
		return "busy", nil
	}
	return done(err)
}

func hereAvastRetryIf(ctx context.Context, r *remote) (string, error) {
	f := isBusy
	policy := backoff.Policy{Schedule: avastsDefault.Schedule, Jitter: avastsDefault.Jitter, Classify: backoff.RetryIf(f)}
	return done(policy.Do(ctx, r.call))
}

func hereAvastHook(ctx context.Context, r *remote) (string, error) {
	last := uint(0)
	f := func(n uint, _ error) { last = n }
	policy := backoff.Policy{
		MaxAttempts: 3,
		Schedule:    avastsDefault.Schedule,
		Jitter:      avastsDefault.Jitter,
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				f(uint(e.Attempt-1), e.Err)
			}
		},
	}
	err := policy.Do(ctx, r.call)
	return counted(last, 1, err)
}

func limitedByClass(policy *backoff.Policy) {
	policy.Classify = busyIsThrottled
	policy.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: N}}
}

func delayedByClass() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: 10,
		Classify:    busyIsThrottled,
		Schedule:    backoff.Constant(D),
		ByClass:     map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Schedule: backoff.Constant(E)}},
		Jitter:      backoff.NoJitter,
	}
}

func hereSethvargoMark(ctx context.Context, r *remote) (string, error) {
	policy := constant
	policy.Classify = func(error) backoff.Class { return backoff.ClassPermanent }
	return done(policy.Do(ctx, func(ctx context.Context) error {
		err := r.call(ctx)
		if isBusy(err) {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return err
	}))
}

func unlimited() backoff.Policy {
	const N = -1
	return backoff.Policy{MaxAttempts: attempts(N), Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}
}

func sethvargosFibonacci() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: N + 1,
		Schedule: backoff.ScheduleFunc(func(retry int) time.Duration {
			a, b := D, 2*D
			for range retry - 1 {
				a, b = b, min(a+b, time.Hour)
			}
			return a
		}),
		Jitter: backoff.NoJitter,
	}
}

func abortOnX(policy *backoff.Policy) {
	policy.Classify = backoff.RetryIf(func(err error) bool { return !errors.Is(err, X) })
}

func handleX(policy *backoff.Policy) {
	policy.Classify = backoff.RetryIf(func(err error) bool { return errors.Is(err, X) })
}

// hereHTTP sends a request with a client that retries.
func hereHTTP(policy backoff.Policy) form {
	return func(ctx context.Context, r *remote) (string, error) {
		return statusOf(r.post(ctx, backoffhttp.WrapClient(&http.Client{Transport: r}, policy)))
	}
}

func hereTimeout(ctx context.Context, r *remote) (string, error) {
	client := &http.Client{Transport: r, Timeout: 2 * time.Second}
	policy := with(constant, func(p *backoff.Policy) { p.MaxAttempts, p.Idempotency = 3, backoff.Idempotent })
	return statusOf(r.post(ctx, backoffhttp.WrapClient(client, policy)))
}

func checked(policy *backoff.Policy) {
	policy.MaxAttempts, policy.Idempotency = N+1, backoff.Idempotent
	policy.Classify = func(err error) backoff.Class {
		if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == S {
			return backoff.ClassRetryable
		}
		return backoff.ClassUnknown
	}
}

func hereKeptClient(ctx context.Context, r *remote) (string, error) {
	policy := with(constant, checked)
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: r}
	retry := plug.RetryableHTTP(policy)
	c.CheckRetry, c.Backoff = retry.CheckRetry, retry.Backoff
	c.ErrorHandler, c.RetryMax = retry.KeepResponse, retry.RetryMax()
	return statusOf(r.post(ctx, c.StandardClient()))
}

func hereClientOfTransport(ctx context.Context, r *remote) (string, error) {
	const D = 5 * time.Second
	policy := with(constant, checked)
	client := &http.Client{Transport: &backoffhttp.Transport{Base: r, Policy: policy}, Timeout: D}
	return statusOf(r.post(ctx, client))
}

func hereClientInALoop(ctx context.Context, r *remote) (string, error) {
	client, req := r.get(ctx)
	policy := with(constant, func(p *backoff.Policy) { p.MaxAttempts = N })
	client = backoffhttp.WrapClient(client, policy)
	return statusOf(client.Do(req))
}

// herePoll looks until the remote is done.
func herePoll(policy backoff.Policy) form {
	return func(ctx context.Context, r *remote) (string, error) {
		f := r.found
		return done(poll.Until(ctx, policy, f))
	}
}

// hereRanged retries with a range loop.
func hereRanged(policy backoff.Policy) form {
	return func(ctx context.Context, remote *remote) (string, error) {
		f := remote.call
		return done(func() error {
			r := policy.Start(ctx)
			for ctx := range r.Attempts() {
				err := f(ctx)
				if err == nil {
					return nil
				}
				if r.Attempt()-1 != len(remote.tried)-1 {
					return errGone
				}
				r.Fail(err)
			}
			return r.Err()
		}())
	}
}

// hereSleeping retries with a loop of its own, which begins anew as jpilloras does.
func hereSleeping(policy backoff.Policy) form {
	return func(ctx context.Context, remote *remote) (string, error) {
		return done(func() error {
			r := policy.Start(ctx)
			for ctx := range r.Attempts() {
				err := remote.call(ctx)
				if err == nil {
					return nil
				}
				if len(remote.tried) == 3 {
					r.Progress()
				}
				r.Fail(err)
			}
			return r.Err()
		}())
	}
}

func jpilloraJitter() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: A, Max: -1},
		Jitter: func(delay, _ time.Duration, u float64) time.Duration {
			return A + time.Duration(u*float64(delay-A))
		},
		MaxDelay: B,
	}
}

func hereStopGiven(outer context.Context, r *remote) (string, error) {
	P, stop := context.WithoutCancel(outer), outer.Done()
	ctx, cancel := context.WithCancel(P)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return done(constant.Do(ctx, r.call))
}
