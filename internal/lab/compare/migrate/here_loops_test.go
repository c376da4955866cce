package migrate

import (
	"context"
	"errors"
	"log"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	cenkalti4 "github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-retryablehttp"
	jpillora "github.com/jpillora/backoff"
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

func hereAvastExponential(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: 200 * time.Millisecond},
		Jitter:      added(100 * time.Millisecond),
		MaxDelay:    5 * time.Second,
	}
	err := policy.Do(ctx, save)
	return err
}

func added(most time.Duration) backoff.Jitter {
	return func(delay, _ time.Duration, u float64) time.Duration { return delay + time.Duration(u*float64(most)) }
}

func hereAvastHooks(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 3,
		Classify:    backoff.RetryIf(isBusy),
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				log.Printf("attempt %d: %v", e.Attempt, e.Err)
			}
		},
	}
	err := policy.Do(ctx, save)
	return err
}

func hereAvastPerError(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 10,
		Classify:    busyIsThrottled,
		ByClass:     map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 2}},
	}
	err := policy.Do(ctx, save)
	return err
}

func busyIsThrottled(err error) backoff.Class {
	if errors.Is(err, errBusy) {
		return backoff.ClassThrottled
	}
	return backoff.ClassUnknown // as usual
}

func hereDelayByError(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 10,
		Schedule:    backoff.Constant(50 * time.Millisecond),
		ByClass:     map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Schedule: backoff.Constant(time.Second)}},
		Jitter:      backoff.NoJitter, // as there; leave it out
		Classify:    busyIsThrottled,
	}
	err := policy.Do(ctx, save)
	return err
}

func hereAvastThrottle(ctx context.Context, save operation) error {
	shared := &backoff.RetryBudget{}

	policy := backoff.Policy{MaxAttempts: 10, Budget: shared}
	err := policy.Do(ctx, save)
	return err
}

func hereSethvargoExponential(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: 200 * time.Millisecond},
		Jitter:      backoff.UniformJitter(0.9, 1.1),
		MaxDelay:    time.Second,
		Classify:    func(error) backoff.Class { return backoff.ClassPermanent },
	}
	err := policy.Do(ctx, func(ctx context.Context) error {
		err := save(ctx)
		if errors.Is(err, errBusy) {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return err
	})
	return err
}

func hereSethvargoPredicate(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 5,
		Classify:    backoff.RetryIf(func(err error) bool { return errors.Is(err, errBusy) }),
	}
	err := policy.Do(ctx, save)
	return err
}

func hereJpilloraLoop(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 6,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: time.Second},
		Jitter:      backoff.NoJitter, // as there; leave it out
	}
	err := policy.Do(ctx, save)
	return err
}

func hereSupervised(ctx context.Context, dial func(context.Context) (string, error), serve func(context.Context, string) error) error {
	connections := backoff.Supervisor{
		Policy: backoff.Policy{Schedule: backoff.Exponential{Initial: 100 * time.Millisecond, Max: 5 * time.Minute}},
	}
	err := connections.Run(ctx, func(ctx context.Context) error {
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		return serve(ctx, conn)
	})
	return err
}

func TestALoopOfJpilloraHasTheSameWaits(t *testing.T) {
	for _, c := range []call{jpilloraLoop, hereJpilloraLoop} {
		r := recorded(t, c, errDown)
		require.Equal(t, seconds(0.1, 0.2, 0.4, 0.8, 1), r.waits())
		require.ErrorIs(t, r.err, errDown)
		r = recorded(t, c, errDown, errDown, nil)
		require.Len(t, r.at, 3)
		require.NoError(t, r.err)
	}
	old, schedule := jpillora.Backoff{Min: time.Second, Factor: 1.5, Max: time.Minute}, backoff.Exponential{Initial: time.Second, Multiplier: 1.5, Max: time.Minute}
	for n := range 20 {
		require.InDelta(t, old.ForAttempt(float64(n)), schedule.Delay(n+1), 1000)
	}
}

type reconnecting = func(context.Context, func(context.Context) (string, error), func(context.Context, string) error)

func supervised(ctx context.Context, dial func(context.Context) (string, error), serve func(context.Context, string) error) {
	_ = hereSupervised(ctx, dial, serve)
}

// connections dials for an hour. The server accepts the connections that
// accepts says, and closes each after it lasted so long.
func connections(t *testing.T, reconnect reconnecting, lasts time.Duration, accepts func(dial int) bool) (waits []time.Duration) {
	const enough = 200
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		ended, dials := time.Now(), 0
		reconnect(ctx, func(context.Context) (string, error) {
			waits = append(waits, time.Since(ended))
			if dials++; dials == enough {
				cancel()
			}
			ended = time.Now()
			if accepts(dials) {
				return "conn", nil
			}
			return "", errDown
		}, func(context.Context, string) error {
			time.Sleep(lasts)
			ended = time.Now()
			return errDown
		})
	})
	return waits
}

func TestAServerThatHangsUpIsDialledWithoutAWaitInJpilloraOnly(t *testing.T) {
	always := func(int) bool { return true }
	waits := connections(t, jpilloraReconnect, 0, always)
	require.Len(t, waits, 200)
	require.Zero(t, slices.Max(waits))
	require.Less(t, len(connections(t, supervised, 0, always)), 100)
}

func TestAfterAConnectionThatLastedTheWaitsBeginAnew(t *testing.T) {
	tenth := func(dial int) bool { return dial == 10 }
	for name, reconnect := range map[string]reconnecting{"jpillora": jpilloraReconnect, ours: supervised} {
		waits := connections(t, reconnect, 2*time.Minute, tenth)
		require.LessOrEqual(t, waits[10], 100*time.Millisecond, name)
		require.LessOrEqual(t, waits[11], 200*time.Millisecond, name)
	}
}
