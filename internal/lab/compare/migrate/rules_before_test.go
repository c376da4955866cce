package migrate

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	avast "github.com/avast/retry-go/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti "github.com/cenkalti/backoff/v5"
	cenkalti7 "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"
	sethvargo "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"
)

// What the rules replace. The names of one letter are those of the rules.

func beforeCall(ctx context.Context, r *remote) (string, error) {
	f := func() (string, error) { return "done", r.call(ctx) }
	return cenkalti.Retry(ctx, f)
}

func beforeConstant(ctx context.Context, r *remote) (string, error) {
	const D, E = 3 * time.Second, time.Minute
	return untilDone(ctx, func() error { return r.call(ctx) },
		cenkalti.WithBackOff(cenkalti.NewConstantBackOff(D)), cenkalti.WithMaxElapsedTime(E))
}

func beforeTries(ctx context.Context, r *remote) (string, error) {
	const N = 4
	return untilDone(ctx, func() error { return r.call(ctx) }, cenkalti.WithMaxTries(N))
}

func beforeExponential(ctx context.Context, r *remote) (string, error) {
	const A, B, F, R = time.Second, 3 * time.Second, 2, 0.1
	b := &cenkalti.ExponentialBackOff{InitialInterval: A, MaxInterval: B, Multiplier: F, RandomizationFactor: R}
	return untilDone(ctx, func() error { return r.call(ctx) }, cenkalti.WithBackOff(b), cenkalti.WithMaxTries(5))
}

func beforeZero(ctx context.Context, r *remote) (string, error) {
	return untilDone(ctx, func() error { return r.call(ctx) }, cenkalti.WithBackOff(&cenkalti.ZeroBackOff{}), cenkalti.WithMaxTries(5))
}

func beforePermanent(ctx context.Context, r *remote) (string, error) {
	return untilDone(ctx, func() error {
		err := r.call(ctx)
		return cenkalti.Permanent(err)
	})
}

func beforeNotify(ctx context.Context, r *remote) (string, error) {
	retries := 0
	f := func(error, time.Duration) { retries++ }
	_, err := untilDone(ctx, func() error { return r.call(ctx) }, cenkalti.WithMaxTries(3), cenkalti.WithNotify(f))
	return retried(retries, err)
}

// retried is what the caller sees of a call whose retries were counted.
func retried(retries int, err error) (string, error) {
	if retries != 2 {
		return "", errors.New("the hook was not called twice")
	}
	return done(err)
}

func beforeTicker(ctx context.Context, r *remote) (string, error) {
	b := cenkalti.NewConstantBackOff(time.Second)
	ticker := cenkalti.NewTicker(b)
	defer ticker.Stop()
	for range ticker.C {
		if r.call(ctx) == nil {
			break
		}
	}
	return "done", nil
}

func beforeRetryAfter(ctx context.Context, r *remote) (string, error) {
	const N = 30
	return untilDone(ctx, func() error {
		err := r.call(ctx)
		if err != nil {
			return cenkalti.RetryAfter(N)
		}
		return nil
	})
}

func beforeAvast(ctx context.Context, r *remote) (string, error) {
	const D, N = time.Second, 5
	return done(avast.Do(func() error { return r.call(ctx) }, avast.Context(ctx), avast.Attempts(N), avast.Delay(D)))
}

func beforeAvastFixed(ctx context.Context, r *remote) (string, error) {
	const D = time.Second
	return done(avast.Do(func() error { return r.call(ctx) }, avast.Delay(D), avast.DelayType(avast.FixedDelay)))
}

func beforeAvastMax(ctx context.Context, r *remote) (string, error) {
	const B = 3 * time.Second
	return done(avast.Do(func() error { return r.call(ctx) }, avast.Attempts(5), avast.Delay(time.Second), avast.MaxDelay(B)))
}

func beforeAvastRetryIf(ctx context.Context, r *remote) (string, error) {
	f := isBusy
	return done(avast.Do(func() error { return r.call(ctx) }, avast.RetryIf(f)))
}

func beforeAvastFinal(ctx context.Context, r *remote) (string, error) {
	return done(avast.Do(func() error {
		err := r.call(ctx)
		return avast.Unrecoverable(err)
	}))
}

func beforeRetryMax(ctx context.Context, r *remote) (string, error) {
	const A, B, N = time.Second, 3 * time.Second, 4
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: r}
	c.RetryMax = N
	c.RetryWaitMin, c.RetryWaitMax = A, B
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return statusOf(r.post(ctx, c.StandardClient()))
}

func beforeLinear(ctx context.Context, r *remote) (string, error) {
	const A, B = time.Second, 2 * time.Second
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: r}
	c.RetryWaitMin, c.RetryWaitMax = A, B
	c.Backoff = retryablehttp.LinearJitterBackoff
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return statusOf(r.post(ctx, c.StandardClient()))
}

func beforeTimeout(ctx context.Context, r *remote) (string, error) {
	const D = 2 * time.Second
	client := &http.Client{Transport: r, Timeout: D}
	c := retryablehttp.NewClient()
	c.Logger, c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = nil, 2, time.Second, time.Second
	c.HTTPClient = client
	return statusOf(r.post(ctx, c.StandardClient()))
}

func beforeSleep(ctx context.Context, r *remote) (string, error) {
	const D, N = time.Second, 5
	f := r.call
	var err error
	for range N {
		if err = f(ctx); err == nil {
			break
		}
		time.Sleep(D)
	}
	return done(err)
}

func beforeSleepyPoll(_ context.Context, r *remote) (string, error) {
	const D = 2 * time.Second
	f, C := r.found, context.Background()
	return done(func() error {
		for {
			ok, err := f(C)
			if err != nil {
				return err
			}
			if ok {
				return nil
			}
			time.Sleep(D)
		}
	}())
}

func beforeWait(ctx context.Context, r *remote) (string, error) {
	const D, E = 2 * time.Second, 11 * time.Second
	f := r.found
	return done(wait.PollUntilContextTimeout(ctx, D, E, true, f))
}

func beforeRetriedPoll(ctx context.Context, r *remote) (string, error) {
	const D, E, S = 2 * time.Second, 11 * time.Second, "pending"
	return untilDone(ctx, func() error {
		found, err := r.found(ctx)
		if err != nil {
			return cenkalti.Permanent(err)
		}
		if !found {
			return errors.New(S)
		}
		return nil
	}, cenkalti.WithBackOff(cenkalti.NewConstantBackOff(D)), cenkalti.WithMaxElapsedTime(E))
}

func beforeStop(ctx context.Context, r *remote) (string, error) {
	stop := make(chan struct{})
	context.AfterFunc(ctx, func() { close(stop) })
	for {
		err := r.call(ctx)
		if err == nil {
			return "done", nil
		}
		select {
		case <-stop:
			return "", err
		case <-time.After(time.Second):
		}
	}
}

func beforeCompared(ctx context.Context, r *remote) (string, error) {
	X := errBusy
	_, err := untilDone(ctx, func() error { return r.call(ctx) }, cenkalti.WithMaxTries(3))
	if err == X {
		return "busy", nil
	}
	return done(err)
}

func beforeAsserted(ctx context.Context, r *remote) (string, error) {
	type T = *net.OpError
	_, err := untilDone(ctx, func() error { return r.call(ctx) }, cenkalti.WithMaxTries(3))
	if e, ok := err.(T); ok {
		return e.Op, nil
	}
	return done(err)
}

func beforeSwitched(ctx context.Context, r *remote) (string, error) {
	_, err := untilDone(ctx, func() error { return r.call(ctx) }, cenkalti.WithMaxTries(3))
	switch e := err.(type) {
	case *net.OpError:
		return e.Op, nil
	}
	return done(err)
}

func beforeNoTries(ctx context.Context, r *remote) (string, error) {
	return untilDone(ctx, func() error { return r.call(ctx) },
		cenkalti.WithBackOff(cenkalti.NewConstantBackOff(time.Second)), cenkalti.WithMaxTries(0))
}

func before4Context(ctx context.Context, r *remote) (string, error) {
	f := func() error { return r.call(ctx) }
	var b cenkalti4.BackOff = cenkalti4.NewConstantBackOff(2 * time.Second)
	b = cenkalti4.WithContext(b, ctx)
	return done(cenkalti4.Retry(f, b))
}

func beforeRetries(ctx context.Context, r *remote) (string, error) {
	const N = 3
	f := func() error { return r.call(ctx) }
	b := cenkalti4.NewConstantBackOff(time.Second)
	return done(cenkalti4.Retry(f, cenkalti4.WithMaxRetries(b, N)))
}

func beforeAvastHook(ctx context.Context, r *remote) (string, error) {
	last := uint(0)
	f := func(n uint, _ error) { last = n }
	err := avast.Do(func() error { return r.call(ctx) }, avast.Attempts(3), avast.OnRetry(f))
	return counted(last, 2, err)
}

// counted is what the caller sees of a call whose hook has counted.
func counted(got, expected uint, err error) (string, error) {
	if got != expected {
		return "", errors.New("the hook has another number")
	}
	return done(err)
}

func beforeAvastContext(ctx context.Context, r *remote) (string, error) {
	return done(avast.Do(func() error { return r.call(ctx) }, avast.Delay(2*time.Second), avast.DelayType(avast.FixedDelay),
		avast.Context(ctx), avast.LastErrorOnly(true)))
}

func beforeAvastJitter(ctx context.Context, r *remote) (string, error) {
	const D, J = time.Second, 2 * time.Second
	return done(avast.Do(func() error { return r.call(ctx) }, avast.Attempts(5), avast.Delay(D), avast.MaxJitter(J)))
}

func beforeAvastForEver(ctx context.Context, r *remote) (string, error) {
	return done(avast.Do(func() error { return r.call(ctx) }, avast.DelayType(avast.FixedDelay), avast.UntilSucceeded()))
}

func beforeAvastZero(ctx context.Context, r *remote) (string, error) {
	return done(avast.Do(func() error { return r.call(ctx) }, avast.DelayType(avast.FixedDelay), avast.Attempts(0)))
}

func beforeSethvargo(ctx context.Context, r *remote) (string, error) {
	const B, D, N, P = 3 * time.Second, time.Second, 4, 20
	b := sethvargo.NewExponential(D)
	b = sethvargo.WithJitterPercent(P, b)
	b = sethvargo.WithCappedDuration(B, b)
	b = sethvargo.WithMaxRetries(N, b)
	return done(sethvargo.Do(ctx, b, func(ctx context.Context) error { return sethvargo.RetryableError(r.call(ctx)) }))
}

func beforeSethvargoTime(ctx context.Context, r *remote) (string, error) {
	const D, E = 3 * time.Second, 10 * time.Second
	b := sethvargo.NewConstant(D)
	b = sethvargo.WithMaxDuration(E, b)
	return done(sethvargo.Do(ctx, b, func(ctx context.Context) error { return sethvargo.RetryableError(r.call(ctx)) }))
}

func beforeSethvargoMark(ctx context.Context, r *remote) (string, error) {
	return done(sethvargo.Do(ctx, sethvargo.NewConstant(time.Second), func(ctx context.Context) error {
		err := r.call(ctx)
		if isBusy(err) {
			return sethvargo.RetryableError(err)
		}
		return err
	}))
}

// beforeFailsafe runs a policy of failsafe-go.
func beforeFailsafe(build func() retrypolicy.Builder[any]) form {
	return func(ctx context.Context, r *remote) (string, error) {
		policy := build().ReturnLastFailure().Build()
		return done(failsafe.With[any](policy).WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error {
			return r.call(e.Context())
		}))
	}
}

func failsafeBackoff() retrypolicy.Builder[any] {
	const A, B, N, R = time.Second, 3 * time.Second, 5, 0.2
	return retrypolicy.NewBuilder[any]().WithMaxAttempts(N).WithBackoff(A, B).WithJitterFactor(R)
}

func failsafeDelay() retrypolicy.Builder[any] {
	const D, N = time.Second, 4
	return retrypolicy.NewBuilder[any]().WithMaxRetries(N).WithDelay(D)
}

func failsafeTime() retrypolicy.Builder[any] {
	const D, E = 3 * time.Second, 10 * time.Second
	return retrypolicy.NewBuilder[any]().WithMaxAttempts(-1).WithDelay(D).WithMaxDuration(E)
}

func failsafeAbort() retrypolicy.Builder[any] {
	X := errDown
	return retrypolicy.NewBuilder[any]().WithDelay(time.Second).AbortOnErrors(X)
}

func failsafeHandle() retrypolicy.Builder[any] {
	X := errBusy
	return retrypolicy.NewBuilder[any]().WithDelay(time.Second).HandleErrors(X)
}

func beforeCheck(ctx context.Context, r *remote) (string, error) {
	const S = http.StatusPreconditionFailed
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: r}
	c.RetryWaitMin, c.RetryWaitMax = time.Second, time.Second
	c.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if err == nil && resp.StatusCode == S {
			return true, nil
		}
		return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	}
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return statusOf(r.post(ctx, c.StandardClient()))
}

func beforeWaiter(ctx context.Context, r *remote) (string, error) {
	const D, E = 2 * time.Second, time.Minute
	input := &s3.HeadBucketInput{}
	waiter := s3.NewBucketExistsWaiter(bucket{r}, func(o *s3.BucketExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = D, D
	})
	return done(waiter.Wait(ctx, input, E))
}

// A bucket is there when the remote is done.
type bucket struct{ *remote }

func (b bucket) HeadBucket(ctx context.Context, _ *s3.HeadBucketInput, _ ...func(*s3.Options)) (*s3.HeadBucketOutput, error) {
	if found, err := b.found(ctx); found || err != nil {
		return &s3.HeadBucketOutput{}, err
	}
	return nil, &types.NotFound{}
}

func beforeErrorLimit(ctx context.Context, r *remote) (string, error) {
	const N = 2
	X := errBusy
	return done(avast.Do(func() error { return r.call(ctx) }, avast.DelayType(avast.FixedDelay), avast.AttemptsForError(N, X)))
}

func beforeDelayType(ctx context.Context, r *remote) (string, error) {
	const D, E = 100 * time.Millisecond, time.Second
	X := errBusy
	return done(avast.Do(func() error { return r.call(ctx) }, avast.DelayType(func(_ uint, err error, _ *avast.Config) time.Duration {
		if errors.Is(err, X) {
			return E
		}
		return D
	})))
}

func failsafeDelayFunc() retrypolicy.Builder[any] {
	const D, E = 100 * time.Millisecond, time.Second
	X := errBusy
	return retrypolicy.NewBuilder[any]().WithMaxAttempts(10).WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration {
		if errors.Is(e.LastError(), X) {
			return E
		}
		return D
	})
}

func failsafeNamedDelay() retrypolicy.Builder[any] {
	return retrypolicy.NewBuilder[any]().WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration {
		return after(e.LastError())
	})
}

// after reads from an error how long to wait.
func after(err error) time.Duration {
	if err == nil {
		return 0
	}
	return 30 * time.Second
}

func beforeSethvargoFullJitter(ctx context.Context, r *remote) (string, error) {
	const D, N = time.Second, 4
	b := sethvargo.NewExponential(D)
	b = sethvargo.WithFullJitter(b)
	return alwaysMarked(ctx, sethvargo.WithMaxRetries(N, b), r)
}

func beforeSethvargoJitter(ctx context.Context, r *remote) (string, error) {
	const D, J, N = 3 * time.Second, time.Second, 4
	b := sethvargo.NewExponential(D)
	b = sethvargo.WithJitter(J, b)
	return alwaysMarked(ctx, sethvargo.WithMaxRetries(N, b), r)
}

func beforeSethvargoFibonacci(ctx context.Context, r *remote) (string, error) {
	const D, N = time.Second, 5
	return alwaysMarked(ctx, sethvargo.WithMaxRetries(N, sethvargo.NewFibonacci(D)), r)
}

func alwaysMarked(ctx context.Context, b sethvargo.Backoff, r *remote) (string, error) {
	return done(sethvargo.Do(ctx, b, func(ctx context.Context) error { return sethvargo.RetryableError(r.call(ctx)) }))
}

func beforeGrowingWaiter(ctx context.Context, r *remote) (string, error) {
	const A, B, E = 2 * time.Second, 30 * time.Second, 2 * time.Minute
	waiter := s3.NewBucketExistsWaiter(bucket{r}, func(o *s3.BucketExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = A, B
	})
	return done(waiter.Wait(ctx, &s3.HeadBucketInput{}, E))
}

func beforeClientOfTransport(ctx context.Context, r *remote) (string, error) {
	const D = 5 * time.Second
	retry := failsafehttp.NewRetryPolicyBuilder().WithDelay(time.Second).Build()
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(r, retry), Timeout: D}
	return statusOf(r.post(ctx, client))
}

func beforeClientInALoop(ctx context.Context, r *remote) (string, error) {
	const D, N, T = time.Second, 3, 2 * time.Second
	client := &http.Client{Transport: r, Timeout: T}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://service.test/", nil)
	if err != nil {
		return "", err
	}
	var resp *http.Response
	for range N {
		if resp, err = client.Do(req); err == nil && resp.StatusCode < 500 {
			break
		}
		time.Sleep(D)
	}
	return statusOf(resp, err)
}

func beforeLastErr(ctx context.Context, r *remote) (string, error) {
	_, err := cenkalti7.Retry(ctx, func() (any, error) { return nil, r.call(ctx) }, cenkalti7.WithMaxTries(3))
	return "", cenkalti7.AsRetryError(err).LastErr
}

func beforeStopGiven(ctx context.Context, r *remote) (string, error) {
	return done(untilStopped(ctx.Done(), r.call))
}

func untilStopped(stop <-chan struct{}, save operation) error {
	for {
		err := save(context.Background())
		if err == nil {
			return nil
		}
		select {
		case <-stop:
			return err
		case <-time.After(time.Second):
		}
	}
}

func beforeSleeper(ctx context.Context, r *remote) (string, error) {
	return done(sleeps(ctx, r, time.Sleep))
}

func sleeps(ctx context.Context, r *remote, sleep func(time.Duration)) error {
	b := cenkalti.NewExponentialBackOff()
	for {
		err := r.call(ctx)
		if err == nil {
			return nil
		}
		wait := b.NextBackOff()
		if wait == cenkalti.Stop {
			return err
		}
		sleep(wait)
	}
}

func untilDone(ctx context.Context, op func() error, options ...cenkalti.RetryOption) (string, error) {
	return cenkalti.Retry(ctx, func() (string, error) { return "done", op() }, options...)
}
