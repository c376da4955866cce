package limit_test

import (
	"testing"

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

func TestConcurrencyAndSleepingHaveDefaultsAndNegativeMeansNoLimit(t *testing.T) {
	granted := func(b backoff.Budget, a backoff.Attempt) (n int) {
		for range 5000 {
			_, wait, ok := b.Reserve(a)
			require.Zero(t, wait, "no call waits for a slot")
			if ok {
				n++
			}
		}
		return n
	}
	for most, want := range map[int][2]int{0: {100, 1000}, 7: {7, 7}, -1: {5000, 5000}} {
		require.Equal(t, want[0], granted(&limit.Concurrency{Max: most}, firstAttempt))
		require.Equal(t, want[1], granted(&limit.Sleeping{Max: most}, aRetry))
	}
}
