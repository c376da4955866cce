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

func TestConcurrencyReleasesASlotOnceHoweverOftenDoneIsCalled(t *testing.T) {
	concurrency := limit.Concurrency{Max: 2}
	first, _, _ := concurrency.Reserve(firstAttempt)
	second, _, _ := concurrency.Reserve(firstAttempt)
	concurrency.Done(first, backoff.Result{})
	concurrency.Done(first, backoff.Result{})
	require.Equal(t, 1, concurrency.Load())
	_, _, ok := concurrency.Reserve(firstAttempt)
	require.True(t, ok)
	_, _, ok = concurrency.Reserve(firstAttempt)
	require.False(t, ok, "the second is still under way")
	concurrency.Done(second, backoff.Result{Outcome: backoff.OutcomeNotSent})
	require.Equal(t, 1, concurrency.Load())
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

func TestARetryThatFindsNoSlotOfConcurrencyEndsTheCallWithItsOwnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		concurrency := limit.Concurrency{Max: 1}
		p := backoff.Policy{Name: "call", Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Budget: &concurrency}
		go func() {
			time.Sleep(time.Millisecond) // while the other sleeps
			p.Do(t.Context(), func(ctx context.Context) error { return hold(ctx, time.Minute) })
		}()
		err := p.Do(t.Context(), failing)
		require.EqualError(t, err, "backoff: call: gave up after 1 attempt: budget refused (Policy.Budget): connection cut")
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorIs(t, err, errCut)
		require.Equal(t, 1, concurrency.Load(), "the slot is that of the other call")
		time.Sleep(2 * time.Minute)
	})
}

func TestConcurrencyRefusesAtOnceAndQueuesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 10
		concurrency := limit.Concurrency{Max: slots}
		p := backoff.Policy{Budget: &concurrency}
		ctx, cancel := context.WithCancel(t.Context())
		for range slots {
			go p.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}
		synctest.Wait()
		began, goroutines := time.Now(), runtime.NumGoroutine()
		for range 10_000 {
			require.ErrorIs(t, p.Do(ctx, func(context.Context) error { panic("called") }), backoff.ErrBudget)
		}
		require.Zero(t, time.Since(began))
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
		require.Equal(t, slots, concurrency.Load())
		cancel()
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
	// backoff: query: not started: budget refused (Policy.Budget)
	// <nil>
}
