package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// downFor is an operation that fails until so much time has passed.
func downFor(d time.Duration, calls *int) func(context.Context) error {
	start := time.Now()
	return func(context.Context) error {
		*calls++
		if time.Since(start) < d {
			return errDown
		}
		return nil
	}
}

var errDown = errors.New("down")

// impatient opens at the second failure in a row, for exactly a minute, and
// closes at the first success.
func impatient() *backoff.Breaker {
	return &backoff.Breaker{ConsecutiveFailures: 2, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, ProbeSuccesses: 1}
}

// The other way round: inside the loop the breaker hears every
// attempt, and its refusal ends the call with the service's last error and its
// own.
func TestAnOpenBreakerInsideEndsTheCallWithBothErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		policy := &backoff.Policy{Name: "fetch", MaxAttempts: 10, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		err := layers(policy, impatient()).Do(t.Context(), downFor(time.Hour, &calls))

		require.Equal(t, 2, calls, "the third was refused")
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorIs(t, err, errDown)
		gave := gaveUp(t, err)
		require.Equal(t, backoff.ReasonOpen, gave.Reason)
		require.Equal(t, 2, gave.Attempts)
		open := refusedBy(t, err)
		require.Equal(t, 59*time.Second, open.RetryAfter())

		outer := 0
		err = (&backoff.Policy{}).Do(t.Context(), func(context.Context) error { outer++; return err })
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, 1, outer, "it is final to the loops around")
	})
}

// waitingFor is an operation under a breaker, whose refusals the policy around
// it waits for.
func waitingFor(breaker *backoff.Breaker, op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := breaker.Do(ctx, op)
		if errors.Is(err, backoff.ErrOpen) {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return err
	}
}

func TestAPolicyWaitsExactlyUntilTheCircuitMayBeTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		clerk := new(clerk)
		policy := &backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Budget: clerk}
		err := policy.Do(t.Context(), waitingFor(impatient(), downFor(30*time.Second, &calls)))

		require.NoError(t, err)
		require.Equal(t, 3, calls, "the refusal was no attempt")
		require.Equal(t, time.Minute+time.Second, time.Since(start), "a second's wait, and a minute after the second failure")
		const failed, unsent = backoff.OutcomeTransient, backoff.OutcomeNotSent
		require.Equal(t, []backoff.Outcome{failed, failed, unsent, backoff.OutcomeSuccess}, clerk.told, "and took no token")
	})
}

// The first refusal says when to ask again. That time is over when the last one
// ends the call.
func TestACallThatWaitedForACircuitReturnsTheLastRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := &backoff.Breaker{OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}
		breaker.Trip()
		time.AfterFunc(59*time.Second, func() { breaker.Reset(); breaker.Trip() })
		policy := &backoff.Policy{MaxRetryAfter: 90 * time.Second}
		err := policy.Do(t.Context(), waitingFor(breaker, downFor(time.Hour, new(int))))
		open := refusedBy(t, err)
		require.Equal(t, 59*time.Second, open.RetryAfter())
	})
}

// An attempt timeout that ends a call of an inner policy is the outer policy's,
// which goes on: it was its own doing.
func TestAnOuterAttemptTimeoutAroundAPolicyIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		outer := &backoff.Policy{MaxAttempts: 3, AttemptTimeout: time.Second, Schedule: backoff.Constant(0)}
		inner := &backoff.Policy{MaxAttempts: 5, Schedule: backoff.Constant(400 * time.Millisecond), Jitter: backoff.NoJitter}
		err := layers(outer, inner).Do(t.Context(), downFor(time.Hour, &calls))
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 3*3, calls, "three attempts of the outer one, each with time for three of the inner")
	})
}

// The caller's own deadline is another matter.
func TestAnInnerPolicyThatRunsIntoTheCallersDeadlineEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		inner := &backoff.Policy{MaxAttempts: 5, Schedule: backoff.Constant(400 * time.Millisecond), Jitter: backoff.NoJitter}
		for _, outer := range []*backoff.Policy{{}, {AttemptTimeout: time.Hour}} {
			calls = 0
			require.ErrorIs(t, layers(outer, inner).Do(ctx, downFor(time.Hour, &calls)), context.DeadlineExceeded)
			require.LessOrEqual(t, calls, 3)
		}
	})
}

// What an inner policy gave up on was no answer that could pay for retries.
func TestAnInnerPolicysGivingUpPaysNoBudget(t *testing.T) {
	clerk := new(clerk)
	outer := &backoff.Policy{Budget: clerk}
	inner := &backoff.Policy{Schedule: backoff.Constant(0)}
	calls := 0
	require.Error(t, layers(outer, inner).Do(t.Context(), downFor(time.Hour, &calls)))
	require.Equal(t, []backoff.Outcome{backoff.OutcomeTransient}, clerk.told)
}

// The types of this package, and one that it has never seen, for DoValue to
// serve alike.
func doers() map[string]backoff.Doer {
	policy := &backoff.Policy{Schedule: backoff.Constant(0)}
	foreign := doer(func(ctx context.Context, op func(context.Context) error) error {
		for range 3 {
			if op(ctx) == nil {
				return nil
			}
		}
		return op(ctx)
	})
	return map[string]backoff.Doer{
		"policy": policy, "foreign": foreign,
		"foreign inside": layers(&backoff.Policy{MaxAttempts: 1}, foreign), "foreign outside": layers(foreign, &backoff.Policy{MaxAttempts: 1}),
	}
}

func TestDoValueReturnsTheLastValue(t *testing.T) {
	for name, d := range doers() {
		for _, failures := range []int{0, 2, 9} {
			n := 0
			value, err := backoff.DoValue(t.Context(), d, func(context.Context) (string, error) {
				if n++; n <= failures {
					return fmt.Sprint("failure ", n), errBoom
				}
				return fmt.Sprint("success ", n), nil
			})
			switch failures {
			case 9:
				require.ErrorIs(t, err, errBoom, name)
				require.Equal(t, "failure 4", value, name)
			default:
				require.NoError(t, err, name)
				require.Equal(t, fmt.Sprint("success ", failures+1), value, name)
			}
		}
	}
}

func TestDoValueReturnsNothingWhereNothingWasCalled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	value, err := backoff.DoValue(ctx, &backoff.Policy{}, func(context.Context) (*int, error) { return new(int), nil })
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, value)

	refuses := doer(func(context.Context, func(context.Context) error) error { return errFinal })
	value, err = backoff.DoValue(t.Context(), refuses, func(context.Context) (*int, error) { return new(int), nil })
	require.Equal(t, errFinal, err)
	require.Nil(t, value)
}

// A Doer may answer in its own words, and the value still comes back.
func TestAForeignDoersErrorIsReturnedAsItIs(t *testing.T) {
	swallows := doer(func(ctx context.Context, op func(context.Context) error) error { _ = op(ctx); return nil })
	value, err := backoff.DoValue(t.Context(), swallows, func(context.Context) (int, error) { return 7, errBoom })
	require.NoError(t, err)
	require.Equal(t, 7, value)
}

func TestAPanicPassesThroughDoValue(t *testing.T) {
	for name, d := range doers() {
		require.PanicsWithValue(t, "bug", func() {
			_, _ = backoff.DoValue(t.Context(), d, func(context.Context) (int, error) { panic("bug") })
		}, name)
	}
}
