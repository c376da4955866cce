package backoff_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/internal/results"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
)

// budgetPay tells a budget of n calls that succeeded.
func budgetPay(b backoff.Budget, n int) {
	for range n {
		ticket, _, _ := b.Reserve(backoff.Attempt{Number: 1})
		b.Done(ticket, backoff.Result{})
	}
}

// budgetRetry asks for a retry.
func budgetRetry(b backoff.Budget) (backoff.Ticket, bool) {
	ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 2})
	return ticket, ok && wait == 0
}

// budgetGrants reports whether a budget grants an attempt.
func budgetGrants(b backoff.Budget, a backoff.Attempt) bool {
	_, _, ok := b.Reserve(a)
	return ok
}

// budgetDrain asks for retries until one is refused, at most limit times, and
// returns the tickets of those that were granted.
func budgetDrain(b backoff.Budget, limit int) (tickets []backoff.Ticket) {
	for range limit {
		ticket, ok := budgetRetry(b)
		if !ok {
			break
		}
		tickets = append(tickets, ticket)
	}
	return tickets
}

// Ratios that floats cannot hold: 100 * 0.29 is less than 29, and 1/0.6 was
// truncated elsewhere until 0.6 acted as 1.0.
func TestRetryBudgetAllowsExactlyItsRatio(t *testing.T) {
	for _, c := range []struct {
		ratio float64
		calls int
		want  int // and Floor, 3
	}{
		{0, 100, 12}, {0.1, 100, 10}, {0.29, 100, 29}, {0.33, 100, 33}, {0.6, 100, 60}, {0.7, 100, 70},
		{0.6, 10, 6}, {0.7, 10, 7}, {0.33, 10, 3}, {0.29, 10, 2}, {1, 50, 50}, {2.5, 50, 125}, {1e-6, 100, 0},
	} {
		b := &backoff.RetryBudget{Ratio: c.ratio}
		budgetPay(b, c.calls)
		require.Len(t, budgetDrain(b, 1000), c.want+3, "%v of %d", c.ratio, c.calls)
	}
}

func TestRetryBudgetGivesAClientWithFewCallsOneOfThree(t *testing.T) {
	for calls, want := range map[int]int{3: 1, 6: 2, 8: 3, 9: 4, 12: 4, 30: 6} { // 0.12 of them besides
		b := new(backoff.RetryBudget)
		budgetPay(b, calls)
		require.Len(t, budgetDrain(b, 1000), want, "%d calls", calls)
	}
	b := &backoff.RetryBudget{Floor: 10}
	budgetPay(b, 30)
	require.Len(t, budgetDrain(b, 1000), 13)
	b = &backoff.RetryBudget{Ratio: 1}
	budgetPay(b, 1)
	require.Equal(t, 1, budgetDrainLate(b), "and no spare one")
}

func TestRetryBudgetIsPaidByWhatWasAnswered(t *testing.T) {
	for name, result := range results.ByName {
		b := new(backoff.RetryBudget)
		ticket, _, _ := b.Reserve(backoff.Attempt{Number: 1})
		b.Done(ticket, result)
		require.Equal(t, name == "success" || name == "permanent", b.Stats().Successes == 1, name)
	}
}

// Where nothing is asked of a budget before the first attempt, it must hear of
// its end all the same.
func TestRetryBudgetHearsOfFirstAttempts(t *testing.T) {
	for name, way := range waysToFail {
		b := new(backoff.RetryBudget)
		p := &backoff.Policy{MaxAttempts: 1, Budget: b}
		require.ErrorIs(t, way(t.Context(), p, returning(backoff.Permanent(errFinal)).do), errFinal, name)
		require.EqualValues(t, 1, b.Stats().Successes, "%s: a permanent error is one", name)
		require.ErrorIs(t, way(t.Context(), p, returning(errBoom).do), errBoom, name)
		require.EqualValues(t, 1, b.Stats().Successes, name)
		require.NoError(t, way(t.Context(), p, returning(nil).do), name)
		require.EqualValues(t, 2, b.Stats().Successes, name)
	}
}

// budgetDrainLate is budgetDrain for a budget whose first call has been.
func budgetDrainLate(b backoff.Budget) (granted int) {
	for granted < 100 && budgetGrants(b, backoff.Attempt{Number: 100}) {
		granted++
	}
	return granted
}

func TestRetryBudgetHasASpareRetryAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.RetryBudget)
		require.Equal(t, 1, budgetDrainLate(b))
		for range 2 {
			time.Sleep(time.Hour)
			require.Zero(t, budgetDrainLate(b), "and no more until something succeeds")
			budgetPay(b, 1)
			require.Equal(t, 1, budgetDrainLate(b), "at any time, while it has had few")
		}
		budgetPay(b, 1)
		time.Sleep(time.Minute)
		require.Equal(t, 1, budgetDrainLate(b))
		budgetPay(b, 1)
		time.Sleep(19 * time.Second)
		require.Zero(t, budgetDrainLate(b), "it has had three, and asked within two windows")
	})
}

// A program that makes one call gets what it asked for.
func TestTheFirstCallUnderARetryBudgetMayUseAllOfItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit := 1; limit <= 6; limit++ {
			for failures := range 7 {
				for name, budget := range map[string]backoff.Budget{
					"alone":  new(backoff.RetryBudget),
					"joined": backoff.JoinBudgets(new(clerk), new(backoff.RetryBudget), new(backoff.RetryBudget)),
					"inside": &struct{ backoff.RetryBudget }{},
				} {
					op := returning(append(slices.Repeat([]error{errBoom}, failures), nil)...)
					err := backoff.Policy{MaxAttempts: limit, Budget: budget}.Do(t.Context(), op.do)
					require.Len(t, op.at, min(failures+1, limit), "%s: %d failures, %d attempts", name, failures, limit)
					require.Equal(t, failures < limit, err == nil)
					require.NotErrorIs(t, err, backoff.ErrBudget)
				}
			}
		}
	})
}

// fruitless makes a call that fails, and returns how many attempts it made.
func fruitless(ctx context.Context, p backoff.Policy) (attempts int) {
	_ = p.Do(ctx, func(context.Context) error { attempts++; return errBoom })
	return attempts
}

func TestRetryBudgetGivesAllAttemptsOnceInItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := backoff.Policy{MaxAttempts: 5, Budget: new(backoff.RetryBudget)}
		require.Equal(t, 5, fruitless(t.Context(), p))
		require.Equal(t, 1, fruitless(t.Context(), p))
		time.Sleep(time.Hour)
		require.Equal(t, 1, fruitless(t.Context(), p))
		for range 2 {
			budgetPay(p.Budget, 1)
			require.Equal(t, 2, fruitless(t.Context(), p), "the spare one")
		}

		p.Budget = new(backoff.RetryBudget)
		budgetPay(p.Budget, 3)
		time.Sleep(time.Minute)
		require.Equal(t, 2, fruitless(t.Context(), p), "a client that has had three successes has not just started")
		p.Budget, p.MaxAttempts = new(backoff.RetryBudget), -1
		require.Equal(t, 4, fruitless(t.Context(), p), "without a limit, as by default: the budget must end the call")
	})
}

func TestOfFirstCallsAtOnceOneMayUseAllOfItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			p := backoff.Policy{MaxAttempts: 6, Budget: new(backoff.RetryBudget)}
			var most, retries atomic.Int64
			together(10, func(int) {
				n := int64(fruitless(t.Context(), p))
				retries.Add(n - 1)
				if n == 6 {
					most.Add(1)
				}
			})
			require.EqualValues(t, 1, most.Load())
			require.LessOrEqual(t, retries.Load(), int64(6), "of one call, and the spare one")
		}
	})
}

func TestWhatTheFirstCallDoesNotMakeIsThereForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := backoff.Policy{MaxAttempts: 6, Budget: new(backoff.RetryBudget), Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		for range 20 { // ended in the wait before the fourth attempt
			require.LessOrEqual(t, fruitless(cancelledAfter(t, 2500*time.Millisecond), p), 3)
		}
		b := p.Budget
		p.Budget = backoff.JoinBudgets(b, new(clerk))
		require.Equal(t, 1, fruitless(t.Context(), p), "two retries were made")
		for range 20 { // refused by the other one, in the end
			require.False(t, budgetGrants(backoff.JoinBudgets(b, refusing(4)), backoff.Attempt{Number: 4, MaxAttempts: 6}))
		}
		for n := 4; n <= 6; n++ {
			require.True(t, budgetGrants(b, backoff.Attempt{Number: n, MaxAttempts: 6}), "%d", n)
		}
		require.False(t, budgetGrants(b, backoff.Attempt{Number: 7, MaxAttempts: 6}))
	})
}

// Progress starts the attempts again, but not those that the budget gives.
func TestAFirstCallThatProgressesHasItsAttemptsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := backoff.Policy{MaxAttempts: 4, Budget: new(backoff.RetryBudget)}.Start(t.Context())
		attempts := 0
		for range r.Attempts() {
			attempts++
			r.Progress()
			r.Fail(errBoom)
		}
		require.Equal(t, 4, attempts)
		require.ErrorIs(t, r.Err(), backoff.ErrBudget)
	})
}

func TestRetryBudgetDoneMayComeTwiceOrNever(t *testing.T) {
	b := &backoff.RetryBudget{Ratio: 30}
	budgetPay(b, 100)
	ticket, _ := budgetRetry(b)
	b.Done(ticket, backoff.Result{})
	b.Done(ticket, backoff.Result{})
	b.Done(ticket, backoff.Result{NotSent: true})
	require.Equal(t, backoff.RetryBudgetStats{Successes: 101, Retries: 1, Allowed: 3030 + 3 + 3, Rate: 101}, b.Stats())

	first, _, _ := b.Reserve(backoff.Attempt{Number: 1})
	b.Done(first, backoff.Result{})
	b.Done(first, backoff.Result{})
	require.Equal(t, uint64(103), b.Stats().Successes, "a first attempt counts twice")

	old, _ := budgetRetry(b)
	require.Len(t, budgetDrain(b, 1200), 1200) // their Done never comes
	b.Done(old, backoff.Result{NotSent: true})
	require.Equal(t, uint64(1202), b.Stats().Retries, "too long ago to be given back")
	b.Done(old, backoff.Result{})
	require.Equal(t, uint64(104), b.Stats().Successes, "but it was paid for")
}

func TestRetryBudgetRefusesBeforeTheSleepAndKeepsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := backoff.Policy{Budget: new(backoff.RetryBudget), MaxAttempts: -1, Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}
		begin := time.Now()
		err := p.Do(t.Context(), returning(errBoom).do)
		requireIs(t, err, backoff.ErrBudget, errBoom)
		require.Equal(t, 3*time.Minute, time.Since(begin), "the attempts of the first call, and no wait after them")
	})
}

// A service that is down gets no more than a tenth on
// top.
func TestRetryBudgetBoundsTheLoadOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := backoff.Policy{Budget: new(backoff.RetryBudget), Schedule: backoff.Constant(time.Millisecond)}
		down, attempts := false, 0
		call := func() {
			_ = p.Do(t.Context(), func(context.Context) error {
				attempts++
				if down {
					return errors.New("down")
				}
				return nil
			})
			time.Sleep(10 * time.Millisecond)
		}
		for range 6000 {
			call()
		}
		down, attempts = true, 0
		for range 6000 {
			call()
		}
		require.LessOrEqual(t, float64(attempts)/6000, 1.1)
	})
}

func TestTheTimeOfAnAttemptIsItsCallersOrThatOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := time.Now().Add(-time.Second)
		require.Equal(t, read, backoff.Attempt{Now: read}.Time())
		require.Equal(t, time.Now(), backoff.Attempt{}.Time())
	})
}

func TestRetryBudgetIsNotMovedByAClockThatIsSet(t *testing.T) {
	b := new(backoff.RetryBudget)
	budgetPay(b, 100)
	require.Len(t, budgetDrain(b, 1000), 15)
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		require.False(t, budgetGrants(b, backoff.Attempt{Number: 2, Now: clocktest.Set(time.Now(), step)}), "set by %v", step)
		require.Equal(t, backoff.RetryBudgetStats{Successes: 100, Retries: 15, Allowed: 15, Rate: 100}, b.Stats())
	}
}

func TestRetryBudgetGoesOnWhereTimeGoesBack(t *testing.T) {
	b := new(backoff.RetryBudget)
	now := time.Now().Round(0) // no monotonic reading
	ask := func() bool { return budgetGrants(b, backoff.Attempt{Number: 2, Now: now}) }
	budgetPay(b, 100)
	for range 15 {
		require.True(t, ask())
	}
	now = now.Add(-time.Hour)
	require.False(t, ask())
	fresh := new(backoff.RetryBudget)
	budgetPay(fresh, 100)
	for i := range 15 {
		a := backoff.Attempt{Number: 2, Now: time.Now().Round(0).Add(-time.Duration(min(i, 1)) * 5 * time.Second)}
		require.True(t, budgetGrants(fresh, a), "what was there before is there yet")
	}
	now = now.Add(21 * time.Second)
	budgetPay(b, 100)
	require.True(t, ask(), "not after an hour, but after a window")
}

// The bound of docs/retrybudget.md, for any sequence of calls, waits and
// refusals, and for every interval. Why its first three terms hold:
//
// One window. Look at the last retry of the interval. When it was granted, the
// retries in its window cost at most allowed, and each at least 1. That is at
// most Ratio times what the window counts as paid, plus three times what it
// counts as won, plus Floor.
//
// All windows. Go back to the last retry before that window, and so on until
// the windows cover the interval. Each reaches at least 0.9 Window back, so
// there are at most 1 + T/(0.9*Window), and no bucket is in two of them. The
// bound allows one more: a caller can bring an old reading of the clock, and
// then the window moves back.
//
// The age of a success. The budget does not read the clock for a success. When
// it looks, it spreads the successes since its last look evenly over that time.
// So a success may count as younger than it is, but not as younger than the
// first look after it. Only the first retry in a bucket must look, so paid
// reaches back to Window/10 before asked. The end of a retry counts at once, in
// the bucket of the last look.
func TestRetryBudgetHoldsItsBoundInEveryInterval(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			b := &backoff.RetryBudget{Ratio: []float64{0, 0.1, 0.5, 2}[seed%4], Floor: []int{0, 1, 10}[seed%3], Window: 10 * time.Second}
			log := budgetHistory{ratio: max(0.12*float64(1-min(1, seed%4)), b.Ratio), floor: float64(max(3*(1-min(1, int(seed%3))), b.Floor)), window: b.Window}
			begin := time.Now()
			for range 250 {
				now := time.Since(begin)
				switch random.IntN(4) {
				case 0:
					n := random.IntN(30)
					budgetPay(b, n)
					for range n {
						log.paid = append(log.paid, now)
					}
				case 1, 2:
					for range 1 + random.IntN(8) {
						log.asked = append(log.asked, now)
						late := random.IntN(4) == 0
						ticket, _, ok := b.Reserve(backoff.Attempt{Number: 2 + random.IntN(5), MaxAttempts: 6, TimedOut: late})
						took := time.Duration(1+random.IntN(100)) * time.Millisecond
						switch {
						case !ok:
						case random.IntN(4) == 0:
							b.Done(ticket, backoff.Result{NotSent: true})
						case random.IntN(4) == 0:
							log.granted = append(log.granted, now)
							b.Done(ticket, backoff.Result{Took: took})
							log.paid = append(log.paid, now)
							log.win(now, late)
						default:
							log.granted = append(log.granted, now)
							b.Done(ticket, backoff.Result{Failed: true, TimedOut: random.IntN(2) == 1, Took: took})
						}
					}
				default:
					time.Sleep(time.Duration(math.Pow(10, 4.5*random.Float64()) * float64(time.Millisecond)))
				}
			}
			log.check(t)
		})
	}
}

// A budgetHistory is what happened, in order of time.
type budgetHistory struct {
	ratio, floor         float64
	window               time.Duration
	paid, asked, granted []time.Duration
	won                  []time.Duration // once for each part of the price
}

// win notes a retry that succeeded.
func (h *budgetHistory) win(now time.Duration, late bool) {
	h.won = append(h.won, slices.Repeat([]time.Duration{now}, priceOf(late))...)
}

// priceOf is the price of a retry, which may follow a timeout.
func priceOf(late bool) int {
	if late {
		return 3
	}
	return 1
}

// check holds every interval that begins and ends with a retry to the bound.
func (h *budgetHistory) check(t *testing.T) {
	t.Helper()
	for i, from := range h.granted {
		since := time.Duration(-1) // a tenth before the last retry that asked a window before
		for _, at := range h.asked {
			if at <= from-h.window {
				since = at - h.window/10
			}
		}
		for j := i; j < len(h.granted); j++ {
			to := h.granted[j]
			counted, within, won := between(h.paid, since, to), between(h.paid, from, to), between(h.won, from-h.window, to)
			spare, first := within+1, 0.0
			if between(h.paid, 0, from) < 3 {
				first = 6 - 1
			}
			bound := h.ratio*counted + 3*won + h.floor*(2+(to-from).Seconds()/(0.9*h.window.Seconds())) + spare + first
			if got := float64(j - i + 1); got > bound {
				require.Fail(t, "too many retries", "%v from %v to %v, bound %v (%v calls)", got, from, to, bound, counted)
			}
		}
	}
}

// between returns how many of the events, in order of time, are in an interval
// that includes its ends.
func between(events []time.Duration, from, to time.Duration) float64 {
	first, _ := slices.BinarySearch(events, from)
	next, _ := slices.BinarySearch(events, to+1)
	return float64(next - first)
}

// The budget of a service that gets much slower: less is allowed, and what was
// left to grant is taken back.
func TestUnderStrainARetryBudgetGrantsWhatItsRatioAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.RetryBudget)
		call := func(r backoff.Result) {
			ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1})
			require.True(t, ok)
			b.Done(ticket, r)
			time.Sleep(100 * time.Millisecond)
		}
		for range 1000 {
			call(backoff.Result{Took: 10 * time.Millisecond})
		}
		ticket, ok := budgetRetry(b)
		require.True(t, ok, "and there are 14 left")
		require.False(t, b.Stats().Strained)
		for !b.Stats().Strained {
			call(backoff.Result{Took: 200 * time.Millisecond})
		}
		paid := b.Stats().Successes
		require.Equal(t, paid*12/100, b.Stats().Allowed, "no floor")
		b.Done(ticket, backoff.Result{})
		require.Equal(t, (paid+1)*12/100, b.Stats().Allowed, "nor does a retry that succeeds pay")
		require.Len(t, budgetDrain(b, 100), int((paid+1)*12/100)-1)

		for range 50 {
			call(backoff.Result{Failed: true, TimedOut: true, Took: time.Second})
		}
		require.Zero(t, b.Stats().Allowed, "heavy strain")
		require.Empty(t, budgetDrain(b, 100))
		time.Sleep(30 * time.Second)
		require.False(t, b.Stats().Strained)
		budgetPay(b, 3)
		require.Len(t, budgetDrain(b, 100), 1)
	})
}

// A fleet of clients that seldom call must not retry all at once, either.
func TestUnderStrainThereIsNoSpareRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.RetryBudget)
		call := func(took time.Duration) {
			time.Sleep(time.Minute)
			b.Done(backoff.Ticket{}, backoff.Result{Took: took})
		}
		for range 100 {
			call(10 * time.Millisecond)
		}
		for !b.Stats().Strained {
			call(time.Second)
		}
		b.Done(backoff.Ticket{}, backoff.Result{Failed: true, TimedOut: true, Took: time.Second})
		time.Sleep(7 * time.Second)
		require.Empty(t, budgetDrain(b, 10), "less than half of the pause is over")
		time.Sleep(time.Minute)
		require.Len(t, budgetDrain(b, 10), 1)
	})
}

func TestARetryWhoseTimeIsUnknownTellsNothingOfStrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.RetryBudget)
		for range 100 {
			budgetPay(b, 10)
			ticket, ok := budgetRetry(b)
			require.True(t, ok)
			b.Done(ticket, backoff.Result{})
			time.Sleep(time.Second)
		}
		for range 20 {
			b.Done(backoff.Ticket{}, backoff.Result{Took: time.Second})
			require.False(t, b.Stats().Strained)
			time.Sleep(time.Second)
		}
	})
}

// One success in 10 pays for no retry after a timeout. Such a caller has its
// spare retry, by a chance of one in four.
func TestARetryAfterATimeoutCostsThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := backoff.Attempt{Number: 2, TimedOut: true}
		b := new(backoff.RetryBudget)
		budgetPay(b, 100)
		for range 5 {
			require.True(t, budgetGrants(b, late))
		}
		require.Empty(t, budgetDrain(b, 1))
		ticket, _, ok := b.Reserve(late)
		require.False(t, ok)
		require.Zero(t, ticket.Word)

		granted := 0
		for range 400 {
			budgetPay(b, 3) // which allow one retry, at a price of 1
			time.Sleep(time.Duration(59_000_000_000 + rand.Int64N(2_000_000_000)))
			if budgetGrants(b, late) {
				granted++
			}
		}
		require.InDelta(t, 100, granted, 35)
	})
}

// Success after success, each with a time, from many goroutines beside retries.
func TestRetryBudgetMeasuresWhileOthersRetry(t *testing.T) {
	b := new(backoff.RetryBudget)
	p := backoff.Policy{Budget: b, Schedule: backoff.Constant(0)}
	together(16, func(int) {
		for i := range 300 {
			first := []error{errBoom, nil, nil}[i%3]
			_ = p.Do(t.Context(), returning(first, nil).do)
			b.Stats()
		}
	})
	require.GreaterOrEqual(t, b.Stats().Successes, uint64(16*300*2/3))
}

// A run under Supervise that lasts an hour is not a slow answer.
func TestALongRunUnderSuperviseIsNoStrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.RetryBudget)
		runs := 0
		ctx, cancel := context.WithCancel(t.Context())
		_ = superviseReady(backoff.Policy{Budget: b, MaxAttempts: -1}, ctx, func(_ context.Context, ready func()) error {
			if runs++; runs == 50 {
				cancel()
			}
			ready()
			time.Sleep(time.Duration(runs*runs) * time.Minute)
			return errBoom
		})
		require.False(t, b.Stats().Strained)
	})
}

// A retry that succeeds pays for three, at its own price. A hedge does
// not, because the attempt beside it might have succeeded as well, nor does a
// retry after the server said "too much".
func TestARetryThatSucceedsPaysForItselfAndMore(t *testing.T) {
	for name, c := range map[string]struct {
		a    backoff.Attempt
		r    backoff.Result
		want uint64
	}{
		"retry":     {backoff.Attempt{Number: 2}, backoff.Result{}, 6},
		"timeout":   {backoff.Attempt{Number: 2, TimedOut: true}, backoff.Result{}, 18},
		"permanent": {backoff.Attempt{Number: 2}, backoff.Result{Failed: true, Class: backoff.ClassPermanent}, 6},
		"throttled": {backoff.Attempt{Number: 2, Class: backoff.ClassThrottled}, backoff.Result{}, 0},
		"hedge":     {backoff.Attempt{Number: 2, Hedge: true}, backoff.Result{}, 0},
		"failed":    {backoff.Attempt{Number: 2}, backoff.Result{Failed: true}, 0},
		"canceled":  {backoff.Attempt{Number: 2}, backoff.Result{Failed: true, Canceled: true}, 0},
	} {
		b := &backoff.RetryBudget{Floor: 10}
		budgetPay(b, 100)
		allowed := b.Stats().Allowed
		for range 2 {
			ticket, _, ok := b.Reserve(c.a)
			require.True(t, ok)
			b.Done(ticket, c.r)
			b.Done(ticket, c.r)
		}
		require.Equal(t, allowed+c.want, b.Stats().Allowed, name) // two more successes make 102, and nothing of that
	}
}

func TestRetryBudgetDoesNotOverdrawUnder64Goroutines(t *testing.T) {
	b := new(backoff.RetryBudget)
	var paid, made, unused atomic.Int64
	together(64, func(worker int) {
		for i := range 300 {
			if i%3 == 0 {
				paid.Add(1)
				budgetPay(b, 1)
			}
			ticket, ok := budgetRetry(b)
			switch {
			case !ok:
			case (worker+i)%5 == 0:
				unused.Add(1)
				b.Done(ticket, backoff.Result{NotSent: true})
				b.Done(ticket, backoff.Result{NotSent: true})
			default:
				made.Add(1)
			}
		}
	})
	stats := b.Stats()
	require.Equal(t, uint64(paid.Load()), stats.Successes)
	require.EqualValues(t, made.Load(), stats.Retries)
	require.GreaterOrEqual(t, int64(stats.Allowed), paid.Load()*12/100+3)
	require.LessOrEqual(t, stats.Retries, stats.Allowed)
	require.LessOrEqual(t, int64(stats.Allowed), paid.Load()*12/100+3+2+3, "and the spare ones of the start")
	require.Positive(t, unused.Load())
	rest := int64(len(budgetDrain(b, 10_000)))
	require.GreaterOrEqual(t, made.Load()+rest, int64(stats.Allowed), "what was not used is there again")
	require.LessOrEqual(t, made.Load()+rest, int64(stats.Allowed)+2+3)
}

func TestRetryBudgetAllocatesNothing(t *testing.T) {
	b := &backoff.RetryBudget{Ratio: 10}
	budgetPay(b, 1000)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		budgetPay(b, 1)
		ticket, _ := budgetRetry(b)
		b.Done(ticket, backoff.Result{NotSent: true})
		budgetRetry(b)
	}))
	p, op := backoff.Policy{Budget: b}, func(context.Context) error { return nil }
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = p.Do(t.Context(), op) }))
}

func TestRetryBudgetValidate(t *testing.T) {
	for want, b := range map[string]*backoff.RetryBudget{
		"backoff: RetryBudget is nil": nil,
		"backoff: RetryBudget.Ratio is -0.1, want a number of retries per success":          {Ratio: -0.1},
		"backoff: RetryBudget.Ratio is NaN, want a number of retries per success":           {Ratio: math.NaN()},
		"backoff: RetryBudget.Ratio is +Inf, want a number of retries per success":          {Ratio: math.Inf(1)},
		"backoff: RetryBudget.Ratio is 1.0000005e+06, want a number of retries per success": {Ratio: 1e6 + 0.5},
		"backoff: RetryBudget.Window is -1ns, want 0 or more":                               {Window: -1},
		"backoff: RetryBudget.Floor is -1, want 0 or more":                                  {Floor: -1},
	} {
		require.EqualError(t, b.Validate(), want)
		p := backoff.Policy{Budget: b}
		called := false
		err := p.Do(t.Context(), func(context.Context) error { called = true; return nil })
		if b == nil {
			want = "backoff: Policy.Budget holds a nil pointer"
		}
		require.EqualError(t, err, want)
		require.False(t, called)
	}
	require.NoError(t, new(backoff.RetryBudget).Validate())
	require.NoError(t, (&backoff.RetryBudget{Ratio: 1e6}).Validate())
}

// A budgetModel is the rules of RetryBudget with nothing clever about it: every
// event in a list, by the number of its bucket. A retry looks what there is to
// pay for it if it is the first of a bucket, or if of what the last look found
// nothing is left.
type budgetModel struct {
	ratio         float64
	floor         int
	window        time.Duration
	origin        time.Time
	begin         time.Duration // of the buckets; -1 before the first
	good, bad     []int64
	own           []int64 // spare retries, and those of the first call
	won           []int64 // retries that succeeded
	earned, dated int
	current       int64
	left          int   // retries that need not look
	asked         int64 // the bucket of the last look; -1 before the first
	settled       int
	spent         bool
	spares        int // granted
	lead          int // retries of the call that has got furthest
}

func (m *budgetModel) pay(now time.Duration) {
	if m.begin < 0 {
		m.begin = now
	}
	m.earned++
}

// number is that of the bucket that now is in.
func (m *budgetModel) number(now time.Duration) int64 {
	if m.begin < 0 {
		m.begin = now
	}
	return int64((now - m.begin) / (m.window / 10))
}

// date puts the successes since the last look into buckets, evenly.
func (m *budgetModel) date(now time.Duration) {
	number := m.number(now)
	fresh := m.earned - m.dated
	m.dated = m.earned
	buckets := min(number-m.current, 11)
	if steps := number - m.current; steps > 11 {
		fresh = int(float64(fresh) * 11 / float64(steps))
	}
	m.current = number
	for back := range buckets {
		for range fresh / int(buckets) {
			m.good = append(m.good, number-back)
		}
	}
	rest := fresh
	if buckets > 0 {
		rest = fresh % int(buckets)
	}
	for range rest {
		m.good = append(m.good, number)
	}
}

// lately counts the events of the last ten buckets.
func (m *budgetModel) lately(events []int64) (n int) {
	for _, bucket := range events {
		if bucket > m.current-10 {
			n++
		}
	}
	return n
}

func (m *budgetModel) limit() int {
	paid := m.lately(m.good)
	millionths := int(math.Round(m.ratio * 1e6))
	return (paid*millionths + min(paid*1_000_000/3, m.floor*1_000_000) + m.lately(m.won)*3_000_000) / 1_000_000
}

// retry returns whether there may be one that is the attempt with this number
// of a call of four, and how to take it back.
func (m *budgetModel) retry(now time.Duration, number int, late bool) (back func(), ok bool) {
	price := priceOf(late)
	if m.left >= price && m.number(now) == m.current {
		m.left -= price
		return m.count(&m.bad, price), true
	}
	m.date(now)
	calm := m.asked < 0 || m.current-m.asked > 20 // two windows between their buckets
	m.asked = m.current
	limit := m.limit()
	m.left = max(0, limit-m.lately(m.bad))
	if m.left >= price {
		m.left -= price
		return m.count(&m.bad, price), true
	}
	young := m.earned < 3
	poor := limit < price && (!late || m.lucky(now))
	if poor && m.settled != m.earned {
		m.settled, m.spent = m.earned, false
	}
	if poor && (calm || young) && !m.spent {
		m.spent = true
		m.spares++
		back, number := m.count(&m.own, 1), m.spares
		return func() {
			back()
			if number == m.spares { // or the spare retries of calls that wait for long would add up
				m.spent, m.asked = false, -1
			}
		}, true
	}
	if young && number <= 4 && number-1 > m.lead {
		m.lead = number - 1
		back := m.count(&m.own, 1)
		return func() { back(); m.lead-- }, true
	}
	return nil, false
}

// lucky is the draw of one in four, which is one of the time.
func (m *budgetModel) lucky(now time.Duration) bool {
	return uint64(m.origin.Add(now).UnixNano())*0x9e3779b97f4a7c15>>62 == 0
}

// count counts a retry at its price among others, and returns how to take it
// back.
func (m *budgetModel) count(retries *[]int64, price int) (back func()) {
	bucket := m.current
	for range price {
		*retries = append(*retries, bucket)
	}
	return func() {
		for range price {
			if i := slices.Index(*retries, bucket); i >= 0 && bucket >= m.current-10 {
				*retries = slices.Delete(*retries, i, i+1)
			}
		}
	}
}

// stats counts the retries of the last eleven buckets, so that none of the
// window is left out.
func (m *budgetModel) stats() backoff.RetryBudgetStats {
	older := func(bucket int64) bool { return bucket < m.current-10 }
	m.bad, m.own, m.won = slices.DeleteFunc(m.bad, older), slices.DeleteFunc(m.own, older), slices.DeleteFunc(m.won, older)
	return backoff.RetryBudgetStats{
		Successes: uint64(m.lately(m.good)),
		Retries:   uint64(len(m.bad) + len(m.own)),
		Allowed:   uint64(m.limit() + len(m.own)),
	}
}

// FuzzRetryBudget runs a budget and the model of it side by side. Each byte of
// the script is a step: a success, a retry, the end of one, or some time.
func FuzzRetryBudget(f *testing.F) {
	f.Add([]byte("ppprrrppppppppppprrrrr"), 0.12, 3)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 6, 10, 3, 1, 1, 254, 0, 1, 1, 1, 2, 6}, 0.6, 1)
	f.Add([]byte{1, 1, 1, 255, 1, 0, 255, 1, 1, 0, 0, 0, 255, 1, 2, 2, 1}, 0.29, 0)
	f.Add([]byte("0"), 0.12, -62)
	f.Add([]byte("01X\xec\xbb011S\x7f1O1X\x9b1\xe310#1C\x8b\x9f1220\xf37C\x8b0\xcf101o1#0C20{0102\xa32\x8e"+
		"\xba001\xab\xec1\xf30C1720220122w22221o10\x871\xb300C\xf81\xff\xcf0#1\xc21W1\xc7\xd310#120"+
		"S1\xff222722{1\xa621[W221\xa3\xa7101\xdf101G1\x97001\xd310C172\xdf221\xe2127122c0021c001c0"+
		"01"), 75.12, 89)
	f.Add([]byte("0"), -51.4, -70)
	f.Add([]byte("1"), 0.0, 1)
	f.Fuzz(compareBudget)
}

func TestRetryBudgetAgreesWithItsModel(t *testing.T) {
	t.Parallel()
	for seed := range nightly.Size[uint64](500, 20_000) {
		random := rand.New(rand.NewPCG(seed, 11))
		script := make([]byte, 20+random.IntN(150))
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		compareBudget(t, script, []float64{0, 0.1, 0.29, 1}[seed%4], []int{0, 1, 10}[seed%3])
	}
}

func compareBudget(t *testing.T, script []byte, ratio float64, floor int) {
	b := &backoff.RetryBudget{Ratio: ratio, Floor: floor}
	if b.Validate() != nil || ratio > 100 || floor > 100 || len(script) > 500 {
		return
	}
	m := &budgetModel{ratio: cmp.Or(ratio, 0.12), floor: cmp.Or(floor, 3), window: 10 * time.Second, begin: -1, asked: -1}
	synctest.Test(t, func(t *testing.T) {
		pair := &budgetPair{budget: b, model: m, began: time.Now()}
		m.origin = pair.began
		for i, step := range script {
			pair.step(t, i, step)
		}
		m.date(time.Since(pair.began))
		stats := b.Stats()
		if stats.Rate, stats.Latency = 0, 0; stats != m.stats() {
			t.Fatalf("%+v, the model says %+v", stats, m.stats())
		}
	})
}

// budgetPair is a budget beside its model, and the retries under way, latest
// last: their tickets, and how the model takes them back.
type budgetPair struct {
	budget  *backoff.RetryBudget
	model   *budgetModel
	began   time.Time
	tickets []backoff.Ticket
	backs   []func()
	prices  []int
}

func (p *budgetPair) step(t *testing.T, i int, step byte) {
	now := time.Since(p.began)
	switch step % 4 {
	case 0:
		for range 1 + step/64 {
			budgetPay(p.budget, 1)
			p.model.pay(now)
		}
	case 1:
		number, late := 2+int(step/64), step/4%4 == 3
		ticket, _, got := p.budget.Reserve(backoff.Attempt{Number: number, MaxAttempts: 4, TimedOut: late})
		back, want := p.model.retry(now, number, late)
		if got != want {
			t.Fatalf("step %d at %v: granted %v, the model says %v (%+v)", i, now, got, want, p.model)
		}
		if got {
			p.tickets, p.backs, p.prices = append(p.tickets, ticket), append(p.backs, back), append(p.prices, priceOf(late))
		}
	case 2:
		if len(p.tickets) > 0 {
			p.end(now, step < 128)
		}
	case 3:
		time.Sleep(time.Duration(math.Pow(1.1, float64(step)/2) * float64(10*time.Millisecond)))
	}
}

// end settles the latest retry, twice: the second time counts for nothing.
func (p *budgetPair) end(now time.Duration, unsent bool) {
	last := len(p.tickets) - 1
	if unsent {
		p.budget.Done(p.tickets[last], backoff.Result{NotSent: true})
		p.backs[last]()
	} else {
		p.budget.Done(p.tickets[last], backoff.Result{})
		p.model.pay(now)
		p.model.count(&p.model.won, p.prices[last])
	}
	p.budget.Done(p.tickets[last], backoff.Result{NotSent: true})
	p.tickets, p.backs, p.prices = p.tickets[:last], p.backs[:last], p.prices[:last]
}

func TestAJoinedBudgetHoldsAttemptsIfOneOfItsMembersDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := new(pace.HoldOff), new(pace.HoldOff)
		all := backoff.JoinBudgets(new(backoff.RetryBudget), backoff.JoinBudgets(first, new(backoff.RetryBudget)), second)
		all.(interface{ Hold(time.Duration) }).Hold(time.Minute)
		for _, b := range []backoff.Budget{all, first, second} {
			_, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
			require.True(t, ok)
			require.GreaterOrEqual(t, wait, time.Minute)
		}
		_, holds := backoff.JoinBudgets(new(backoff.RetryBudget)).(interface{ Hold(time.Duration) })
		require.False(t, holds)
	})
}

func TestJoinBudgetsAsksInOrderAndGivesBackInReverse(t *testing.T) {
	var log []string
	a := &spacer{name: "a", log: &log, asked: 10, waits: []time.Duration{time.Second}}
	b := &spacer{name: "b", log: &log, asked: 20, waits: []time.Duration{time.Minute}}
	c := &spacer{name: "c", log: &log, asked: 30, waits: []time.Duration{time.Millisecond, -1}}
	all := backoff.JoinBudgets(a, backoff.JoinBudgets(nil, b), nil, c)

	ticket, wait, ok := all.Reserve(backoff.Attempt{Number: 1})
	require.True(t, ok)
	require.Equal(t, time.Minute, wait, "the longest")
	require.True(t, all.(interface{ Confirm(backoff.Ticket) bool }).Confirm(ticket))
	all.Done(ticket, backoff.Result{Failed: true, TimedOut: true})
	require.Equal(t, []string{"a: reserve after 0s: 1s true", "b: reserve after 1s: 1m0s true", "c: reserve after 1m0s: 1ms true",
		"a: depart 11", "b: depart 21", "c: depart 31", "c: done 31: timeout", "b: done 21: timeout", "a: done 11: timeout"}, log)

	log = nil
	_, wait, ok = all.Reserve(backoff.Attempt{Number: 1})
	require.False(t, ok)
	require.Zero(t, wait)
	require.Equal(t, []string{"a: reserve after 0s: 0s true", "b: reserve after 0s: 0s true", "c: reserve after 0s: 0s false",
		"b: done 22: not sent", "a: done 12: not sent"}, log, "c granted nothing")

	log, a.stay = nil, true
	require.False(t, all.(interface{ Confirm(backoff.Ticket) bool }).Confirm(ticket))
	require.Equal(t, []string{"a: depart 11"}, log)
}

func TestAllOfNothingGrantsEverything(t *testing.T) {
	for _, all := range []backoff.Budget{backoff.JoinBudgets(), backoff.JoinBudgets(nil, nil), backoff.JoinBudgets(backoff.JoinBudgets())} {
		ticket, wait, ok := all.Reserve(backoff.Attempt{Number: 2})
		require.True(t, ok)
		require.Zero(t, wait)
		all.Done(ticket, backoff.Result{})
		require.NoError(t, (&backoff.Policy{Budget: all}).Validate())
	}
}

func TestJoinBudgetsValidatesEachOfItsBudgets(t *testing.T) {
	b := func() backoff.Budget { return new(backoff.RetryBudget) }
	five := backoff.JoinBudgets(backoff.JoinBudgets(b(), b()), backoff.JoinBudgets(b(), b()), b())
	p := backoff.Policy{Budget: five}
	require.NoError(t, p.Validate())
	require.NoError(t, five.Validate())

	p.Budget = backoff.JoinBudgets(b(), &backoff.RetryBudget{Floor: -1})
	require.ErrorContains(t, p.Validate(), "RetryBudget.Floor is -1")
	p.Budget = backoff.JoinBudgets(b(), (*backoff.RetryBudget)(nil))
	require.ErrorContains(t, p.Validate(), "JoinBudgets: Budget holds a nil pointer")
	p.Budget = backoff.JoinBudgets(&spacer{name: "a", log: new([]string)}) // that has no Validate
	require.NoError(t, p.Validate())
}

func TestAllHoldsTheBoundsOfItsMembersTogether(t *testing.T) {
	strict, loose := &backoff.RetryBudget{Ratio: 0.1}, &backoff.RetryBudget{Ratio: 0.5}
	all := backoff.JoinBudgets(loose, strict)
	budgetPay(all, 100)
	require.Len(t, budgetDrain(all, 1000), 13)
	require.Equal(t, uint64(13), loose.Stats().Retries, "what the strict one refused was given back")
	require.Equal(t, uint64(100), strict.Stats().Successes)
}

func ExampleRetryBudget() {
	budget := new(backoff.RetryBudget) // one per service, shared by all that call it
	fetch := backoff.Policy{Name: "fetch", Budget: budget, Schedule: backoff.Constant(0)}

	attempts := 0
	var err error
	for range 100 {
		err = fetch.Do(context.Background(), func(context.Context) error {
			attempts++
			return errors.New("down")
		})
	}
	fmt.Println(attempts, "attempts for 100 calls")
	fmt.Println(errors.Is(err, backoff.ErrBudget))
	// Output:
	// 103 attempts for 100 calls
	// true
}

func ExampleJoinBudgets() {
	policy := backoff.Policy{Budget: backoff.JoinBudgets(
		new(backoff.RetryBudget), // retries, by success
		new(limit.Throttle),      // all attempts, by what the service accepts
	)}
	fmt.Println(policy.Validate())
	// Output: <nil>
}

func TestABudgetHearsTheClassAndWhatTheServerAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttled := backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassThrottled), time.Second)
		want := []backoff.Result{
			{Failed: true, Class: backoff.ClassThrottled, RetryAfter: time.Second},
			{Failed: true},
			{},
		}
		b := new(clerk)
		require.NoError(t, backoff.Policy{Budget: b}.Do(t.Context(), returning(throttled, errBoom, nil).do))
		require.Equal(t, want, b.results)
	})
}

// doorBudget grants first attempts unasked while it is open.
type doorBudget struct {
	clerk
	open bool
}

func (b *doorBudget) GrantsFirst() bool { return b.open }

func TestABudgetIsAskedForFirstAttemptsOnlyWhileItWantsToBe(t *testing.T) {
	for _, join := range []bool{false, true} {
		b := new(doorBudget)
		p := backoff.Policy{Budget: b}
		if join {
			p.Budget = backoff.JoinBudgets(&doorBudget{open: true}, b)
		}
		for i, open := range []bool{true, false, true, false} {
			b.open = open
			require.NoError(t, p.Do(t.Context(), returning(nil).do))
			require.NoError(t, loop(p.Start(t.Context()), returning(nil).do))
			require.ErrorIs(t, p.Do(t.Context(), returning(backoff.Permanent(errFinal)).do), errFinal)
			require.Len(t, b.asked, (i+1)/2*3)
			require.Len(t, b.results, 3*(i+1), "told of each")
		}
		p.Budget = backoff.JoinBudgets(p.Budget, new(clerk))
		b.open, b.asked = true, nil
		require.NoError(t, p.Do(t.Context(), returning(nil).do))
		require.Len(t, b.asked, 1, "for one of the others wants to be asked")
	}
}

// wrapped is what a user writes to add to a budget.
type wrapped struct{ backoff.Budget }

func TestEachOfManyJoinedBudgetsGetsItsOwnTicket(t *testing.T) {
	var log []string
	member := func(name string) backoff.Budget { return &spacer{name: name, log: &log, asked: uint64(name[0])} }
	for _, all := range []backoff.Budget{
		backoff.JoinBudgets(member("a"), member("b"), member("c"), member("d"), member("e"), member("f")),
		backoff.JoinBudgets(member("a"), wrapped{backoff.JoinBudgets(member("b"), member("c"))},
			wrapped{backoff.JoinBudgets(member("d"), wrapped{backoff.JoinBudgets(member("e"), member("f"))})}),
	} {
		log = nil
		ticket, _, ok := all.Reserve(backoff.Attempt{Number: 2})
		require.True(t, ok)
		require.True(t, all.Confirm(ticket))
		all.Done(ticket, backoff.Result{Failed: true, TimedOut: true})
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			require.Contains(t, log, fmt.Sprintf("%s: depart %d", name, name[0]+1))
			require.Contains(t, log, fmt.Sprintf("%s: done %d: timeout", name, name[0]+1))
		}
		all.Done(backoff.Ticket{}, backoff.Result{}) // of a first attempt that was not asked for
	}
}

func TestABudgetHearsHowLongAnAttemptTookThatItWasAskedFor(t *testing.T) {
	all := maps.Clone(waysToFail)
	all["hedge"] = func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		h := &hedge.Hedge{MaxAttempts: 3, MaxExtraLoad: -1, Budget: p.Budget}
		_, err := hedge.Value(ctx, h, func(ctx context.Context) (int, error) { return 0, op(ctx) }, nil)
		return err
	}
	for way, call := range all {
		bubble(t, way, func(t *testing.T) {
			b, p, n := new(clerk), steady(time.Second), 0
			p.Budget = b
			require.NoError(t, call(t.Context(), p, func(context.Context) error {
				n++
				time.Sleep(time.Duration(n) * time.Millisecond)
				if n < 3 {
					return errBoom
				}
				return nil
			}))
			want := msec(1, 2, 3)
			if way == "Tried" { // without Begin, nobody knows when an attempt began
				want = msec(0, 0, 0)
			}
			require.Equal(t, want, b.took())
		})
	}
}

// A wrapper changes what it replaces, and loses nothing of what it wraps.
func TestAWrapperKeepsWhatItsBudgetDoes(t *testing.T) {
	policy := backoff.Policy{Budget: struct{ backoff.Budget }{&backoff.RetryBudget{Ratio: -1}}}
	require.ErrorContains(t, policy.Validate(), "RetryBudget.Ratio")
	synctest.Test(t, func(t *testing.T) {
		pacer := new(spacer)
		pacer.log, pacer.waits = new([]string), []time.Duration{0}
		policy := backoff.Policy{Budget: struct{ backoff.Budget }{pacer}, Schedule: backoff.Constant(time.Second), MaxAttempts: 2}
		_ = policy.Do(t.Context(), returning(errBoom).do)
		require.Contains(t, fmt.Sprint(*pacer.log), "pace")
	})
}

// An asked budget remembers what it was asked for last.
type asked struct {
	backoff.BudgetDefaults
	last backoff.Attempt
}

func (b *asked) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.last = a
	return backoff.Ticket{}, 0, true
}

func TestABudgetHearsWhenTheCallEnds(t *testing.T) {
	b := new(asked)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{ctx, t.Context()} {
		end, _ := ctx.Deadline()
		p := backoff.Policy{Budget: backoff.JoinBudgets(b, new(backoff.RetryBudget))}
		require.NoError(t, p.Do(ctx, func(context.Context) error { return nil }))
		require.Equal(t, end, b.last.Deadline)
	}
}

// spacer is a Budget with the method Pace that writes down what it is asked.
type spacer struct {
	backoff.BudgetDefaults

	name  string
	log   *[]string
	waits []time.Duration // for one attempt after the other; -1 is a refusal
	paces []time.Duration
	asked uint64
	stay  bool // refuses departures
}

func (b *spacer) next(waits *[]time.Duration) (wait time.Duration, ok bool) {
	if len(*waits) == 0 {
		return 0, true
	}
	wait = (*waits)[0]
	*waits = (*waits)[1:]
	return max(0, wait), wait >= 0
}

func (b *spacer) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	wait, ok := b.next(&b.waits)
	*b.log = append(*b.log, fmt.Sprintf("%s: reserve after %v: %v %v", b.name, a.Wait, wait, ok))
	b.asked++
	return backoff.Ticket{Word: b.asked}, wait, ok
}

func (b *spacer) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	wait, ok := b.next(&b.paces)
	*b.log = append(*b.log, fmt.Sprintf("%s: pace %d: %v %v", b.name, t.Word, wait, ok))
	return t, wait, ok
}

func (b *spacer) Done(t backoff.Ticket, r backoff.Result) {
	*b.log = append(*b.log, fmt.Sprintf("%s: done %d: %v", b.name, t.Word, r))
}

func (b *spacer) Confirm(t backoff.Ticket) bool {
	*b.log = append(*b.log, fmt.Sprintf("%s: depart %d", b.name, t.Word))
	return !b.stay
}

// holder is a spacer that makes all attempts wait.
type holder struct{ spacer }

func (*holder) Hold(time.Duration) {}

func TestAJoinedBudgetIsToldHowLongTheOthersMakeAnAttemptWait(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		waits [][]time.Duration // of a budget, another and one that holds
		paced bool
		want  []string
		wait  time.Duration
		ok    bool
	}{
		{[][]time.Duration{{0}, {0}, {0}}, true, []string{
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 0s true", "c: reserve after 0s: 0s true",
		}, 0, true},
		{[][]time.Duration{{0}, {0}, {5 * s}}, true, []string{ // who holds is asked first
			"d: reserve after 0s: 5s true", "b: reserve after 5s: 0s true", "c: reserve after 5s: 0s true",
		}, 5 * s, true},
		{[][]time.Duration{{s, 0}, {3 * s}, {0}}, true, []string{ // who was told less is asked again
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 1s true", "c: reserve after 1s: 3s true",
			"b: done 1: not sent", "b: reserve after 3s: 0s true",
		}, 3 * s, true},
		{[][]time.Duration{{3 * s}, {s}, {0}}, true, []string{
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 3s true", "c: reserve after 3s: 1s true",
		}, 3 * s, true},
		{[][]time.Duration{{s}, {3 * s}, {0}}, false, []string{ // but not for a caller who never comes back
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 1s true", "c: reserve after 1s: 3s true",
		}, 3 * s, true},
		{[][]time.Duration{{s, 4 * s}, {3 * s}, {0}}, true, []string{ // somebody else came between
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 1s true", "c: reserve after 1s: 3s true",
			"b: done 1: not sent", "b: reserve after 3s: 4s true",
		}, 4 * s, true},
		{[][]time.Duration{{s, -1}, {3 * s}, {0}}, true, []string{ // a refusal gives all back
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 1s true", "c: reserve after 1s: 3s true",
			"b: done 1: not sent", "b: reserve after 3s: 0s false", "c: done 1: not sent", "d: done 1: not sent",
		}, 0, false},
	} {
		var log []string
		b, c := &spacer{name: "b", log: &log, waits: row.waits[0]}, &spacer{name: "c", log: &log, waits: row.waits[1]}
		d := &holder{spacer{name: "d", log: &log, waits: row.waits[2]}}
		_, wait, ok := backoff.JoinBudgets(backoff.JoinBudgets(b, c), d).Reserve(backoff.Attempt{Number: 1, Paced: row.paced})
		require.Equal(t, row.want, log)
		require.Equal(t, row.ok, ok)
		require.Equal(t, row.wait, wait)
	}
}

func TestWhatWasGrantedGoesBackWhileAnAttemptIsHeld(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		hold, waits, paces []time.Duration // of the holder's Pace, and of a spacer
		want               []string
		wait               time.Duration
		ok                 bool
	}{
		{[]time.Duration{0}, []time.Duration{s}, []time.Duration{0}, []string{"h: pace 1: 0s true", "b: pace 1: 0s true"}, 0, true},
		{[]time.Duration{9 * s}, []time.Duration{s, 0}, nil, []string{"h: pace 1: 9s true", "b: done 1: not sent", "b: reserve after 9s: 0s true"}, 9 * s, true},
		{[]time.Duration{9 * s}, []time.Duration{s, 12 * s}, nil, []string{"h: pace 1: 9s true", "b: done 1: not sent", "b: reserve after 9s: 12s true"}, 12 * s, true},
		{[]time.Duration{9 * s}, []time.Duration{s, -1}, nil, []string{"h: pace 1: 9s true", "b: done 1: not sent", "b: reserve after 9s: 0s false"}, 9 * s, false},
		{[]time.Duration{-1}, []time.Duration{s}, nil, []string{"h: pace 1: 0s false"}, 0, false},
		{[]time.Duration{0}, []time.Duration{s}, []time.Duration{-1}, []string{"h: pace 1: 0s true", "b: pace 1: 0s false"}, 0, false},
	} {
		var log []string
		h := &holder{spacer{name: "h", log: &log, paces: row.hold}}
		all := backoff.JoinBudgets(&spacer{name: "b", log: &log, waits: row.waits, paces: row.paces}, h)
		ticket, _, ok := all.Reserve(backoff.Attempt{Number: 1, Paced: true})
		require.True(t, ok)
		log = nil
		ticket, wait, ok := all.Pace(ticket)
		require.Equal(t, row.want, log)
		require.Equal(t, row.ok, ok)
		require.Equal(t, row.wait, wait)
		all.Done(ticket, backoff.Result{})
	}
}

// A caller may call Pace for an attempt that had nothing to wait for. While it is
// held, nobody else is asked.
func TestNobodyIsAskedForThePaceOfAnAttemptThatIsHeld(t *testing.T) {
	var log []string
	h := &holder{spacer{name: "h", log: &log, paces: []time.Duration{time.Second, 0}}}
	all := backoff.JoinBudgets(&spacer{name: "b", log: &log}, h)
	ticket, _, _ := all.Reserve(backoff.Attempt{Number: 1, Paced: true})
	for _, want := range []time.Duration{time.Second, 0} {
		_, wait, ok := all.Pace(ticket)
		require.True(t, ok)
		require.Equal(t, want, wait)
	}
	require.Equal(t, []string{"h: reserve after 0s: 0s true", "b: reserve after 0s: 0s true", "h: pace 1: 1s true", "h: pace 1: 0s true", "b: pace 1: 0s true"}, log)
}

func TestBudgetsThatNobodyIsHeldByAllocateNothing(t *testing.T) {
	all := backoff.JoinBudgets(new(backoff.RetryBudget), &limit.Rate{Limiter: rate.NewLimiter(rate.Inf, 0)}, new(pace.HoldOff))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		ticket, _, _ := all.Reserve(backoff.Attempt{Number: 1, Paced: true})
		all.Confirm(ticket)
		all.Done(ticket, backoff.Result{})
	}))
}

// whimsical is a Budget that refuses and waits at random, and checks that what it
// grants comes back.
type whimsical struct {
	backoff.BudgetDefaults

	*testing.T
	refusals float64

	mu     sync.Mutex
	random *rand.Rand
	newest uint64
	out    map[uint64]bool
}

func (b *whimsical) draw() (time.Duration, bool) {
	return time.Duration(max(0, b.random.Float64()-0.5) * 4e9), b.random.Float64() >= b.refusals
}

func (b *whimsical) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait, ok := b.draw()
	if ok {
		b.newest++
		b.out[b.newest] = true
	}
	return backoff.Ticket{Word: b.newest}, wait, ok
}

func (b *whimsical) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	require.True(b, b.out[t.Word])
	wait, ok := b.draw()
	return t, wait, ok
}

func (b *whimsical) Confirm(t backoff.Ticket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	require.True(b, b.out[t.Word])
	_, ok := b.draw()
	return ok
}

func (b *whimsical) Done(t backoff.Ticket, _ backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.out, t.Word)
}

// joinAtRandom returns limits that are joined in any order, with a check of what
// they hold at the end, when so many attempts have been made.
func joinAtRandom(t *testing.T, random *rand.Rand) (all backoff.Budget, running *limit.Concurrency, check func(attempts int)) {
	const burst = 5
	running = &limit.Concurrency{Max: 4}
	limiter := rate.NewLimiter(20, burst)
	odd := &whimsical{T: t, refusals: 0.05 * random.Float64(), random: rand.New(rand.NewPCG(random.Uint64(), 0)), out: map[uint64]bool{}}
	hold, retries := new(pace.HoldOff), &backoff.RetryBudget{Ratio: 1}
	members := []backoff.Budget{running, &limit.Rate{Limiter: limiter}, odd, hold, retries, &limit.Rate{Limiter: rate.NewLimiter(30, 1)}}
	random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	began := time.Now()
	return backoff.JoinBudgets(members...), running, func(attempts int) {
		require.Zero(t, running.Load(), "no slot is lost")
		odd.mu.Lock()
		require.Empty(t, odd.out, "and no grant")
		odd.mu.Unlock()
		require.LessOrEqual(t, float64(attempts), burst+20*time.Since(began).Seconds()+1e-6, "no token is doubled")
		time.Sleep(time.Minute)
		require.InDelta(t, burst, limiter.Tokens(), 1e-6, "and none is lost")
		require.Zero(t, retries.Stats().Retries)
	}
}

// Whatever members are joined, and whatever ends the calls, no token and no slot
// is lost or doubled.
func TestJoinedBudgetsLoseAndDoubleNothing(t *testing.T) {
	for seed := range nightly.Size[uint64](60, 2000) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 29))
			all, running, check := joinAtRandom(t, random)
			var attempts, now atomic.Int64
			op := func(ctx context.Context) error {
				attempts.Add(1)
				require.LessOrEqual(t, now.Add(1), int64(running.Max))
				defer now.Add(-1)
				switch u := rand.Float64(); {
				case u < 0.1:
					return backoff.RetryAfter(errBoom, time.Duration(rand.Float64()*3e9))
				case u < 0.3:
					return errBoom
				case u < 0.35:
					return backoff.OfClass(errBoom, backoff.ClassThrottled)
				}
				time.Sleep(time.Duration(rand.Float64() * 2e8))
				return ctx.Err()
			}
			policy := backoff.Policy{Budget: all, MaxAttempts: 4, Schedule: backoff.Constant(300 * time.Millisecond)}
			hedged := &hedge.Hedge{Budget: all, Delay: 50 * time.Millisecond, MaxExtraLoad: -1}
			var calls sync.WaitGroup
			for i := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Float64()*8e9))
				calls.Go(func() {
					defer cancel()
					switch i % 4 {
					case 0:
						_, _ = hedge.Value(ctx, hedged, func(ctx context.Context) (int, error) { return 0, op(ctx) }, nil)
					case 1:
						_ = supervise(policy, ctx, op)
					case 2:
						_ = loop(policy.Start(ctx), op)
					default:
						if err := policy.Do(ctx, op); err != nil {
							require.False(t, errors.Is(err, context.Canceled))
						}
					}
				})
				time.Sleep(time.Duration(random.Float64() * 1e8))
			}
			calls.Wait()
			time.Sleep(time.Second) // for hedges that lost
			synctest.Wait()
			check(int(attempts.Load()))
		})
	}
}

// late grants each attempt after a wait, and refuses it when that is over.
type late struct {
	backoff.BudgetDefaults

	wait time.Duration
}

func (b late) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, b.wait, true
}
func (late) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	return t, 0, false
}

// However a call is run, its budget is asked about the same attempts.
func TestEveryWayOfRunningAsksABudgetAlike(t *testing.T) {
	begin := func(p backoff.Policy, ctx context.Context, op func(context.Context) error) {
		r := p.Start(ctx)
		attempt, ok := r.Begin(0)
		for ok {
			var wait time.Duration
			if wait, ok = r.Retry(op(attempt)); ok {
				attempt, ok = r.Begin(wait)
			}
		}
	}
	for _, open := range []bool{true, false} {
		for _, results := range [][]error{{nil}, {errBoom, nil}, {errBoom, errBoom}} {
			var want []string
			for name, run := range map[string]func(backoff.Policy, context.Context, func(context.Context) error){
				"Do":       func(p backoff.Policy, ctx context.Context, op func(context.Context) error) { p.Do(ctx, op) },
				"Attempts": func(p backoff.Policy, ctx context.Context, op func(context.Context) error) { loop(p.Start(ctx), op) },
				"Begin":    begin,
			} {
				b := &scribe{open: open}
				p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Nanosecond), Jitter: backoff.NoJitter, Budget: b}
				run(p, t.Context(), returning(results...).do)
				if want == nil {
					want = b.calls
				}
				require.Equal(t, want, b.calls, name)
				require.Equal(t, !open, b.calls[0] == "Reserve", "a first attempt that is granted unasked is only told of")
			}
		}
	}
}

// scribe notes what a budget is asked.
type scribe struct {
	open  bool
	calls []string
}

func (s *scribe) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	s.calls = append(s.calls, "Reserve")
	return backoff.Ticket{Word: 1}, 0, true
}

func (s *scribe) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	s.calls = append(s.calls, "Pace")
	return t, 0, true
}

func (s *scribe) Confirm(t backoff.Ticket) bool {
	s.calls = append(s.calls, "Confirm")
	return t.Word != 0
}

func (s *scribe) Done(t backoff.Ticket, r backoff.Result) {
	s.calls = append(s.calls, fmt.Sprint("Done ", t.Word, " ", r))
}
func (s *scribe) GrantsFirst() bool { return s.open }
func (s *scribe) Validate() error   { return nil }

// retriesOnly does not ask a budget for first attempts.
type retriesOnly struct{ backoff.Budget }

func (retriesOnly) GrantsFirst() bool { return true }

func TestATokenGoesBackIfAnotherBudgetRefusesAfterTheWait(t *testing.T) {
	failing := func(context.Context) error { return errDown }
	for name, call := range map[string]func(ctx context.Context, b backoff.Budget){
		"policy": func(ctx context.Context, b backoff.Budget) {
			_ = backoff.Policy{Budget: retriesOnly{b}}.Do(ctx, failing)
		},
		"nested": func(ctx context.Context, b backoff.Budget) {
			_ = backoff.Policy{Budget: retriesOnly{backoff.JoinBudgets(retriesOnly{b})}}.Do(ctx, failing)
		},
		"hedge": func(ctx context.Context, b backoff.Budget) {
			h := &hedge.Hedge{Budget: retriesOnly{b}, Delay: time.Millisecond}
			_, _ = hedge.Value(ctx, h, func(context.Context) (int, error) { time.Sleep(time.Second); return 0, nil }, nil)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			tokens := rate.NewLimiter(rate.Every(time.Hour), 10)
			call(t.Context(), backoff.JoinBudgets(&limit.Rate{Limiter: tokens, RetriesOnly: true}, late{wait: 2 * time.Second}))
			time.Sleep(time.Minute)
			require.Greater(t, tokens.Tokens(), 9.99, name)
		})
	}
}

// A budget that draws a lot, such as a Throttle, draws it once for an attempt.
func TestABudgetThatHoldsNothingIsNotAskedAgain(t *testing.T) {
	var log []string
	draws := &drawing{}
	slow := &spacer{name: "slow", log: &log, waits: []time.Duration{time.Second}}
	all := backoff.JoinBudgets(draws, slow, new(pace.HoldOff))
	ticket, wait, ok := all.Reserve(backoff.Attempt{Number: 1, Paced: true})
	require.True(t, ok)
	require.Equal(t, time.Second, wait)
	_, _, ok = all.Pace(ticket)
	require.True(t, ok)
	require.Equal(t, 1, draws.made)
}

// drawing counts its draws.
type drawing struct {
	backoff.BudgetDefaults

	made int
}

func (d *drawing) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	d.made++
	return backoff.Ticket{}, 0, true
}

// A budget that another one makes ask again must not take the second question
// for another call's.
func TestABudgetIsAskedAgainForItsSpareRetry(t *testing.T) {
	for _, others := range [][]backoff.Budget{nil, {&clerk{reserve: after(time.Second)}}, {new(pace.HoldOff)}} {
		synctest.Test(t, func(t *testing.T) {
			p := backoff.Policy{Budget: backoff.JoinBudgets(append(others, new(pace.Pacer))...)}
			if len(others) > 0 {
				if h, ok := others[0].(*pace.HoldOff); ok {
					p.Schedule, p.Jitter = backoff.Constant(time.Second), backoff.NoJitter
					time.AfterFunc(time.Minute+500*time.Millisecond, func() { h.Hold(2 * time.Second) })
				}
			}
			for range 3 {
				require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
			}
			time.Sleep(time.Minute)
			require.NoError(t, p.Do(t.Context(), returning(errDown, nil).do))
			time.Sleep(time.Minute)
		})
	}
}
