package migrate

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	avast "github.com/avast/retry-go/v4"
	cenkalti4 "github.com/cenkalti/backoff/v4"
	cenkalti "github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	dskit "github.com/grafana/dskit/backoff"
	"github.com/hashicorp/go-retryablehttp"
	jpillora "github.com/jpillora/backoff"
	sethvargo "github.com/sethvargo/go-retry"
)

// What the rules replace, if it is more than the options in the table of rules.

// The names of one letter are those of the rules.
const (
	A, B = time.Second, 3 * time.Second
	B4   = 4 * A
	D, E = time.Second, 10*time.Second + 500*time.Millisecond
	F, J = 2, time.Second / 2
	N, P = 4, 20
	R, S = 0.1, http.StatusPreconditionFailed
)

var X = errBusy

func beforeCall(ctx context.Context, r *remote) (string, error) {
	f := func() (string, error) { return "done", r.call(ctx) }
	return cenkalti.Retry(ctx, f)
}

// cenkaltis retries with options of cenkalti/backoff.
func cenkaltis(options ...cenkalti.RetryOption) form {
	return cenkaltiOf(func(err error) error { return err }, options...)
}

// cenkaltiOf marks the failures, too.
func cenkaltiOf(mark func(error) error, options ...cenkalti.RetryOption) form {
	return func(ctx context.Context, r *remote) (string, error) {
		return cenkalti.Retry(ctx, func() (string, error) { return "done", mark(r.call(ctx)) }, options...)
	}
}

func cenkaltiPermanentError(err error) error {
	return cenkalti.Permanent(err)
}

func cenkaltiRetryAfterError(err error) error {
	const N = 30
	if err != nil {
		return cenkalti.RetryAfter(N)
	}
	return nil
}

func beforeNotify(ctx context.Context, r *remote) (string, error) {
	retries := uint(0)
	f := func(error, time.Duration) { retries++ }
	_, err := cenkaltis(cenkalti.WithMaxTries(3), cenkalti.WithNotify(f))(ctx, r)
	return counted(retries, 2, err)
}

// counted is what the caller sees of a call whose hook has counted.
func counted(got, expected uint, err error) (string, error) {
	if got != expected {
		return "", errors.New("the hook has another number")
	}
	return done(err)
}

// looking makes a call and looks at its error.
func looking(f form, at func(error) (string, error)) form {
	return func(ctx context.Context, r *remote) (string, error) {
		_, err := f(ctx, r)
		return at(err)
	}
}

func beforeCompared(err error) (string, error) {
	if err == X {
		return "busy", nil
	}
	return done(err)
}

func before4(ctx context.Context, r *remote) (string, error) {
	f := func() error { return r.call(ctx) }
	var b cenkalti4.BackOff = cenkalti4.NewConstantBackOff(D)
	b = cenkalti4.WithMaxRetries(b, N)
	b = cenkalti4.WithContext(b, ctx)
	return done(cenkalti4.Retry(f, b))
}

func beforeNotify4(ctx context.Context, r *remote) (string, error) {
	retries := uint(0)
	notify := func(error, time.Duration) { retries++ }
	f := func() error { return r.call(ctx) }
	b := cenkalti4.WithContext(cenkalti4.WithMaxRetries(cenkalti4.NewConstantBackOff(D), N), ctx)
	return counted(retries, N, cenkalti4.RetryNotify(f, b, notify))
}

func beforeData4(ctx context.Context, r *remote) (string, error) {
	f := func() (string, error) { return "done", r.call(ctx) }
	b := cenkalti4.WithContext(cenkalti4.WithMaxRetries(cenkalti4.NewConstantBackOff(D), N), ctx)
	return cenkalti4.RetryWithData(f, b)
}

// avasts retries with options of avast/retry-go.
func avasts(options ...avast.Option) form {
	return func(ctx context.Context, r *remote) (string, error) {
		return done(avast.Do(func() error { return r.call(ctx) }, slices.Concat(options, []avast.Option{avast.Context(ctx)})...))
	}
}

func beforeAvastRetryIf(ctx context.Context, r *remote) (string, error) {
	f := isBusy
	return avasts(avast.RetryIf(f))(ctx, r)
}

func beforeAvastFinal(ctx context.Context, r *remote) (string, error) {
	return done(avast.Do(func() error {
		err := r.call(ctx)
		return avast.Unrecoverable(err)
	}))
}

func beforeAvastHook(ctx context.Context, r *remote) (string, error) {
	last := uint(0)
	f := func(n uint, _ error) { last = n }
	_, err := avasts(avast.Attempts(3), avast.OnRetry(f))(ctx, r)
	return counted(last, 2, err)
}

func avastDelay() avast.Option {
	return avast.DelayType(func(_ uint, err error, _ *avast.Config) time.Duration {
		if errors.Is(err, X) {
			return E
		}
		return D
	})
}

// sethvargos retries every failure as a backoff of go-retry says, which is of one call.
func sethvargos(backoff func() sethvargo.Backoff) form {
	return func(ctx context.Context, r *remote) (string, error) {
		return done(sethvargo.Do(ctx, backoff(), func(ctx context.Context) error { return sethvargo.RetryableError(r.call(ctx)) }))
	}
}

func sethvargoCapped() sethvargo.Backoff {
	b := sethvargo.NewExponential(D)
	b = sethvargo.WithJitterPercent(P, b)
	b = sethvargo.WithCappedDuration(B, b)
	return sethvargo.WithMaxRetries(N, b)
}

func sethvargoFull() sethvargo.Backoff {
	b := sethvargo.NewExponential(D)
	b = sethvargo.WithFullJitter(b)
	return sethvargo.WithMaxRetries(N, b)
}

func sethvargoFibonaccis() sethvargo.Backoff {
	return sethvargo.WithMaxRetries(N, sethvargo.NewFibonacci(D))
}

func sethvargoTime() sethvargo.Backoff {
	b := sethvargo.NewConstant(D)
	return sethvargo.WithMaxDuration(E, b)
}

func beforeSethvargoMark(ctx context.Context, r *remote) (string, error) {
	return done(sethvargo.Do(ctx, sethvargo.NewConstant(D), func(ctx context.Context) error {
		err := r.call(ctx)
		if isBusy(err) {
			return sethvargo.RetryableError(err)
		}
		return err
	}))
}

// failsafes runs a policy of failsafe-go.
func failsafes(policy retrypolicy.Builder[any]) form {
	return func(ctx context.Context, r *remote) (string, error) {
		policy := policy.ReturnLastFailure().Build()
		return done(failsafe.With[any](policy).WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error {
			return r.call(e.Context())
		}))
	}
}

func failsafeBuilder() retrypolicy.Builder[any] { return retrypolicy.NewBuilder[any]() }

func failsafeUnlimited() retrypolicy.Builder[any] {
	const N = -1
	return failsafeBuilder().WithMaxRetries(N)
}

func failsafeDelayFunc() retrypolicy.Builder[any] {
	return failsafeBuilder().WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration {
		if errors.Is(e.LastError(), X) {
			return E
		}
		return D
	})
}

func beforeClientOfTransport(ctx context.Context, r *remote) (string, error) {
	const D = 5 * time.Second
	retry := failsafehttp.NewRetryPolicyBuilder().WithDelay(time.Second).Build()
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(r, retry), Timeout: D}
	return statusOf(r.post(ctx, client))
}

// retryables sends a request with a client of go-retryablehttp.
func retryables(set func(c *retryablehttp.Client, client *http.Client)) form {
	return func(ctx context.Context, r *remote) (string, error) {
		c := retryablehttp.NewClient()
		c.Logger = nil
		c.RetryWaitMin, c.RetryWaitMax = A, B
		c.ErrorHandler = retryablehttp.PassthroughErrorHandler
		client := &http.Client{Transport: r}
		c.HTTPClient = client
		set(c, client)
		return statusOf(r.post(ctx, c.StandardClient()))
	}
}

func retryMax(c *retryablehttp.Client, _ *http.Client) { c.RetryMax = N }

func shortClient(c *retryablehttp.Client, client *http.Client) {
	client.Timeout = 2 * time.Second
	c.ErrorHandler, c.RetryMax, c.RetryWaitMax = nil, 2, A
}

func retriesOne(c *retryablehttp.Client, _ *http.Client) {
	c.RetryWaitMax = A
	c.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if err == nil && resp.StatusCode == S {
			return true, nil
		}
		return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	}
}

func beforeSleep(ctx context.Context, r *remote) (string, error) {
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

func beforeClientInALoop(ctx context.Context, r *remote) (string, error) {
	client, req := r.get(ctx)
	var resp *http.Response
	var err error
	for range N {
		if resp, err = client.Do(req); err == nil && resp.StatusCode < 500 {
			break
		}
		time.Sleep(D)
	}
	return statusOf(resp, err)
}

// get returns a client with a timeout, and a request to the remote.
func (r *remote) get(ctx context.Context) (*http.Client, *http.Request) {
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://service.test/", nil)
	return &http.Client{Transport: r, Timeout: 2 * time.Second}, req
}

func beforeSleepyPoll(_ context.Context, r *remote) (string, error) {
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

// dskits retries with a loop of dskit.
func dskits(config dskit.Config) form {
	return func(ctx context.Context, r *remote) (string, error) {
		f := r.call
		return done(func() error {
			b := dskit.New(ctx, config)
			for b.Ongoing() {
				err := f(ctx)
				if err == nil {
					return nil
				}
				if b.NumRetries() != len(r.tried)-1 {
					return errGone
				}
				b.Wait()
			}
			return b.Err()
		}())
	}
}

// jpilloras retries with the waits of jpillora/backoff. The third failure makes
// it begin anew.
func jpilloras(b *jpillora.Backoff) form {
	return func(ctx context.Context, r *remote) (string, error) {
		for {
			err := r.call(ctx)
			if err == nil {
				return done(nil)
			}
			if len(r.tried) == 3 {
				b.Reset()
			}
			time.Sleep(b.Duration())
		}
	}
}

func loopOf(loop call) form {
	return func(ctx context.Context, r *remote) (string, error) { return done(loop(ctx, r.call)) }
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
