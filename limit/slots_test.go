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
	// backoff: query: not started: budget refused (Policy.Budget)
	// <nil>
}

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

// Neither does a limit of sleeping calls that refuses none, however many are
// abandoned.
func TestSleepingWithoutALimitForgetsCallsThatWereAbandoned(t *testing.T) {
	sleeping, now := limit.Sleeping{Max: -1}, time.Now()
	before := heapInUse()
	for range 300_000 {
		now = now.Add(time.Second)
		sleeping.Reserve(backoff.Attempt{Number: 2, Now: now})
	}
	require.Less(t, int64(heapInUse()-before), int64(1<<20))
	runtime.KeepAlive(&sleeping)
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
