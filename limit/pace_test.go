package limit_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
)

// paced are the limits that space attempts, at 10 a second.
var paced = map[string]func() backoff.Budget{
	"Rate": func() backoff.Budget { return tenPerSecond() },
	"joined": func() backoff.Budget {
		return backoff.JoinBudgets(tenPerSecond(), &limit.Concurrency{})
	},
}

// eachPaced runs a test with each of paced, in virtual time.
func eachPaced(t *testing.T, test func(t *testing.T, b backoff.Budget)) {
	for name, open := range paced {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, open()) })
		})
	}
}

func tenPerSecond() *limit.Rate { return &limit.Rate{Limiter: rate.NewLimiter(10, 1)} }

// A service that is down tells everybody to come back at the same time. Their
// retries have waited for that, and not for the rate.
func TestCallsThatAreToldToComeBackAtTheSameTimeComeBackAtTheRate(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		back := time.Now().Add(time.Minute)
		p := backoff.Policy{Budget: b, MaxAttempts: 2, Jitter: backoff.NoJitter}
		var mu sync.Mutex
		var retried []time.Duration
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				told := false
				require.NoError(t, p.Do(t.Context(), func(context.Context) error {
					if !told {
						told = true
						return backoff.RetryExactlyAfter(errCut, time.Until(back))
					}
					mu.Lock()
					retried = append(retried, time.Since(back))
					mu.Unlock()
					time.Sleep(time.Second) // the next ones come while it is running
					return nil
				}))
			})
			time.Sleep(200 * time.Millisecond)
		}
		calls.Wait()
		require.Len(t, retried, 100)
		for i, at := range retried {
			require.InDelta(t, time.Duration(i)*100*time.Millisecond, at, 100_000)
		}
	})
}

// Nobody else waits for the token of a retry that waits for its own reasons.
func TestARetryTakesNoTokenBeforeItsBackoffIsOver(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		var waiting []backoff.Ticket
		for range 100 {
			ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 2, Wait: time.Minute})
			require.True(t, ok)
			require.Zero(t, wait)
			waiting = append(waiting, ticket)
		}
		got, _ := reserve(t, b, 2)
		require.Equal(t, seconds(0, 0.1), got)
		giveBack(b, waiting...)

		_, wait, _ := b.Reserve(backoff.Attempt{Number: 2, Wait: 200 * time.Millisecond})
		require.Equal(t, 200*time.Millisecond, wait, "in the line, as the line is as long as the backoff")
		got, _ = reserve(t, b, 1)
		require.Equal(t, seconds(0.3), got)
	})
}

func TestARetryThatThePaceWouldKeepTooLongEndsAtOnceAndGivesTheTokenBack(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		p := backoff.Policy{Budget: b, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, MaxElapsed: 1500 * time.Millisecond}
		time.AfterFunc(time.Second-time.Nanosecond, func() { reserve(t, b, 9) }) // 0.9 s of line
		began := time.Now()
		err := p.Do(t.Context(), failing)
		var gave *backoff.Error
		require.ErrorAs(t, err, &gave)
		require.Equal(t, backoff.ReasonElapsed, gave.Reason)
		require.ErrorIs(t, err, errCut)
		require.Equal(t, time.Second, time.Since(began))
		got, _ := reserve(t, b, 1)
		require.InDelta(t, 900*time.Millisecond, got[0], 10)
	})
}

func TestARetryCancelledWhileItKeepsThePaceGivesTheTokenBack(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		ctx, cancel := context.WithCancel(t.Context())
		p := backoff.Policy{Budget: b, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		time.AfterFunc(time.Second-time.Nanosecond, func() { reserve(t, b, 9) })
		time.AfterFunc(1500*time.Millisecond, cancel)
		require.ErrorIs(t, p.Do(ctx, failing), context.Canceled)
		got, _ := reserve(t, b, 1)
		require.InDelta(t, 400*time.Millisecond, got[0], 10)
	})
}

func TestARetryEndsWhereTheLimiterWasShutDuringItsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tenPerSecond()
		p := backoff.Policy{Budget: backoff.JoinBudgets(new(limit.Concurrency), b), Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		time.AfterFunc(500*time.Millisecond, func() {
			b.Limiter.SetLimit(0)
			b.Limiter.Allow()
		})
		err := p.Do(t.Context(), failing)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorIs(t, err, errCut)
		b.Limiter.SetLimit(10)
		got, _ := reserve(t, b, 1)
		require.Equal(t, seconds(0.1), got, "and owes nothing")
	})
}

// A caller with a loop of its own may sleep itself, and never ask. Its retries
// are paid for when they have been made.
func TestARetryThatDidNotKeepThePaceIsPaidForAfterwards(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		p := backoff.Policy{Budget: b, MaxAttempts: -1, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		for range 5 { // at the same time
			r := p.Start(t.Context())
			_, ok := r.Tried(errCut)
			require.True(t, ok)
			defer r.Tried(nil)
			time.AfterFunc(time.Second, func() { r.Tried(errCut) })
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got, _ := reserve(t, b, 1)
		require.Equal(t, seconds(0.5), got)
	})
}

func TestARetryThatDidNotKeepThePaceIsPaidForAtItsOwnCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for told, want := range map[int]time.Duration{0: 500 * time.Millisecond, 3: 500 * time.Millisecond, 7: 700 * time.Millisecond} {
			b := &limit.Rate{Limiter: rate.NewLimiter(10, 10)}
			ticket, _, ok := b.Reserve(backoff.Attempt{Number: 2, Cost: 5, Wait: time.Minute})
			require.True(t, ok)
			b.Limiter.AllowN(time.Now(), 9) // the tenth is for the last one in the line
			b.Done(ticket, backoff.Result{Cost: told})
			got, _ := reserve(t, b, 1)
			require.Equal(t, want, got[0], "a cost of 5, and of %d in the end", told)
		}
	})
}

func TestPaceAnswersHowMuchOfTheWaitForATokenIsLeft(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		left := func(ticket backoff.Ticket) time.Duration {
			same, wait, ok := b.Pace(ticket)
			require.True(t, ok)
			require.Equal(t, ticket, same)
			return wait
		}
		_, tickets := reserve(t, b, 3)
		for _, ticket := range []backoff.Ticket{tickets[0], {}, {Word: 99}} {
			require.Zero(t, left(ticket), "it has its token, or needs none")
		}
		for _, want := range seconds(0.2, 0.15, 0.1, 0.05, 0, 0) {
			require.Equal(t, want, left(tickets[2]))
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func sixPerSecond() *limit.Rate { return &limit.Rate{Limiter: rate.NewLimiter(6, 1)} }

// held runs a test with a Rate of 6 a second joined with a HoldOff, in both
// orders, and with more members than a Ticket has room for.
func held(t *testing.T, test func(t *testing.T, b backoff.Budget, hold *pace.HoldOff)) {
	for order, join := range map[string]func(r, h backoff.Budget) backoff.Budget{
		"rate first": func(r, h backoff.Budget) backoff.Budget { return backoff.JoinBudgets(r, h) },
		"hold first": func(r, h backoff.Budget) backoff.Budget { return backoff.JoinBudgets(h, r) },
		"among others": func(r, h backoff.Budget) backoff.Budget {
			unlimited := &limit.Rate{Limiter: rate.NewLimiter(rate.Inf, 0)}
			return backoff.JoinBudgets(&limit.Concurrency{}, &limit.Concurrency{}, r, h, &limit.Throttle{}, unlimited)
		},
	} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := new(pace.HoldOff)
				test(t, join(sixPerSecond(), hold), hold)
			})
		})
	}
}

// callers makes calls, every so often, and returns when they went, once all
// have.
func callers(t *testing.T, b backoff.Budget, n int, every time.Duration) (went []time.Duration) {
	p := backoff.Policy{Budget: b}
	began := time.Now()
	var mu sync.Mutex
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			require.NoError(t, p.Do(t.Context(), func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				went = append(went, time.Since(began))
				return nil
			}))
		})
		time.Sleep(every)
	}
	calls.Wait()
	slices.Sort(went)
	return went
}

// requireSpaced requires that all went at 6 a second at most, and none between
// from and to, in which they were held.
func requireSpaced(t *testing.T, went []time.Duration, from, to time.Duration) {
	t.Helper()
	for i, at := range went {
		require.False(t, at > from && at < to, "%v", at)
		if i > 0 {
			require.GreaterOrEqual(t, at-went[i-1], time.Second/6-time.Microsecond, "%v", went)
		}
	}
}

// A hold may begin while they are in the line of the rate, and it may be made
// longer.
func TestCallsThatAreHeldOffWhileTheyWaitGoAtTheRate(t *testing.T) {
	held(t, func(t *testing.T, b backoff.Budget, hold *pace.HoldOff) {
		time.AfterFunc(3*time.Second, func() { hold.Hold(10 * time.Second) })
		time.AfterFunc(12*time.Second, func() { hold.Hold(8 * time.Second) })
		went := callers(t, b, 60, 0)
		requireSpaced(t, went, 3*time.Second, 20*time.Second)
		require.Less(t, went[59], 33*time.Second)
	})
}

func TestCallsThatAreHeldOffTakeNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, hold := sixPerSecond(), new(pace.HoldOff)
		hold.Hold(33 * time.Second)
		go callers(t, backoff.JoinBudgets(b, hold), 30, 0)
		synctest.Wait()
		began := time.Now()
		callers(t, b, 2, 0)
		require.InDelta(t, time.Second/6, time.Since(began), float64(time.Microsecond))
		time.Sleep(time.Minute)
	})
}

func TestCallsThatWaitForASlowRateTakeNoTokenOfAFastOne(t *testing.T) {
	for _, fastFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			fast := &limit.Rate{Limiter: rate.NewLimiter(10, 1)}
			slow := &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
			both := backoff.JoinBudgets(slow, fast)
			if fastFirst {
				both = backoff.JoinBudgets(fast, slow)
			}
			var went []time.Duration
			var others sync.WaitGroup
			others.Go(func() { went = callers(t, both, 10, 0) })
			synctest.Wait()
			began := time.Now()
			callers(t, fast, 2, 0)
			require.Equal(t, 200*time.Millisecond, time.Since(began))
			others.Wait()
			require.Equal(t, seconds(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), went, "fast first: %v", fastFirst)
		})
	}
}

// Two rates whose lines are both long must not make a call give up its place in
// the one for its place in the other.
func TestACallGetsThroughTwoLongLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &limit.Rate{Limiter: rate.NewLimiter(1, 1)}, &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
		var others sync.WaitGroup
		keepBusy := func(r *limit.Rate, line int) {
			reserve(t, r, line)
			for range 120 {
				time.Sleep(time.Second)
				reserve(t, r, 1)
			}
		}
		others.Go(func() { keepBusy(a, 60) })
		others.Go(func() { keepBusy(b, 30) })
		synctest.Wait()
		began := time.Now()
		callers(t, backoff.JoinBudgets(a, b), 1, 0)
		require.LessOrEqual(t, time.Since(began), 92*time.Second)
		others.Wait()
	})
}

// A hedge takes its slot when it is sent, too, and so does the first attempt of
// a hedged call.
func TestAHedgeThatOnlyWaitsHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		concurrency, slow := &limit.Concurrency{Max: 1}, &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
		slow.Limiter.Allow()
		h := &hedge.Hedge{Delay: time.Hour, Budget: backoff.JoinBudgets(concurrency, slow)}
		go hedge.Value(t.Context(), h, func(context.Context) (int, error) {
			require.Equal(t, 1, concurrency.Load())
			return 0, nil
		}, nil)
		synctest.Wait()
		require.Zero(t, concurrency.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, concurrency.Load())
	})
}
