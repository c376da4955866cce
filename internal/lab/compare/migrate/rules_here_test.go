package migrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
	"github.com/gobackoff/backoff/poll"
)

// What the rules make of it.

var cenkaltisDefault = backoff.Policy{
	MaxAttempts: -1,
	Schedule:    backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 1.5, Max: time.Minute},
	Jitter:      backoff.UniformJitter(0.5, 1.5),
}

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
	policy := backoff.Policy{MaxAttempts: -1, MaxElapsed: E, Schedule: backoff.Constant(D), Jitter: backoff.NoJitter}
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
	f := r.call
	return done(policy.Do(ctx, f))
}

func hereFinal(ctx context.Context, r *remote) (string, error) {
	policy := cenkaltisDefault
	policy.Classify = backoff.RetryIf(func(error) bool { return true })
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
		Schedule: backoff.Exponential{Initial: 100 * time.Millisecond, Max: -1},
		Jitter:   backoff.AddedJitter(100 * time.Millisecond),
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
	return statusOf(r.post(ctx, backoffhttp.WrapClient(&http.Client{Transport: r}, policy)))
}

func hereLinear(ctx context.Context, r *remote) (string, error) {
	const A, B = time.Second, 2 * time.Second
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Linear{Initial: A, Step: A, Max: -1},
		Jitter:      backoff.UniformJitter(1, float64(B)/float64(A)),
		Idempotency: backoff.Idempotent,
	}
	return statusOf(r.post(ctx, backoffhttp.WrapClient(&http.Client{Transport: r}, policy)))
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
	return statusOf(r.post(ctx, backoffhttp.WrapClient(client, policy)))
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
	f := r.found
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
	f := r.found
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
	const D, E, S = 2 * time.Second, 11 * time.Second, "pending"
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
			return false, fmt.Errorf("%s: %w", S, poll.ErrNotYet)
		}
		return true, nil
	}))
}

func hereStop(outer context.Context, r *remote) (string, error) {
	P := context.WithoutCancel(outer)
	ctx, stop := context.WithCancel(P)
	context.AfterFunc(outer, func() { stop() })
	policy := backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Constant(time.Second),
		Jitter:      backoff.NoJitter,
	}
	return done(policy.Do(ctx, r.call))
}

func hereCompared(ctx context.Context, r *remote) (string, error) {
	X := errBusy
	err := threeTries.Do(ctx, r.call)
	if backoff.Cause(err) == X {
		return "busy", nil
	}
	return done(err)
}

func hereAsserted(ctx context.Context, r *remote) (string, error) {
	type T = *net.OpError
	err := threeTries.Do(ctx, r.call)
	if e, ok := backoff.Cause(err).(T); ok {
		return e.Op, nil
	}
	return done(err)
}

func hereSwitched(ctx context.Context, r *remote) (string, error) {
	err := threeTries.Do(ctx, r.call)
	switch e := backoff.Cause(err).(type) {
	case *net.OpError:
		return e.Op, nil
	}
	return done(err)
}

var threeTries = backoff.Policy{
	MaxAttempts: 3,
	Schedule:    cenkaltisDefault.Schedule,
	Jitter:      cenkaltisDefault.Jitter,
}

// hereFields runs the operation under policies whose fields the rules make.
func hereFields(policy backoff.Policy) form {
	return func(ctx context.Context, r *remote) (string, error) { return done(policy.Do(ctx, r.call)) }
}

func everyError() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: -1,
		Schedule:    cenkaltisDefault.Schedule,
		Jitter:      cenkaltisDefault.Jitter,
		Classify:    backoff.RetryIf(func(error) bool { return true }),
	}
}

func every(D time.Duration) backoff.Policy {
	return backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
}

func hereAvastHook(ctx context.Context, r *remote) (string, error) {
	last := uint(0)
	f := func(n uint, _ error) { last = n }
	policy := backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: -1},
		Jitter:      backoff.AddedJitter(100 * time.Millisecond),
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				f(uint(e.Attempt-1), e.Err)
			}
		},
	}
	err := policy.Do(ctx, r.call)
	return counted(last, 1, err)
}

func hereAvastContext(ctx context.Context, r *remote) (string, error) {
	policy := every(2 * time.Second)
	policy.MaxAttempts = 10
	return done(policy.Do(ctx, r.call))
}

func avastJitter() backoff.Policy {
	const D, J = time.Second, 2 * time.Second
	return backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: D, Max: -1},
		Jitter:      backoff.AddedJitter(J),
	}
}

func sethvargos() backoff.Policy {
	const B, D, N, P = 3 * time.Second, time.Second, 4, 20
	return backoff.Policy{
		MaxAttempts: N + 1,
		Schedule:    backoff.Exponential{Initial: D, Max: -1},
		Jitter:      backoff.UniformJitter(1-P/100.0, 1+P/100.0),
		MaxDelay:    B,
	}
}

func shortened() backoff.Policy {
	const D, E = 3 * time.Second, 10 * time.Second
	return backoff.Policy{
		MaxAttempts:     -1,
		Schedule:        backoff.Constant(D),
		Jitter:          backoff.NoJitter,
		MaxElapsed:      E,
		ShortenLastWait: true,
	}
}

func hereSethvargoMark(ctx context.Context, r *remote) (string, error) {
	policy := every(time.Second)
	policy.Classify = func(error) backoff.Class { return backoff.ClassPermanent }
	return done(policy.Do(ctx, func(ctx context.Context) error {
		err := r.call(ctx)
		if isBusy(err) {
			return backoff.WithClass(err, backoff.ClassRetryable)
		}
		return err
	}))
}

func failsafesBackoff() backoff.Policy {
	const A, B, N, R = time.Second, 3 * time.Second, 5, 0.2
	return backoff.Policy{
		MaxAttempts: N,
		Schedule:    backoff.Exponential{Initial: A, Max: B},
		Jitter:      backoff.UniformJitter(1-R, 1+R),
	}
}

func failsafesDelay() backoff.Policy {
	const D, N = time.Second, 4
	return backoff.Policy{
		MaxAttempts: N + 1,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
}

func failsafesAbort() backoff.Policy {
	X := errDown
	policy := every(time.Second)
	policy.Classify = backoff.RetryIf(func(err error) bool { return !errors.Is(err, X) })
	return policy
}

func failsafesHandle() backoff.Policy {
	X := errBusy
	policy := every(time.Second)
	policy.Classify = backoff.RetryIf(func(err error) bool { return errors.Is(err, X) })
	return policy
}

func checked(attempts int) backoff.Policy {
	const S = http.StatusPreconditionFailed
	policy := every(time.Second)
	policy.MaxAttempts, policy.Idempotency = attempts, backoff.Idempotent
	policy.Classify = func(err error) backoff.Class {
		if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == S {
			return backoff.ClassRetryable
		}
		return backoff.ClassUnknown
	}
	return policy
}

func hereCheck(ctx context.Context, r *remote) (string, error) {
	return statusOf(r.post(ctx, backoffhttp.WrapClient(&http.Client{Transport: r}, checked(5))))
}

func hereKeptClient(ctx context.Context, r *remote) (string, error) {
	policy := checked(5)
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: r}
	retry := plug.RetryableHTTP(&policy)
	c.CheckRetry, c.Backoff = retry.CheckRetry, retry.Backoff
	c.ErrorHandler, c.RetryMax = retry.KeepResponse, retry.RetryMax()
	return statusOf(r.post(ctx, c.StandardClient()))
}

func hereWaiter(ctx context.Context, r *remote) (string, error) {
	const D, E = 2 * time.Second, time.Minute
	policy := backoff.Policy{
		MaxAttempts: 1,
		MaxElapsed:  E,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
	f := func(ctx context.Context) (bool, error) {
		_, err := bucket{r}.HeadBucket(ctx, &s3.HeadBucketInput{})
		if _, missing := errors.AsType[*types.NotFound](err); missing {
			return false, nil
		}
		return err == nil, err
	}
	return done(poll.Until(ctx, policy, f))
}

func limitedByClass() backoff.Policy {
	const N = 2
	policy := every(100 * time.Millisecond)
	policy.Classify = busyIsThrottled
	policy.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: N}}
	return policy
}

func delayedByClass() backoff.Policy {
	const D, E = 100 * time.Millisecond, time.Second
	return backoff.Policy{
		MaxAttempts: 10,
		Schedule:    backoff.Constant(D),
		ByClass:     map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Schedule: backoff.Constant(E)}},
		Jitter:      backoff.NoJitter,
		Classify:    busyIsThrottled,
	}
}

func hereNamedDelay(ctx context.Context, r *remote) (string, error) {
	policy := every(time.Second)
	return done(policy.Do(ctx, func(ctx context.Context) error {
		err := r.call(ctx)
		return backoff.RetryAfter(err, after(err))
	}))
}

func sethvargosFullJitter() backoff.Policy {
	const D, N = time.Second, 4
	return backoff.Policy{
		MaxAttempts: N + 1,
		Schedule:    backoff.Exponential{Initial: D, Max: -1},
		Jitter:      backoff.FullJitter,
	}
}

func sethvargosJitter() backoff.Policy {
	const D, J, N = 3 * time.Second, time.Second, 4
	return backoff.Policy{
		MaxAttempts: N + 1,
		Schedule:    backoff.Exponential{Initial: D, Max: -1},
		Jitter: func(delay, _ time.Duration, u float64) time.Duration {
			return delay - J + time.Duration(u*float64(2*J))
		},
	}
}

func sethvargosFibonacci() backoff.Policy {
	const D, N = time.Second, 5
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

func hereGrowingWaiter(ctx context.Context, r *remote) (string, error) {
	const A, B, E = 2 * time.Second, 30 * time.Second, 2 * time.Minute
	policy := backoff.Policy{
		MaxAttempts: 1,
		MaxElapsed:  E,
		Schedule:    backoff.Exponential{Initial: A, Max: B},
		Jitter: func(delay, _ time.Duration, u float64) time.Duration {
			return A + time.Duration(u*float64(delay-A))
		},
	}
	return done(poll.Until(ctx, policy, r.found))
}

func hereClientOfTransport(ctx context.Context, r *remote) (string, error) {
	const D = 5 * time.Second
	policy := checked(3)
	client := &http.Client{Transport: &backoffhttp.Transport{Base: r, Policy: policy}, Timeout: D}
	return statusOf(r.post(ctx, client))
}

func hereClientInALoop(ctx context.Context, r *remote) (string, error) {
	const D, N, T = time.Second, 3, 2 * time.Second
	client := &http.Client{Transport: r, Timeout: T}
	policy := backoff.Policy{
		MaxAttempts: N,
		Schedule:    backoff.Constant(D),
		Jitter:      backoff.NoJitter,
	}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://service.test/", nil)
	if err != nil {
		return "", err
	}
	client = backoffhttp.WrapClient(client, policy)
	return statusOf(client.Do(req))
}

func hereLastErr(ctx context.Context, r *remote) (string, error) {
	err := threeTries.Do(ctx, r.call)
	return "", backoff.Cause(err)
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
	policy := every(time.Second)
	return done(policy.Do(ctx, r.call))
}

func hereSleeper(ctx context.Context, r *remote) (string, error) {
	return done(hereSleeps(ctx, r, time.Sleep))
}

func hereSleeps(ctx context.Context, r *remote, sleep func(time.Duration)) error {
	policy := cenkaltisDefault
	run := policy.Start(ctx)
	for {
		err := r.call(ctx)
		wait, again := run.Retry(err)
		if !again {
			return run.Err()
		}
		sleep(wait)
	}
}
