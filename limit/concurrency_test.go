package limit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
)

func TestConcurrencyLetsAtMostMaxAttemptsBeUnderWay(t *testing.T) {
	const callers, most = 64, 8
	concurrency := limit.Concurrency{Max: most}
	p := backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(time.Microsecond), Budget: &concurrency}
	var now, peak, refused atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 200 {
				err := p.Do(t.Context(), func(context.Context) error {
					n := now.Add(1)
					defer now.Add(-1)
					for was := peak.Load(); n > was && !peak.CompareAndSwap(was, n); was = peak.Load() {
					}
					runtime.Gosched()
					return errCut
				})
				if errors.Is(err, backoff.ErrBudget) {
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	t.Logf("at most %d at once, %d of %d calls refused", peak.Load(), refused.Load(), callers*200)
	require.LessOrEqual(t, peak.Load(), int64(most))
	require.NotZero(t, refused.Load())
	require.Zero(t, concurrency.Load())
}

func TestConcurrencyCountsAnAttemptThatHangsForAsLongAsItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		concurrency := limit.Concurrency{Max: 2}
		p := backoff.Policy{Budget: &concurrency}
		hanging := make(chan struct{})
		go p.Do(t.Context(), func(context.Context) error { <-hanging; return nil })
		time.Sleep(24 * time.Hour)
		require.Equal(t, 1, concurrency.Load())
		require.NoError(t, p.Do(t.Context(), func(context.Context) error {
			require.ErrorIs(t, p.Do(t.Context(), failing), backoff.ErrBudget)
			return nil
		}), "the other slot is as good as new")
		close(hanging)
		synctest.Wait()
		require.Zero(t, concurrency.Load())
	})
}

func TestConcurrencyGivesAHedgeItsSlotAtOnce(t *testing.T) {
	concurrency := limit.Concurrency{Max: 1}
	ticket, _, ok := concurrency.Reserve(backoff.Attempt{Number: 2, Hedge: true})
	require.True(t, ok)
	require.Equal(t, 1, concurrency.Load())
	require.True(t, concurrency.Confirm(ticket), "and once only")
	require.Equal(t, 1, concurrency.Load())
}

// A call that comes while two attempts are under way is refused at once.
func ExampleConcurrency() {
	atOnce := limit.Concurrency{Max: 2}
	policy := backoff.Policy{Name: "query", Budget: &atOnce}

	ctx := context.Background()
	query := func(context.Context) error { return nil }
	policy.Do(ctx, func(ctx context.Context) error {
		return policy.Do(ctx, func(ctx context.Context) error {
			fmt.Println(atOnce.Load(), "under way")
			err := policy.Do(ctx, query)
			fmt.Println(err)
			return nil
		})
	})
	fmt.Println(policy.Do(ctx, query))
	// Output:
	// 2 under way
	// backoff: query: not started: budget refused (Budget)
	// <nil>
}

func TestRefusalsForWantOfASlotAllocateNothing(t *testing.T) {
	full := limit.Concurrency{Max: 1}
	_, _, ok := full.Reserve(firstAttempt)
	require.True(t, ok)
	require.Zero(t, testing.AllocsPerRun(10_000, func() { _, _, ok = full.Reserve(firstAttempt) }))
	require.False(t, ok)
}

func TestSlotsThatAreTakenAndReleasedGrowNoMemory(t *testing.T) {
	concurrency := limit.Concurrency{Max: 64}
	churn := func() {
		ticket, _, _ := concurrency.Reserve(aRetry)
		concurrency.Confirm(ticket)
		concurrency.Done(ticket, backoff.Result{Failed: true})
	}
	churn()
	require.Zero(t, testing.AllocsPerRun(100_000, churn))
	require.Zero(t, concurrency.Load())
}

func TestConcurrencyHasADefaultAndNegativeMeansNoLimit(t *testing.T) {
	for most, want := range map[int]int{0: 100, 7: 7, -1: 5000} {
		granted, c := 0, limit.Concurrency{Max: most}
		for range 5000 {
			_, wait, ok := c.Reserve(firstAttempt)
			require.Zero(t, wait, "no call waits for a slot")
			if ok {
				granted++
			}
		}
		require.Equal(t, want, granted)
	}
}
