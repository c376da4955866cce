package migrate

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	cenkalti4 "github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func hereLoop(ctx context.Context, save operation) error {
	policy := backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		err := save(ctx)
		if err == nil {
			return nil
		}
		r.Fail(err)
	}
	return r.Err()
}

// wrongLoop is hereLoop with the return statement of ownLoop.
func wrongLoop(ctx context.Context, save operation) error {
	r := constant.Start(ctx)
	for attempt := range r.Attempts() {
		err := save(attempt)
		if err == nil {
			return nil
		}
		r.Fail(err)
	}
	return ctx.Err()
}

func hereContextsOwn(err error) error {
	if gave, ok := errors.AsType[*backoff.Error](err); ok && gave.ContextError() != nil {
		return gave.ContextError()
	}
	return err
}

func hereHooked(ctx context.Context, save operation, mayRetry func(err error, wait time.Duration) bool) error {
	policy := backoff.Policy{MaxAttempts: -1, Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter}
	r := policy.Start(ctx)
	ctx, ok := r.Begin(0) // the first attempt
	for ok {
		err := save(ctx)
		wait, again := r.Retry(err)
		if again && !mayRetry(err, wait) {
			return err
		}
		ctx, ok = r.Begin(wait)
	}
	return r.Err() // nil after a success
}

// attempts is how many attempts so many retries are. A negative number means
// no limit.
func attempts(retries int) int {
	if retries < 0 {
		return -1
	}
	return retries + 1
}

func TestAnEarlyEndIsAnErrorAlsoWhereTheContextHasNone(t *testing.T) {
	timed := func(c call) record {
		return recorded(t, func(ctx context.Context, op operation) error {
			ctx, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
			defer cancel()
			return c(ctx, op)
		}, errDown)
	}
	was, is, wrong := timed(ownLoop), timed(hereLoop), timed(wrongLoop)
	for _, r := range []record{was, is, wrong} {
		require.Equal(t, seconds(0, 1, 2), r.at)
	}
	require.Equal(t, context.DeadlineExceeded, was.err)
	require.ErrorIs(t, is.err, context.DeadlineExceeded)
	require.ErrorIs(t, is.err, errDown)
	require.Equal(t, context.DeadlineExceeded, hereContextsOwn(is.err))
	require.NoError(t, wrong.err, "a call that failed looks like a success")
}

func TestAHookMaySayNo(t *testing.T) {
	for _, loop := range []func(context.Context, operation, func(error, time.Duration) bool) error{hookedLoop, hereHooked} {
		var waits []time.Duration
		r := recorded(t, func(ctx context.Context, op operation) error {
			return loop(ctx, op, func(err error, wait time.Duration) bool {
				require.Equal(t, errDown, err)
				waits = append(waits, wait)
				return wait < 4*time.Second
			})
		}, errDown)
		require.Equal(t, seconds(1, 2, 4), waits)
		require.Equal(t, seconds(0, 1, 3), r.at)
		require.Equal(t, errDown, r.err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		began := time.Now()
		err := hereHooked(ctx, func(context.Context) error { return errDown }, func(error, time.Duration) bool { return true })
		require.ErrorIs(t, err, errDown)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second/2, time.Since(began))
	})
}

// What a negative number of retries means elsewhere, and what N + 1 makes of it.
func TestANegativeNumberOfRetriesIsNotOneAttemptLess(t *testing.T) {
	retries := -1
	for name, f := range map[string]form{
		"failsafe-go": failsafes(failsafeBuilder().WithMaxRetries(retries).WithDelay(D)),
		"cenkalti v4": func(ctx context.Context, r *remote) (string, error) {
			b := cenkalti4.WithMaxRetries(cenkalti4.NewConstantBackOff(D), uint64(retries))
			return done(cenkalti4.Retry(func() error { return r.call(ctx) }, b))
		},
		ours: here(backoff.Policy{MaxAttempts: attempts(retries)}),
	} {
		r := &remote{script: tenth}
		synctest.Test(t, func(t *testing.T) {
			r.began = time.Now()
			_, err := f(t.Context(), r)
			require.NoError(t, err, name)
		})
		require.Len(t, r.tried, 10, name)
	}
	for name, f := range map[string]form{
		"go-retryablehttp": retryables(func(c *retryablehttp.Client, _ *http.Client) { c.RetryMax = retries }),
		ours:               hereHTTP(backoff.Policy{MaxAttempts: max(retries, 0) + 1}),
	} {
		r := &remote{script: times(1, answer{status: 503})}
		synctest.Test(t, func(t *testing.T) {
			r.began = time.Now()
			_, err := f(t.Context(), r)
			require.NoError(t, err, name)
		})
		require.Len(t, r.tried, 1, name)
	}
	require.Len(t, recorded(t, backoff.Policy{MaxAttempts: retries + 1}.Do, errDown).at, 4, "0 is the default")
}
