package backoff_test

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
)

var (
	firstOne  = backoff.Attempt{Number: 1, Kind: backoff.AttemptFirst}
	secondOne = backoff.Attempt{Number: 2, Kind: backoff.AttemptRetry}
)

func failing(context.Context) error { return errCut }

func TestInFlightLetsAtMostMaxAttemptsBeUnderWay(t *testing.T) {
	const callers, most = 64, 8
	inFlight := backoff.InFlight{Max: most}
	p := backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(time.Microsecond), Budget: &inFlight}
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
	require.Zero(t, inFlight.Load())
}

func TestInFlightFreesAPlaceOnceHoweverOftenDoneIsCalled(t *testing.T) {
	inFlight := backoff.InFlight{Max: 2}
	first, _, _ := inFlight.Reserve(firstOne)
	second, _, _ := inFlight.Reserve(firstOne)
	inFlight.Done(first, backoff.Result{})
	inFlight.Done(first, backoff.Result{})
	require.Equal(t, 1, inFlight.Load())
	_, _, ok := inFlight.Reserve(firstOne)
	require.True(t, ok)
	_, _, ok = inFlight.Reserve(firstOne)
	require.False(t, ok, "the second is still under way")
	inFlight.Done(second, backoff.Result{Outcome: backoff.OutcomeNotSent})
	require.Equal(t, 1, inFlight.Load())
}

func TestInFlightCountsAnAttemptThatHangsForAsLongAsItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inFlight := backoff.InFlight{Max: 2}
		p := backoff.Policy{Budget: &inFlight}
		hanging := make(chan struct{})
		go p.Do(t.Context(), func(context.Context) error { <-hanging; return nil })
		time.Sleep(24 * time.Hour)
		require.Equal(t, 1, inFlight.Load())
		require.NoError(t, p.Do(t.Context(), func(context.Context) error {
			require.ErrorIs(t, p.Do(t.Context(), failing), backoff.ErrBudget)
			return nil
		}), "the other place is as good as new")
		close(hanging)
		synctest.Wait()
		require.Zero(t, inFlight.Load())
	})
}

func TestThoseAsleepHoldNoPlaceInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inFlight := backoff.InFlight{Max: 1}
		p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, Budget: &inFlight}
		var calls sync.WaitGroup
		for range 1000 {
			calls.Go(func() { p.Do(t.Context(), failing) })
			synctest.Wait()
			require.Zero(t, inFlight.Load())
		}
		require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
		calls.Wait()
		require.Zero(t, inFlight.Load())
	})
}

func TestARetryThatFindsNoPlaceInFlightEndsTheCallWithItsOwnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inFlight := backoff.InFlight{Max: 1}
		p := backoff.Policy{Name: "call", Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Budget: &inFlight}
		go func() {
			time.Sleep(time.Millisecond) // while the other sleeps
			p.Do(t.Context(), func(ctx context.Context) error { return hold(ctx, time.Minute) })
		}()
		err := p.Do(t.Context(), failing)
		require.EqualError(t, err, "backoff: call: gave up after 1 attempt in 1s: budget refused: connection cut")
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorIs(t, err, errCut)
		require.Equal(t, 1, inFlight.Load(), "the place is the other's")
		time.Sleep(2 * time.Minute)
	})
}

// Contract row 69.
func TestInFlightRefusesAtOnceAndQueuesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 10
		inFlight := backoff.InFlight{Max: places}
		p := backoff.Policy{Budget: &inFlight}
		ctx, cancel := context.WithCancel(t.Context())
		for range places {
			go p.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}
		synctest.Wait()
		began, goroutines := time.Now(), runtime.NumGoroutine()
		for range 10_000 {
			require.ErrorIs(t, p.Do(ctx, func(context.Context) error { panic("called") }), backoff.ErrBudget)
		}
		require.Zero(t, time.Since(began))
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
		require.Equal(t, places, inFlight.Load())
		cancel()
	})
}

func TestRefusalsByACapAllocateNothing(t *testing.T) {
	for _, c := range []struct {
		full backoff.Budget
		a    backoff.Attempt
	}{{&backoff.InFlight{Max: 1}, firstOne}, {&backoff.Pending{Max: 1}, secondOne}} {
		_, _, ok := c.full.Reserve(c.a)
		require.True(t, ok)
		require.Zero(t, testing.AllocsPerRun(10_000, func() {
			_, _, ok = c.full.Reserve(c.a)
		}))
		require.False(t, ok)
	}
}

func TestACapUnderChurnGrowsNoMemory(t *testing.T) {
	inFlight, pending := backoff.InFlight{Max: 64}, backoff.Pending{Max: 64}
	b := backoff.JoinBudgets(&inFlight, &pending)
	churn := func() {
		ticket, _, _ := b.Reserve(secondOne)
		b.(backoff.Confirmer).Confirm(ticket)
		b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeTransient})
	}
	churn()
	require.Zero(t, testing.AllocsPerRun(100_000, churn))
	require.Zero(t, inFlight.Load()+pending.Load())
}

func TestInFlightGivesAHedgeItsPlaceAtOnce(t *testing.T) {
	inFlight := backoff.InFlight{Max: 1}
	ticket, _, ok := inFlight.Reserve(backoff.Attempt{Number: 2, Kind: backoff.AttemptHedge})
	require.True(t, ok)
	require.True(t, inFlight.Confirm(ticket), "and once only")
	require.Equal(t, 1, inFlight.Load())
}

func TestPendingLetsAtMostMaxCallsBeAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pending := backoff.Pending{Max: 3}
		p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, Budget: &pending}
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
		require.Equal(t, 3, pending.Load())
		calls.Wait()
		require.Equal(t, map[time.Duration]int{0: 7, time.Minute: 3}, ends)
		require.Zero(t, pending.Load())
	})
}

func TestACallIsNotPendingWhileItsAttemptRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pending backoff.Pending
		p := backoff.Policy{Budget: &pending}
		p.Do(t.Context(), func(context.Context) error {
			require.Zero(t, pending.Load())
			return errCut
		})
	})
}

// 1000 calls a second, and an outage: with waits of 30 s there are 30,000 goroutines asleep.
func TestPendingBoundsTheGoroutinesOfAnOutage(t *testing.T) {
	asleep := func(budget backoff.Budget) (peak int64) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p := backoff.Policy{Schedule: backoff.Constant(30 * time.Second), Jitter: backoff.NoJitter, MaxAttempts: 2, Budget: budget}
			var calls sync.WaitGroup
			var alive atomic.Int64
			for range 31_000 {
				calls.Go(func() {
					alive.Add(1)
					defer alive.Add(-1)
					p.Do(ctx, failing)
				})
				time.Sleep(time.Millisecond)
				peak = max(peak, alive.Load())
			}
			cancel()
			calls.Wait()
		})
		return peak
	}
	without, with := asleep(nil), asleep(new(backoff.Pending))
	t.Logf("goroutines of calls: at most %d without a cap, %d with one of 1000", without, with)
	require.InDelta(t, 30_000, without, 10)
	require.LessOrEqual(t, with, int64(1001), "one of them is on its way out")
}

func TestPendingFreesThePlacesOfThoseWhoWereCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var pending backoff.Pending
		p := backoff.Policy{Schedule: backoff.Constant(time.Hour), Budget: &pending}
		for range 1000 {
			go p.Do(ctx, failing)
		}
		synctest.Wait()
		require.Equal(t, 1000, pending.Load())
		cancel()
		synctest.Wait()
		require.Zero(t, pending.Load())
	})
}

// As gax does it: it asks the Run how long to pause, and never says that it left.
func TestPendingForgetsThoseWhoNeverSayThatTheyLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pending := backoff.Pending{Max: 2}
		p := backoff.Policy{Budget: &pending}
		leave := func() bool {
			_, ok := p.Start(t.Context()).Retry(errCut)
			return ok
		}
		require.True(t, leave())
		time.Sleep(time.Minute)
		require.True(t, leave())
		require.False(t, leave())
		require.Equal(t, 2, pending.Load())
		time.Sleep(9*time.Minute - 1)
		require.False(t, leave())
		time.Sleep(time.Nanosecond)
		require.True(t, leave(), "the first has left 10 minutes ago")
		require.False(t, leave(), "the second has not")
		time.Sleep(10*time.Minute - 1)
		require.Equal(t, 1, pending.Load())
		time.Sleep(time.Nanosecond)
		require.Zero(t, pending.Load())
		require.True(t, leave())
		time.Sleep(10 * time.Minute)
		require.Zero(t, pending.Load(), "the last of them, too")
	})
}

func TestPendingFreesAPlaceOnceHoweverOftenDoneIsCalled(t *testing.T) {
	pending := backoff.Pending{Max: 2}
	first, _, _ := pending.Reserve(secondOne)
	pending.Reserve(secondOne)
	require.True(t, pending.Confirm(first))
	pending.Done(first, backoff.Result{})
	pending.Done(first, backoff.Result{})
	require.Equal(t, 1, pending.Load())
	none, _, ok := pending.Reserve(firstOne)
	require.True(t, ok, "a first attempt does not sleep")
	pending.Done(none, backoff.Result{})
	require.Equal(t, 1, pending.Load())
}

func TestCapsMakeNobodyWait(t *testing.T) {
	for _, b := range []backoff.Budget{new(backoff.InFlight), new(backoff.Pending)} {
		for _, a := range []backoff.Attempt{firstOne, secondOne} {
			_, wait, ok := b.Reserve(a)
			require.True(t, ok)
			require.Zero(t, wait)
		}
	}
}

func TestCapsHaveDefaultsAndNegativeMeansNoLimit(t *testing.T) {
	granted := func(b backoff.Budget, a backoff.Attempt) (n int) {
		for range 5000 {
			if _, _, ok := b.Reserve(a); ok {
				n++
			}
		}
		return n
	}
	require.Equal(t, 100, granted(new(backoff.InFlight), firstOne))
	require.Equal(t, 1000, granted(new(backoff.Pending), secondOne))
	require.Equal(t, 7, granted(&backoff.InFlight{Max: 7}, firstOne))
	require.Equal(t, 7, granted(&backoff.Pending{Max: 7}, secondOne))
	require.Equal(t, 5000, granted(&backoff.InFlight{Max: -1}, firstOne))
	require.Equal(t, 5000, granted(&backoff.Pending{Max: -1}, secondOne))
}

func TestCapsJoinWithARetryBudgetAndLeakNothingIntoIt(t *testing.T) {
	for _, c := range []struct {
		name              string
		inFlight, pending int
		refused, granted  int // calls that ErrBudget ended, and retries that were made
	}{
		{"all agree", -1, -1, 0, 100},
		{"pending refuses", -1, 10, 90, 10},
		{"departures are refused", 10, -1, 90, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				retries := backoff.RetryBudget{Ratio: 1}
				inFlight, pending := backoff.InFlight{Max: c.inFlight}, backoff.Pending{Max: c.pending}
				p := backoff.Policy{
					MaxAttempts: 2, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter,
					Budget: backoff.JoinBudgets(&retries, &pending, &inFlight),
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
				require.Zero(t, inFlight.Load())
				require.Zero(t, pending.Load())
			})
		})
	}
}

// Whoever comes while two are at it is told at once, and nobody waits.
func ExampleInFlight() {
	atOnce := backoff.InFlight{Max: 2}
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
	// backoff: query: not started: budget refused
	// <nil>
}

// In an outage calls pile up asleep. One that would be too many gets its error at once.
func ExamplePending() {
	asleep := backoff.Pending{Max: 10}
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

// A window is a budget of the user's own: attempts may be made while it is open, which must be
// known when they are made, and not when the sleep before them begins.
type window struct{ open bool }

func (w *window) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, a.Kind == backoff.AttemptRetry || w.open
}

func (w *window) Confirm(backoff.Ticket) bool { return w.open }

func (w *window) Done(_ backoff.Ticket, r backoff.Result) {
	if r.Outcome == backoff.OutcomeNotSent {
		fmt.Println("not sent")
	}
}

func ExampleConfirmer() {
	maintenance := &window{open: true}
	policy := backoff.Policy{Name: "upload", Schedule: backoff.Constant(time.Millisecond), Budget: maintenance}

	err := policy.Do(context.Background(), func(context.Context) error {
		maintenance.open = false // while this attempt runs
		return errors.New("connection reset")
	})
	fmt.Println(errors.Is(err, backoff.ErrBudget))
	// Output:
	// not sent
	// true
}
