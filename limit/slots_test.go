package limit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
)

func TestRefusalsForWantOfASlotAllocateNothing(t *testing.T) {
	for _, c := range []struct {
		full backoff.Budget
		a    backoff.Attempt
	}{{&limit.Concurrency{Max: 1}, firstAttempt}, {&limit.Sleeping{Max: 1}, aRetry}} {
		_, _, ok := c.full.Reserve(c.a)
		require.True(t, ok)
		require.Zero(t, testing.AllocsPerRun(10_000, func() {
			_, _, ok = c.full.Reserve(c.a)
		}))
		require.False(t, ok)
	}
}

func TestSlotsThatAreTakenAndReleasedGrowNoMemory(t *testing.T) {
	concurrency, sleeping := limit.Concurrency{Max: 64}, limit.Sleeping{Max: 64}
	b := backoff.JoinBudgets(&concurrency, &sleeping)
	churn := func() {
		ticket, _, _ := b.Reserve(aRetry)
		b.Confirm(ticket)
		b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeTransient})
	}
	churn()
	require.Zero(t, testing.AllocsPerRun(100_000, churn))
	require.Zero(t, concurrency.Load()+sleeping.Load())
}

func TestConcurrencyAndSleepingMakeNoCallWait(t *testing.T) {
	for _, b := range []backoff.Budget{new(limit.Concurrency), new(limit.Sleeping)} {
		for _, a := range []backoff.Attempt{firstAttempt, aRetry} {
			_, wait, ok := b.Reserve(a)
			require.True(t, ok)
			require.Zero(t, wait)
		}
	}
}

func TestConcurrencyAndSleepingHaveDefaultsAndNegativeMeansNoLimit(t *testing.T) {
	granted := func(b backoff.Budget, a backoff.Attempt) (n int) {
		for range 5000 {
			if _, _, ok := b.Reserve(a); ok {
				n++
			}
		}
		return n
	}
	require.Equal(t, 100, granted(new(limit.Concurrency), firstAttempt))
	require.Equal(t, 1000, granted(new(limit.Sleeping), aRetry))
	require.Equal(t, 7, granted(&limit.Concurrency{Max: 7}, firstAttempt))
	require.Equal(t, 7, granted(&limit.Sleeping{Max: 7}, aRetry))
	require.Equal(t, 5000, granted(&limit.Concurrency{Max: -1}, firstAttempt))
	require.Equal(t, 5000, granted(&limit.Sleeping{Max: -1}, aRetry))
}

func TestConcurrencyAndSleepingJoinWithARetryBudgetAndLeakNothingIntoIt(t *testing.T) {
	for _, c := range []struct {
		name                  string
		concurrency, sleeping int
		refused, granted      int // calls that ErrBudget ended, and retries that were made
	}{
		{"all agree", -1, -1, 0, 100},
		{"sleeping refuses", -1, 10, 90, 10},
		{"departures are refused", 10, -1, 90, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				retries := backoff.RetryBudget{Ratio: 1}
				concurrency, sleeping := limit.Concurrency{Max: c.concurrency}, limit.Sleeping{Max: c.sleeping}
				p := backoff.Policy{
					MaxAttempts: 2, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter,
					Budget: backoff.JoinBudgets(&retries, &sleeping, &concurrency),
				}
				require.NoError(t, p.Validate())
				for range 900 { // pay
					require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
				}
				time.Sleep(5 * time.Second)
				var mu sync.Mutex
				refused, granted := 0, 0
				var calls sync.WaitGroup
				for range 100 {
					calls.Go(func() {
						tries := 0
						err := p.Do(t.Context(), func(ctx context.Context) error {
							if tries++; tries > 1 {
								hold(ctx, time.Second) // all of them at once
							}
							return errCut
						})
						mu.Lock()
						defer mu.Unlock()
						granted += tries - 1
						if errors.Is(err, backoff.ErrBudget) {
							refused++
						}
					})
					synctest.Wait() // the first attempts, one after the other
				}
				calls.Wait()
				require.Equal(t, c.refused, refused)
				require.Equal(t, c.granted, granted)
				require.EqualValues(t, c.granted, retries.Stats().Retries, "those that were not made were given back")
				require.Zero(t, concurrency.Load())
				require.Zero(t, sleeping.Load())
			})
		})
	}
}
