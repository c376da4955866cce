package limit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
)

func TestSleepingLetsAtMostMaxCallsBeAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleeping := limit.Sleeping{Max: 3}
		p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, Budget: &sleeping}
		began := time.Now()
		ends := make(map[time.Duration]int)
		var mu sync.Mutex
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				err := p.Do(t.Context(), failing)
				mu.Lock()
				defer mu.Unlock()
				ends[time.Since(began)]++
				require.ErrorIs(t, err, errCut)
				require.Equal(t, time.Since(began) == 0, errors.Is(err, backoff.ErrBudget))
			})
		}
		synctest.Wait()
		require.Equal(t, 3, sleeping.Load())
		calls.Wait()
		require.Equal(t, map[time.Duration]int{0: 7, time.Minute: 3}, ends)
		require.Zero(t, sleeping.Load())
	})
}

func TestACallIsNotSleepingWhileItsAttemptRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sleeping limit.Sleeping
		p := backoff.Policy{Budget: &sleeping}
		p.Do(t.Context(), func(context.Context) error {
			require.Zero(t, sleeping.Load())
			return errCut
		})
	})
}

func TestSleepingReleasesTheSlotsOfCancelledCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var sleeping limit.Sleeping
		p := backoff.Policy{Schedule: backoff.Constant(time.Hour), Budget: &sleeping}
		for range 1000 {
			go p.Do(ctx, failing)
		}
		synctest.Wait()
		require.Equal(t, 1000, sleeping.Load())
		cancel()
		synctest.Wait()
		require.Zero(t, sleeping.Load())
	})
}

// gax abandons calls like this: it asks the Run how long to pause, and does not
// tell when it gives up.
func TestSleepingForgetsCallsThatWereAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleeping := limit.Sleeping{Max: 2}
		p := backoff.Policy{Budget: &sleeping}
		leave := func() bool {
			_, ok := p.Start(t.Context()).Retry(errCut)
			return ok
		}
		require.True(t, leave())
		time.Sleep(time.Minute)
		require.True(t, leave())
		require.False(t, leave())
		require.Equal(t, 2, sleeping.Load())
		time.Sleep(9*time.Minute - 1)
		require.False(t, leave())
		time.Sleep(time.Nanosecond)
		require.True(t, leave(), "the first has left 10 minutes ago")
		require.False(t, leave(), "the second has not")
		time.Sleep(10*time.Minute - 1)
		require.Equal(t, 1, sleeping.Load())
		time.Sleep(time.Nanosecond)
		require.Zero(t, sleeping.Load())
		require.True(t, leave())
		time.Sleep(10 * time.Minute)
		require.Zero(t, sleeping.Load(), "the last of them, too")
	})
}

func TestSleepingReleasesASlotOnceHoweverOftenDoneIsCalled(t *testing.T) {
	sleeping := limit.Sleeping{Max: 2}
	first, _, _ := sleeping.Reserve(aRetry)
	sleeping.Reserve(aRetry)
	require.True(t, sleeping.Confirm(first))
	sleeping.Done(first, backoff.Result{})
	sleeping.Done(first, backoff.Result{})
	require.Equal(t, 1, sleeping.Load())
	for _, awake := range []backoff.Attempt{firstAttempt, {Number: 2, Hedge: true}} {
		none, _, ok := sleeping.Reserve(awake)
		require.True(t, ok, "neither a first attempt nor a hedge sleeps")
		require.Equal(t, 1, sleeping.Load())
		sleeping.Done(none, backoff.Result{})
		require.Equal(t, 1, sleeping.Load())
	}
}

// In an outage many calls sleep. A call that would be one too many gets its
// error at once.
func ExampleSleeping() {
	asleep := limit.Sleeping{Max: 10}
	policy := backoff.Policy{
		Name:        "query",
		MaxAttempts: 2,
		Schedule:    backoff.Constant(50 * time.Millisecond),
		Jitter:      backoff.NoJitter,
		Budget:      &asleep,
	}

	var calls sync.WaitGroup
	var refused atomic.Int64
	for range 100 {
		calls.Go(func() {
			err := policy.Do(context.Background(), func(context.Context) error {
				return errors.New("connection refused")
			})
			if errors.Is(err, backoff.ErrBudget) {
				refused.Add(1)
			}
		})
	}
	calls.Wait()
	fmt.Println(refused.Load(), "calls did not wait")
	// Output: 90 calls did not wait
}
