package migrate

import (
	"context"
	"errors"
	"net/http"
	"time"

	avast "github.com/avast/retry-go/v4"
	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti "github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-retryablehttp"
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

func beforeRetries(ctx context.Context, r *remote) (string, error) {
	const N = 3
	b := cenkalti4.NewConstantBackOff(time.Second)
	return done(cenkalti4.Retry(func() error { return r.call(ctx) }, cenkalti4.WithMaxRetries(b, N)))
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
	return status(r.post(ctx, c.StandardClient()))
}

func beforeLinear(ctx context.Context, r *remote) (string, error) {
	const A, B = time.Second, 2 * time.Second
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: r}
	c.RetryWaitMin, c.RetryWaitMax = A, B
	c.Backoff = retryablehttp.LinearJitterBackoff
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return status(r.post(ctx, c.StandardClient()))
}

func beforeTimeout(ctx context.Context, r *remote) (string, error) {
	const D = 2 * time.Second
	client := &http.Client{Transport: r, Timeout: D}
	c := retryablehttp.NewClient()
	c.Logger, c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = nil, 2, time.Second, time.Second
	c.HTTPClient = client
	return status(r.post(ctx, c.StandardClient()))
}

func beforeSleep(ctx context.Context, r *remote) (string, error) {
	const D, N = time.Second, 5
	var err error
	for range N {
		if err = r.call(ctx); err == nil {
			break
		}
		time.Sleep(D)
	}
	return done(err)
}

func beforeSleepyPoll(_ context.Context, r *remote) (string, error) {
	const D = 2 * time.Second
	f := func(ctx context.Context) (bool, error) { return r.found(ctx) }
	for {
		found, err := f(context.Background())
		if err != nil {
			return "", err
		}
		if found {
			return "done", nil
		}
		time.Sleep(D)
	}
}

func beforeWait(ctx context.Context, r *remote) (string, error) {
	const D, E = 2 * time.Second, 11 * time.Second
	f := func(ctx context.Context) (bool, error) { return r.found(ctx) }
	return done(wait.PollUntilContextTimeout(ctx, D, E, true, f))
}

func beforeRetriedPoll(ctx context.Context, r *remote) (string, error) {
	const D, E = 2 * time.Second, 11 * time.Second
	return untilDone(ctx, func() error {
		found, err := r.found(ctx)
		if err != nil {
			return cenkalti.Permanent(err)
		}
		if !found {
			return errors.New("pending")
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
	_, err := untilDone(ctx, func() error { return r.call(ctx) }, cenkalti.WithMaxTries(3))
	if err == errBusy {
		return "busy", nil
	}
	return done(err)
}
