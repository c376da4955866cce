package backoff_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// Contract row 28: a call costs no goroutine but its caller's, asleep or cancelled.
func TestTenThousandCancelledCallsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, others = 10_000, 10 // goroutines of the runtime and of other tests come and go
		policy := steady(time.Hour)
		policy.AttemptTimeout = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		before := runtime.NumGoroutine()
		var wg sync.WaitGroup
		var cancelled atomic.Int64
		for range calls {
			wg.Go(func() {
				err := policy.Do(ctx, func(context.Context) error { return errBoom })
				if e, ok := err.(*backoff.Error); ok && e.Reason == backoff.ReasonCanceled {
					cancelled.Add(1)
				}
			})
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+calls+others, "none but the callers")

		cancel()
		wg.Wait()
		synctest.Wait()
		require.EqualValues(t, calls, cancelled.Load())
		require.LessOrEqual(t, runtime.NumGoroutine(), before+others)
	})
}

// Contract row 11: a policy is data, and shared as such.
func TestAThousandGoroutinesShareOnePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &backoff.Policy{
			Jitter: backoff.DecorrelatedJitter(time.Second, time.Minute), Idempotency: backoff.Keyed,
			AttemptTimeoutSchedule: backoff.Exponential{}, MaxElapsed: time.Hour, Budget: &ledger{},
			Observer: func(context.Context, backoff.Event) {},
		}
		var wg sync.WaitGroup
		var attempts, exhausted atomic.Int64
		for range 1000 {
			wg.Go(func() {
				err := policy.Do(t.Context(), func(context.Context) error { attempts.Add(1); return errBoom })
				if e, ok := err.(*backoff.Error); ok && e.Attempts == 4 {
					exhausted.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 4000, attempts.Load())
		require.EqualValues(t, 1000, exhausted.Load())
	})
}

// A timer belongs to the bubble it was made in. Waits outside reuse theirs; none may
// find its way into a bubble, nor out of one.
func TestTimersStayInTheirBubble(t *testing.T) {
	policy := steady(time.Microsecond)
	wait := func(t *testing.T) {
		began := time.Now()
		op := returning(errBoom)
		require.ErrorIs(t, policy.Do(t.Context(), op.do), errBoom)
		require.GreaterOrEqual(t, time.Since(began), 3*time.Microsecond)
		require.Len(t, op.at, 4)
		slow := &backoff.Hedge{Budget: &hedgeBudget{grant: func(backoff.Attempt) (time.Duration, bool) { return time.Microsecond, true }}}
		_, err := backoff.HedgeValue(t.Context(), slow, func(context.Context) (int, error) { return 0, nil }, nil)
		require.NoError(t, err)
	}
	for range 3 {
		wait(t)
		synctest.Test(t, wait)
	}
}

// Contract row 129: in a bubble the waits are exact, and cost nothing.
func TestADecadeOfWaitingTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(24 * time.Hour)
		policy.MaxAttempts = 3651
		began := time.Now()
		require.Error(t, policy.Do(t.Context(), func(context.Context) error { return errBoom }))
		require.Equal(t, 3650*24*time.Hour, time.Since(began))
	})
}

// A wait that was cut short leaves nothing that the next one could find: not even a
// tick of the timer.
func TestACancelledWaitDoesNotShortenTheNext(t *testing.T) {
	policy := steady(time.Millisecond)
	policy.MaxAttempts = 2
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		err := policy.Do(ctx, func(context.Context) error {
			time.AfterFunc(200*time.Microsecond, cancel)
			return errBoom
		})
		cancel()
		require.Error(t, err)
		began := time.Now()
		require.ErrorIs(t, policy.Do(t.Context(), returning(errBoom).do), backoff.ErrExhausted)
		require.GreaterOrEqual(t, time.Since(began), time.Millisecond)
	}
}
