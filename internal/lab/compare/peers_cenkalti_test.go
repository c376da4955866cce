package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
)

// What the tests of cenkalti/backoff promise.
var cenkaltiPromises = []promise{
	{test: "backoff_test.go TestConstantBackOff", name: "the same wait comes each time", holds: func(t *testing.T) {
		for retry := range 20 {
			require.Equal(t, 7*time.Second, backoff.Constant(7*time.Second).Delay(retry+1))
		}
	}},
	{test: "backoff_test.go TestNextBackOffMillis", name: "a wait of nothing is none, and one attempt has no retry", holds: func(t *testing.T) {
		require.Zero(t, backoff.Constant(0).Delay(9))
		require.False(t, steady(1).Decide(1, errDown).Again)
	}},
	{test: "exponential_test.go TestBackOff", name: "waits with a spread of a fifth stay within it, at the maximum, too", holds: func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Exponential{Initial: 300 * time.Millisecond, Max: 2 * time.Second, Multiplier: 3}, Jitter: backoff.UniformJitter(0.8, 1.2)}
		for i, delay := range []time.Duration{300, 900, 2000, 2000, 2000} {
			for range 100 {
				require.InDelta(t, delay*time.Millisecond, policy.WaitBefore(i+1), float64(delay*time.Millisecond)/5)
			}
		}
	}},
	{test: "exponential_test.go TestGetRandomizedInterval", name: "a spread is even from its lower end to its upper", holds: func(t *testing.T) {
		jitter := backoff.UniformJitter(0.5, 1.5)
		for u, wait := range map[float64]time.Duration{0: 5, 0.25: 7, 0.5: 10, 0.75: 12} {
			require.InDelta(t, wait, jitter(10, 0, u), 1)
		}
	}},
	{test: "exponential_test.go TestBackOffOverflow", name: "a delay that no duration can hold is the longest one", holds: func(t *testing.T) {
		huge := backoff.Exponential{Initial: math.MaxInt64 / 3, Max: math.MaxInt64, Multiplier: 7}
		for _, retry := range []int{2, 3, 100, math.MaxInt} {
			require.Equal(t, time.Duration(math.MaxInt64), huge.Delay(retry))
		}
	}},
	{test: "exponential_test.go TestBackOffRandomizedOverflow", name: "its spread is never negative", holds: func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Constant(math.MaxInt64)}
		for _, policy.Jitter = range []backoff.Jitter{nil, backoff.EqualJitter, backoff.UniformJitter(0.5, 2), backoff.DecorrelatedJitter(math.MaxInt64/2, -1)} {
			for range 100 {
				require.GreaterOrEqual(t, policy.WaitBefore(3), time.Duration(0))
			}
		}
	}},
	{test: "retry_test.go TestRetry", name: "a call that fails twice succeeds in its third attempt", holds: tried(steady(4), 3, errDown, errDown, nil)},
	{test: "retry_test.go TestRetryWithData", name: "its value is that of the attempt that succeeded", holds: func(t *testing.T) {
		n := 0
		value, err := backoff.DoValue(t.Context(), steady(4), func(context.Context) (int, error) {
			if n++; n < 3 {
				return -1, errDown
			}
			return 7, nil
		})
		require.NoError(t, err)
		require.Equal(t, 7, value)
	}},
	{test: "retry_test.go TestRetryContext", name: "a call whose context ends during an attempt that fails ends with it", holds: cancelledInAttempt},
	{test: "retry_test.go TestRetryContextErrorIncludesOperationError", name: "its error matches the context's, the cause and the failure", holds: cancelledInAttempt},
	{test: "retry_test.go TestRetryMaxElapsedTimeErrorIncludesOperationError", name: "the error of a call whose time is over matches the failure", holds: func(t *testing.T) {
		policy := steady(-1)
		policy.MaxElapsed = 1500 * time.Millisecond
		err := policy.Do(t.Context(), failing(new(int)))
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.ErrorIs(t, err, errDown)
		gave, _ := errors.AsType[*backoff.Error](err)
		require.Equal(t, backoff.ReasonElapsed, gave.Reason)
	}},
	{test: "retry_test.go TestRetryError", name: "errors.As finds the reason and the last failure", holds: func(t *testing.T) {
		gave, ok := errors.AsType[*backoff.Error](givenUp(t))
		require.True(t, ok)
		require.Equal(t, backoff.ReasonAttempts, gave.Reason)
		require.True(t, gave.Last == errDown)
	}},
	{test: "retry_test.go TestRetryPermanent", name: "a marked error ends the call, with its value", holds: finalWithValue(backoff.Permanent(io.EOF))},
	{test: "retry_test.go TestRetryPermanent", name: "a marked error that another one wraps does so, too", holds: finalWithValue(fmt.Errorf("load: %w", backoff.Permanent(io.EOF)))},
	{test: "retry_test.go TestPermanent", name: "a mark hides nothing of the error, and nil has none", holds: func(t *testing.T) {
		require.ErrorIs(t, fmt.Errorf("load: %w", backoff.Permanent(io.EOF)), io.EOF)
		require.NotErrorIs(t, backoff.Permanent(io.EOF), errDown)
		require.True(t, backoff.Cause(backoff.Permanent(io.EOF)) == io.EOF)
		require.NoError(t, backoff.Permanent(nil))
	}},
	{test: "retry_test.go TestRetryPermanentError", name: "a marked error comes back as the operation returned it", holds: func(t *testing.T) {
		mark := backoff.Permanent(errDown)
		require.True(t, steady(4).Do(t.Context(), func(context.Context) error { return mark }) == mark)
	}, theirs: "it comes back in the error of the loop, with a cause", why: "there was no retry to tell of"},
	{test: "retry_test.go TestIssue177", name: "a mark is not lost with any limit of attempts", holds: func(t *testing.T) {
		for attempts := -1; attempts < 3; attempts++ {
			n := 0
			outer := steady(4).Do(t.Context(), steady(attempts).Wrap(func(context.Context) error { n++; return backoff.Permanent(errDown) }))
			require.ErrorIs(t, outer, errDown)
			require.Equal(t, 1, n)
		}
	}},
	{test: "retry_test.go TestRetryContextDeadline", name: "a call whose deadline has passed makes no attempt", holds: func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), -time.Minute)
		defer cancel()
		n := 0
		require.ErrorIs(t, steady(4).Do(ctx, failing(&n)), context.DeadlineExceeded)
		require.Zero(t, n)
	}, theirs: "it makes one, and its error matches that failure, too", why: "its result could not be used"},
	{test: "retry_test.go TestRetryNotify", name: "an observer hears of each retry with its failure", holds: observed("retry retry success", errDown, errDown, nil)},
	{test: "retry_test.go TestRetryNotify", name: "the last failure leads to no retry", holds: observed("retry retry retry give up:attempts", errDown)},
	{test: "retry_test.go TestRetryNotify", name: "nor does a marked one", holds: observed("give up:permanent", backoff.Permanent(errDown))},
	{test: "retry_test.go TestRetryNotify", name: "nor does one after which the context has ended", holds: func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		policy, kinds := steady(4), []backoff.EventKind{}
		policy.Observer = func(_ context.Context, e backoff.Event) { kinds = append(kinds, e.Kind) }
		_ = policy.Do(ctx, func(context.Context) error { cancel(); return errDown })
		require.Equal(t, []backoff.EventKind{backoff.EventGiveUp}, kinds)
	}},
	{test: "retry_test.go TestRetryAfter", name: "an error may say how long to wait, exactly, and the schedule begins again", holds: func(t *testing.T) {
		policy := backoff.Policy{MaxAttempts: 9, Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter}
		waits := []time.Duration{}
		policy.Observer = func(_ context.Context, e backoff.Event) { waits = append(waits, e.Wait) }
		n := 0
		require.NoError(t, policy.Do(t.Context(), func(context.Context) error {
			switch n++; n {
			case 3:
				return backoff.Pushback(errDown, 40*time.Second)
			case 6:
				return nil
			}
			return errDown
		}))
		require.Equal(t, []time.Duration{1e9, 2e9, 40e9, 1e9, 2e9, 0}, waits)
	}},
	{test: "retry_test.go TestRetryAfterPolicyStop", name: "a wait that is asked for after the last attempt is not slept", holds: func(t *testing.T) {
		began := time.Now()
		err := steady(1).Do(t.Context(), func(context.Context) error { return backoff.RetryAfter(errDown, time.Minute) })
		require.ErrorIs(t, err, errDown)
		wait, ok := backoff.RetryAfterOf(err)
		require.True(t, ok)
		require.Equal(t, time.Minute, wait)
		require.Zero(t, time.Since(began))
	}},
	{test: "retry_test.go TestRetryAfterError", name: "an error with a wait has the text and the tree of the error", holds: func(t *testing.T) {
		require.ErrorIs(t, backoff.RetryAfter(errDown, time.Minute), errDown)
		require.EqualError(t, backoff.RetryAfter(errDown, time.Minute), errDown.Error())
	}, theirs: "its text has the wait", why: "equal failures have equal texts; the event of the retry has the wait"},
	{test: "retry_test.go TestRetryAfterError", name: "a wait without an error is no error", holds: func(t *testing.T) {
		require.NoError(t, backoff.RetryAfter(nil, time.Minute))
	}, theirs: "it is an error of its own", why: "each mark of nil is nil, so that a result can be marked before it is looked at"},
	{test: "retry_test.go TestRetryAfterCarriesError", name: "the error of a call that is given up has the failure that asked for a wait", holds: func(t *testing.T) {
		err := steady(2).Do(t.Context(), func(context.Context) error { return backoff.RetryAfter(errDown, time.Second) })
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.True(t, backoff.Cause(err) == errDown)
	}},
	{test: "retry_test.go TestRetryErrorString", name: "the text of the error names attempts and failure, and errors.As of nil finds nothing", holds: func(t *testing.T) {
		require.EqualError(t, givenUp(t), "backoff: gave up after 3 attempts: down")
		_, ok := errors.AsType[*backoff.Error](nil)
		require.False(t, ok)
	}},
	{test: "retry_test.go TestRetryElapsedTimeOverflow", name: "a delay beyond all durations ends a call that has a limit of time", holds: endless(func(p *backoff.Policy) error {
		p.Schedule = backoff.Constant(math.MaxInt64)
		return errDown
	})},
	{test: "retry_test.go TestRetryElapsedTimeOverflow", name: "so does such a wait that a server asks for", holds: endless(func(p *backoff.Policy) error {
		p.MaxRetryAfter = -1
		return backoff.RetryAfter(errDown, math.MaxInt64)
	})},
	{test: "retry_test.go TestRetryAfterNegativeDuration", name: "a negative wait gives a call no more time", holds: func(t *testing.T) {
		policy, n := steady(9), 0
		policy.Schedule, policy.MaxElapsed = backoff.Constant(0), time.Second
		err := policy.Do(t.Context(), func(context.Context) error {
			n++
			time.Sleep(2 * time.Second)
			return backoff.RetryAfter(errDown, -time.Hour)
		})
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Equal(t, 1, n)
	}},
	{test: "retry_test.go TestRetryAfterNegativeDurationWaitsZero", name: "a negative wait is none, beside that of the schedule", holds: func(t *testing.T) {
		n, began := 0, time.Now()
		policy := steady(2)
		policy.Schedule = backoff.Constant(0)
		_ = policy.Do(t.Context(), func(context.Context) error { n++; return backoff.RetryAfter(errDown, -1) })
		require.Equal(t, 2, n)
		require.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
	}},
	{test: "retry_test.go TestRetryAfterTypedNil", name: "an error that is a nil pointer of a type of this library is an unknown error, and no panic", holds: typedNil},
	{test: "retry_test.go TestRetryCancelledBeforeNextAttempt", name: "a call that its observer cancels makes no other attempt, however short the wait", holds: cancelledByObserver(0)},
	{test: "retry_test.go TestRetryCancelledBeforeNextAttempt", name: "a context without a channel is asked after the wait", holds: func(t *testing.T) {
		ctx, n := &deaf{Context: t.Context()}, 0
		time.AfterFunc(time.Second/2, func() { ctx.ended.Store(true) })
		require.ErrorIs(t, steady(4).Do(ctx, failing(&n)), context.Canceled)
		require.Equal(t, 1, n)
	}},
	{test: "ticker_test.go TestTicker", name: "a range loop has an attempt after each wait, until it is left", holds: func(t *testing.T) {
		run, n, began := steady(-1).Start(t.Context()), 0, time.Now()
		for range run.Attempts() {
			if n++; n == 3 {
				break
			}
			run.Fail(errDown)
		}
		require.NoError(t, run.Err())
		require.Equal(t, 2*time.Second, time.Since(began))
	}},
	{test: "ticker_test.go TestTickerStop", name: "a range loop that was left has no more attempts", holds: func(t *testing.T) {
		run := steady(-1).Start(t.Context())
		for range run.Attempts() {
			break
		}
		for range run.Attempts() {
			t.Error("an attempt after the loop was left")
		}
	}},
	{test: "ticker_test.go TestTickerStopsOnBackOffStop", name: "a range loop of one attempt ends after it", holds: func(t *testing.T) {
		run, n := steady(1).Start(t.Context()), 0
		for range run.Attempts() {
			n++
			run.Fail(errDown)
		}
		require.Equal(t, 1, n)
		require.ErrorIs(t, run.Err(), errDown)
	}},
	{test: "tries_test.go TestRetryMaxTriesCount", name: "a limit counts the first attempt", holds: func(t *testing.T) {
		for _, limit := range []int{1, 2, 6} {
			tried(steady(limit), limit, errDown)(t)
		}
	}},
	{test: "tries_test.go TestRetryMaxTriesUnlimited", name: "by default there are four attempts", holds: tried(backoff.Policy{}, 4, errDown),
		theirs: "by default there is no limit", why: "a call without one goes on for as long as the service is down; -1 sets none"},
	{test: "backoff_test.go TestNextBackOffMillis", name: "as its interface, a policy that is over says stop, again and again", holds: func(t *testing.T) {
		b := plug.Cenkalti(t.Context(), steady(3))
		waits := []time.Duration{}
		for range 4 {
			waits = append(waits, b.NextBackOff())
		}
		require.Equal(t, []time.Duration{1e9, 1e9, plug.Stop, plug.Stop}, waits)
	}},
}

func cancelledInAttempt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	err := steady(9).Do(ctx, func(context.Context) error {
		if n++; n == 3 {
			cancel(io.ErrClosedPipe)
		}
		return errDown
	})
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errDown)
	require.Equal(t, 3, n)
}

func finalWithValue(final error) func(*testing.T) {
	return func(t *testing.T) {
		n := 0
		value, err := backoff.DoValue(t.Context(), steady(4), func(context.Context) (int, error) { n++; return 7, final })
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, 7, value)
		require.Equal(t, 1, n)
	}
}

// endless makes a call with a limit of time whose next wait would never end.
func endless(fail func(*backoff.Policy) error) func(*testing.T) {
	return func(t *testing.T) {
		policy, n, began := steady(9), 0, time.Now()
		policy.MaxElapsed = time.Minute
		failure := fail(&policy)
		err := policy.Do(t.Context(), func(context.Context) error { n++; time.Sleep(time.Nanosecond); return failure })
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 1, n)
		require.LessOrEqual(t, time.Since(began), time.Duration(1))
	}
}

func typedNil(t *testing.T) {
	for _, nothing := range []error{(*backoff.Error)(nil), (*backoff.OpenError)(nil), (*backoffhttp.StatusError)(nil)} {
		n := 0
		require.NotPanics(t, func() {
			_ = steady(2).Do(t.Context(), func(context.Context) error {
				if n++; n == 1 {
					return nothing
				}
				return nil
			})
		}, "%T", nothing)
	}
}

func cancelledByObserver(delay time.Duration) func(*testing.T) {
	return func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		policy, n := steady(9), 0
		policy.Schedule = backoff.Constant(delay)
		policy.Observer = func(_ context.Context, e backoff.Event) {
			if e.Attempt == 2 {
				cancel()
			}
		}
		err := policy.Do(ctx, failing(&n))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 2, n)
	}
}

// deaf is a context that ends without telling anybody.
type deaf struct {
	context.Context
	ended atomic.Bool
}

func (*deaf) Done() <-chan struct{} { return nil }

func (d *deaf) Err() error {
	if d.ended.Load() {
		return context.Canceled
	}
	return nil
}
