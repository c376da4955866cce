package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
	"github.com/gobackoff/backoff/limit"
)

// throttled makes n attempts, one after the other, that the service refuses.
func throttled(t *testing.T, b *limit.AdaptiveRate, n int) {
	t.Helper()
	for range n {
		_, tickets := reserve(t, b, 1)
		b.Done(tickets[0], backoff.Result{Outcome: backoff.OutcomeThrottled})
	}
}

// Contract row 78: backoff as the control of a rate. Each adverse event halves
// it.
func TestRow78AdaptiveRateHalvesOnEachAdverseEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Max: 64, Min: 1}
		require.EqualValues(t, 64, b.Limit())
		for _, want := range []rate.Limit{32, 16, 8, 4, 2, 1, 1, 1} {
			throttled(t, b, 1)
			require.InDelta(t, float64(want), float64(b.Limit()), 1e-6)
		}
	})
}

// The rate begins at half of what was sent in the last full second, or in the
// time there has been.
func TestAdaptiveRateBeginsWithHalfOfWhatWasSent(t *testing.T) {
	for want, send := range map[rate.Limit]func(attempts func(int)){
		5:   func(attempts func(int)) { attempts(10); time.Sleep(time.Second) },
		2.5: func(attempts func(int)) { attempts(10); time.Sleep(2 * time.Second) },
		6: func(attempts func(int)) {
			attempts(12)
			time.Sleep(time.Second)
			attempts(1)
			time.Sleep(time.Second / 2)
		},
		1:    func(attempts func(int)) { attempts(12); time.Sleep(time.Second); attempts(2); time.Sleep(time.Second) },
		1000: func(attempts func(int)) { attempts(3) },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := new(limit.AdaptiveRate)
			send(func(n int) { reserve(t, b, n) })
			b.SlowDown(time.Time{})
			require.InDelta(t, float64(want), float64(b.Limit()), 1e-6)
		})
	}
}

func TestAdaptiveRateHearsOfAttemptsThatWereDueLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Max: 10}
		_, slow := reserve(t, b, 1)
		time.Sleep(time.Second)
		reserve(t, b, 1)
		b.Done(slow[0], backoff.Result{Outcome: backoff.OutcomeThrottled})
		require.InDelta(t, 5, float64(b.Limit()), 1e-6)
	})
}

func TestAdaptiveRateWaitsAsLongForAStepAfterItHasRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Recovery: backoff.Constant(10 * time.Second)}
		b.SlowDown(time.Time{})
		time.Sleep(80 * time.Second)
		require.EqualValues(t, 1, b.Limit())
		time.Sleep(80*time.Second - 1)
		require.EqualValues(t, 1, b.Limit())
		time.Sleep(time.Nanosecond)
		require.Equal(t, rate.Inf, b.Limit())
	})
}

func TestAdaptiveRateIsUsedByHalfAndNotByLess(t *testing.T) {
	for perSecond, grows := range map[int]bool{60: true, 45: false} {
		synctest.Test(t, func(t *testing.T) {
			b := new(limit.AdaptiveRate)
			send := func(n, seconds int) {
				for range n * seconds {
					reserve(t, b, 1)
					time.Sleep(time.Second / time.Duration(n))
				}
			}
			send(100, 3)
			b.SlowDown(time.Time{})
			require.InDelta(t, 50, float64(b.Limit()), 1)
			send(perSecond, 12)
			require.Equal(t, grows, b.Limit() > 105, "%d of 100", perSecond)
		})
	}
}

func TestAdaptiveRateSavesNothingOverAFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Max: 10, Burst: 10}
		reserve(t, b, 1)
		time.Sleep(time.Minute)
		b.SlowDown(time.Time{})
		waits, _ := reserve(t, b, 2)
		require.Equal(t, seconds(0.2, 0.4), waits)

		b = &limit.AdaptiveRate{Max: 10}
		b.SlowDown(time.Time{})
		time.Sleep(time.Minute)
		waits, _ = reserve(t, b, 2)
		require.Equal(t, seconds(0, 0.1), waits, "and one again later")
	})
}

func TestAdaptiveRateIsTaughtNothingByALimitThatIsNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Min: 1}
		for range 2 {
			b.SlowDown(time.Time{})
			time.Sleep(7 * time.Second)
			require.EqualValues(t, 1, b.Limit(), "the count starts again with each fall")
		}
		time.Sleep(time.Second)
		require.Equal(t, rate.Inf, b.Limit())
	})
}

func TestAdaptiveRateMakesGoodForAFallFromWhereItHadGrownTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(limit.AdaptiveRate)
		throttled(t, b, 1)
		offer(t, b, newLimitedService(1e6, 1e6), 40*time.Second)
		high := float64(b.Limit())
		throttled(t, b, 1)
		time.Sleep(8 * time.Second)
		require.InEpsilon(t, high, float64(b.Limit()), 0.1, "unused meanwhile")
		time.Sleep(7 * time.Second)
		require.InEpsilon(t, high, float64(b.Limit()), 0.1)
	})
}

func TestAdaptiveRateWaitsAsLongBeforeEveryStepUntilItHasRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Max: 64, Recovery: backoff.Linear{Initial: 10 * time.Second}}
		for range 2 {
			throttled(t, b, 2)
			for step := range 16 {
				require.InDelta(t, 16*math.Pow(2, float64(step)/8), float64(b.Limit()), 1e-6)
				time.Sleep(20*time.Second - 1)
				require.InDelta(t, 16*math.Pow(2, float64(step)/8), float64(b.Limit()), 1e-6)
				time.Sleep(time.Nanosecond)
			}
			require.EqualValues(t, 64, b.Limit())
			time.Sleep(time.Hour)
		}
	})
}

func TestAdaptiveRateDecreasesByWhatItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Max: 100, Decrease: 0.9}
		for _, want := range []rate.Limit{90, 81, 72.9} {
			throttled(t, b, 1)
			require.InDelta(t, float64(want), float64(b.Limit()), 1e-6)
		}
	})
}

// A hundred attempts that were under way together are one event, not a hundred.
func TestAdaptiveRateFallsOnceForWhatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Max: 100, Burst: 100}
		_, tickets := reserve(t, b, 100)
		for _, ticket := range tickets {
			b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
			b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
		}
		require.InDelta(t, float64(50), float64(b.Limit()), 1e-6)
		throttled(t, b, 1)
		require.InDelta(t, float64(25), float64(b.Limit()), 1e-6)
	})
}

// However many attempts are under way, a refusal of any of them is heard, and
// one Done of each counts.
func TestAdaptiveRateHearsARefusalOfAnyAttemptUnderWay(t *testing.T) {
	const underWay = 12_000
	for _, refused := range []int{0, underWay / 2, underWay - 1} {
		synctest.Test(t, func(t *testing.T) {
			b := new(limit.AdaptiveRate)
			var tickets []backoff.Ticket
			for range underWay {
				_, all := reserve(t, b, 1)
				tickets = append(tickets, all...)
				time.Sleep(100 * time.Microsecond)
			}
			for i, ticket := range tickets {
				if i != refused {
					b.Done(ticket, backoff.Result{})
				}
			}
			require.Equal(t, rate.Inf, b.Limit())
			b.Done(tickets[refused], backoff.Result{Outcome: backoff.OutcomeThrottled})
			require.InDelta(t, 5000, float64(b.Limit()), 10, "attempt %d", refused)
			for _, ticket := range tickets {
				b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
			}
			require.InDelta(t, 5000, float64(b.Limit()), 10, "all were granted at the rate before the fall")
		})
	}
}

// rate.Inf is what a limiter of package rate calls no limit.
func TestAdaptiveRateTakesAMaxOfInfForNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, b := range []*limit.AdaptiveRate{{}, {Max: rate.Inf}} {
			require.NoError(t, b.Validate())
			for range 100 {
				reserve(t, b, 1)
				time.Sleep(10 * time.Millisecond)
			}
			throttled(t, b, 1)
			require.InDelta(t, 50, float64(b.Limit()), 1)
			time.Sleep(time.Minute)
			require.Equal(t, rate.Inf, b.Limit(), "when nothing needs a limit")
		}
	})
}

func TestAdaptiveRateFallsOnlyForThrottling(t *testing.T) {
	b := &limit.AdaptiveRate{Max: 1000, Burst: 10}
	for _, o := range []backoff.Outcome{backoff.OutcomeSuccess, backoff.OutcomeDefinitive, backoff.OutcomeTransient,
		backoff.OutcomeTimeout, backoff.OutcomeCanceled, backoff.OutcomeNotSent} {
		_, tickets := reserve(t, b, 1)
		b.Done(tickets[0], backoff.Result{Outcome: o})
		b.Done(tickets[0], backoff.Result{Outcome: backoff.OutcomeThrottled}) // a second Done
	}
	b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
	b.Done(backoff.NewTicket(77), backoff.Result{Outcome: backoff.OutcomeThrottled})
	require.EqualValues(t, 1000, b.Limit())
}

// Contract row 79: events, then quiet. The rate rises in steps, more slowly
// than it fell.
func TestRow79AdaptiveRateRecoversInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Max: 64}
		throttled(t, b, 2)
		for step := range 16 {
			require.InDelta(t, float64(16*math.Pow(2, float64(step)/8)), float64(b.Limit()), 1e-6)
			time.Sleep(999 * time.Millisecond)
			require.InDelta(t, float64(16*math.Pow(2, float64(step)/8)), float64(b.Limit()), 1e-6, "not before its time")
			time.Sleep(time.Millisecond)
		}
		require.InDelta(t, float64(64), float64(b.Limit()), 1e-6)
		time.Sleep(time.Hour)
		require.InDelta(t, float64(64), float64(b.Limit()), 1e-6)
	})
}

// Contract row 80: the time of recovery may itself back off.
func TestRow80AdaptiveRateRecoveryMayGrow(t *testing.T) {
	for name, c := range map[string]struct {
		recovery backoff.Schedule
		want     []time.Duration // per step, after that many falls
	}{
		"30, 60, 90": {backoff.Linear{Initial: 30 * time.Second}, seconds(30, 60, 90)},
		"doubling":   {backoff.Exponential{Initial: time.Second}, seconds(1, 2, 4)},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &limit.AdaptiveRate{Max: 1024, Steps: 1, Recovery: c.recovery}
			var low rate.Limit
			for i, want := range c.want {
				throttled(t, b, 1) // before the rate has recovered
				low = b.Limit()
				time.Sleep(want - time.Millisecond)
				require.Equal(t, low, b.Limit(), "%s: after %d falls", name, i+1)
			}
			time.Sleep(time.Millisecond)
			require.InDelta(t, float64(2*low), float64(b.Limit()), 1e-6, "%s", name)
			time.Sleep(time.Hour)
			require.InDelta(t, 1024.0, float64(b.Limit()), 1e-6)
			throttled(t, b, 1)
			time.Sleep(c.want[0])
			require.InDelta(t, 1024.0, float64(b.Limit()), 1e-6, "%s: once recovered, the count starts again", name)
		})
	}
}

// Contract row 81: a service may ask for less in a success, if the caller reads
// that.
func TestRow81AdaptiveRateSlowsDownOnASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Max: 10}
		p := backoff.Policy{Budget: b}
		call := func() {
			require.NoError(t, p.Do(t.Context(), func(context.Context) error {
				sent := time.Now()
				time.Sleep(time.Millisecond)
				b.SlowDown(sent) // as the answer asked
				return nil
			}))
		}
		call()
		require.InDelta(t, float64(5), float64(b.Limit()), 1e-6)
		begin := time.Now()
		call()
		require.Greater(t, time.Since(begin), 150*time.Millisecond, "the next one waits")
		require.InDelta(t, float64(2.5), float64(b.Limit()), 1e-6)

		b.SlowDown(begin) // of one that was under way then
		require.InDelta(t, float64(2.5), float64(b.Limit()), 1e-6)
		b.SlowDown(time.Time{})
		require.InDelta(t, float64(1.25), float64(b.Limit()), 1e-6)
	})
}

// offer makes a call every millisecond, or as often as the budget allows, and
// returns how many there were.
func offer(t *testing.T, b backoff.Budget, s *limitedService, d time.Duration) (sent int) {
	for begin := time.Now(); time.Since(begin) < d; sent++ {
		ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
		require.True(t, ok)
		time.Sleep(max(wait, time.Millisecond))
		b.Done(ticket, backoff.Result{Outcome: s.serve()})
	}
	return sent
}

// Contract rows 79 and 83: it finds a limit without being told, and stays
// within bounds around it.
func TestRow83AdaptiveRateFindsAHiddenLimit(t *testing.T) {
	for _, hidden := range []float64{5, 40, 300} {
		synctest.Test(t, func(t *testing.T) {
			b := new(limit.AdaptiveRate)
			s := newLimitedService(hidden, 1+int(hidden/10))
			require.Equal(t, rate.Inf, b.Limit(), "no limit before there is a reason")
			offer(t, b, s, 10*time.Second)

			s.served, s.refused = 0, 0
			low, high := rate.Inf, rate.Limit(0)
			for range 300 {
				offer(t, b, s, time.Second)
				low, high = min(low, b.Limit()), max(high, b.Limit())
			}
			require.GreaterOrEqual(t, float64(low), 0.4*hidden)
			require.LessOrEqual(t, float64(high), 1.2*hidden)
			require.InDelta(t, 0.78, float64(s.served)/300/hidden, 0.1)
			require.LessOrEqual(t, s.refused, 300/6, "a step up takes a second, and a fall is made good in eight")
		})
	}
}

func TestAdaptiveRateStaysCloserWithASmallerDecrease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Decrease: 0.9, Steps: 2}
		s := newLimitedService(100, 5)
		offer(t, b, s, 30*time.Second)
		s.served, s.refused = 0, 0
		offer(t, b, s, 300*time.Second)
		require.InDelta(t, 0.95, float64(s.served)/300/100, 0.05)
		require.Less(t, float64(s.refused)/float64(s.served), 0.05)
	})
}

// Contract row 83, fairness: clients that know nothing of each other share a
// limit.
func TestRow83AdaptiveRatesShareALimitFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, hidden = 4, 200
		s := newLimitedService(hidden, 20)
		var sent [clients]int
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := range clients {
			all.Go(func() {
				b := new(limit.AdaptiveRate)
				time.Sleep(time.Duration(i) * 7 * time.Second) // late ones must find room
				for begin := time.Now(); time.Since(begin) < 5*time.Minute; {
					ticket, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
					time.Sleep(max(wait, 3*time.Millisecond))
					mu.Lock()
					b.Done(ticket, backoff.Result{Outcome: s.serve()})
					sent[i]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		fair := float64(sent[0]+sent[1]+sent[2]+sent[3]) / clients
		for i, n := range sent {
			require.InDelta(t, 1, float64(n)/fair, 0.3, "client %d of %v", i, sent)
		}
	})
}

func TestAdaptiveRateIsFreeAgainWhenNothingNeedsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(limit.AdaptiveRate)
		offer(t, b, newLimitedService(1e6, 1e6), 3*time.Second)
		require.Equal(t, rate.Inf, b.Limit())
		throttled(t, b, 1)
		require.InDelta(t, 500, float64(b.Limit()), 1, "half of what was sent")
		time.Sleep(8 * time.Second)
		require.InDelta(t, 1000, float64(b.Limit()), 1, "made good, though nothing was sent meanwhile")
		time.Sleep(7 * time.Second)
		require.InDelta(t, 1000, float64(b.Limit()), 1, "not more, for the same reason")
		time.Sleep(time.Second)
		require.Equal(t, rate.Inf, b.Limit())
		waits, _ := reserve(t, b, 1000)
		require.Zero(t, slices.Max(waits))
		time.Sleep(time.Second)
		offer(t, b, newLimitedService(1e6, 1e6), 3*time.Second)
		throttled(t, b, 1)
		require.InDelta(t, 500, float64(b.Limit()), 1, "as if it had never fallen")
	})
}

// A first burst is over before it can be measured. So the rate must be found
// from below, and the limit must not go before that.
func TestAdaptiveRateGrowsAsFarAsItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(limit.AdaptiveRate)
		s := newLimitedService(1e6, 1e6)
		throttled(t, b, 1)
		require.InDelta(t, 0.5, float64(b.Limit()), 1e-6)
		offer(t, b, s, 80*time.Second)
		require.InEpsilon(t, 0.5*math.Pow(2, 80.0/8), float64(b.Limit()), 0.1)
		offer(t, b, s, 40*time.Second)
		require.Equal(t, rate.Inf, b.Limit(), "more than twice what is offered, for 8 s")
	})
}

func TestAdaptiveRateNeverFallsBelowMin(t *testing.T) {
	for _, c := range []struct {
		max, min, want rate.Limit
	}{{0, 0, 0.5}, {0, 3, 3}, {100, 0, 0.5}, {0.2, 0, 0.2}, {10, 10, 10}} {
		synctest.Test(t, func(t *testing.T) {
			b := &limit.AdaptiveRate{Max: c.max, Min: c.min}
			throttled(t, b, 50)
			require.InDelta(t, float64(c.want), float64(b.Limit()), 1e-6, "%+v", c)
			time.Sleep(8 * time.Second)
			require.GreaterOrEqual(t, b.Limit(), 0.92*min(2*c.want, max(c.want, c.max)), "and rises from there at once")
		})
	}
}

// A service that refused everything for a while has taken the rate to the
// bottom. The calls that waited then were told to wait for minutes. Later calls
// need not wait for them.
func TestAdaptiveRateRecoversWithALineOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(limit.AdaptiveRate)
		s := newLimitedService(100, 10)
		begin := time.Now()
		var mu sync.Mutex
		served := 0
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for time.Since(begin) < 3*time.Minute {
					ticket, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
					time.Sleep(wait + 10*time.Millisecond)
					mu.Lock()
					at, o := time.Since(begin), backoff.OutcomeThrottled
					if at < 10*time.Second || at > 25*time.Second {
						o = s.serve()
					}
					if at > 2*time.Minute && at < 3*time.Minute && o == backoff.OutcomeSuccess {
						served++
					}
					b.Done(ticket, backoff.Result{Outcome: o})
					mu.Unlock()
				}
			})
		}
		all.Wait()
		require.Greater(t, served, 60*60, "in the third minute")
	})
}

func TestAdaptiveRateGetsTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.AdaptiveRate{Max: 1}
		_, tickets := reserve(t, b, 4)
		giveBack(b, tickets[3], tickets[3], tickets[2])
		got, _ := reserve(t, b, 2)
		require.Equal(t, seconds(2, 3), got)
	})
}

func TestAdaptiveRateIsNotMovedByAClockThatIsSet(t *testing.T) {
	b := &limit.AdaptiveRate{Max: 64, Recovery: backoff.Constant(time.Hour)}
	throttled(t, b, 1)
	for _, step := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		_, _, _ = b.Reserve(backoff.Attempt{Number: 1, Now: clocktest.Set(time.Now(), step)})
		require.InDelta(t, float64(32), float64(b.Limit()), 1e-6)
	}
}

func TestAdaptiveRateUnder64Goroutines(t *testing.T) {
	b := &limit.AdaptiveRate{Max: 1e6, Burst: 1000, Recovery: backoff.Constant(time.Millisecond)}
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := range 100 {
				ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1})
				if !ok {
					t.Error("refused")
				}
				b.Done(ticket, backoff.Result{Outcome: backoff.Outcome((worker + i) % 7)})
				if i%50 == 0 {
					b.SlowDown(time.Now())
				}
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, b.Limit(), rate.Limit(1e6))
	require.GreaterOrEqual(t, b.Limit(), rate.Limit(0.5))
}

func TestAdaptiveRateAllocatesNothing(t *testing.T) {
	b := &limit.AdaptiveRate{Max: 1000}
	require.Zero(t, testing.AllocsPerRun(10_000, func() {
		ticket, _, _ := b.Reserve(backoff.Attempt{Number: 1})
		b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
	}))
}

func TestAdaptiveRateValidate(t *testing.T) {
	nan, inf := rate.Limit(math.NaN()), rate.Limit(math.Inf(1))
	for want, b := range map[string]*limit.AdaptiveRate{
		"backoff: limit.AdaptiveRate is nil":                                                   nil,
		"backoff: limit.AdaptiveRate.Max is -1, want 0 (for none) or more":                     {Max: -1},
		"backoff: limit.AdaptiveRate.Max is NaN, want 0 (for none) or more":                    {Max: nan},
		"backoff: limit.AdaptiveRate.Max is +Inf, want 0 (for none) or more":                   {Max: inf},
		"backoff: limit.AdaptiveRate.Min is -1, want 0 (for 0.5) or more, up to Max":           {Min: -1},
		"backoff: limit.AdaptiveRate.Min is NaN, want 0 (for 0.5) or more, up to Max":          {Min: nan},
		"backoff: limit.AdaptiveRate.Min is 11, want 0 (for 0.5) or more, up to Max":           {Min: 11, Max: 10},
		"backoff: limit.AdaptiveRate.Burst is -1, want 0 (for 1) or more":                      {Burst: -1},
		"backoff: limit.AdaptiveRate.Decrease is 1, want 0 (for 0.5) or more, and less than 1": {Decrease: 1},
		"backoff: limit.AdaptiveRate.Steps is -1, want 0 (for 8) or more":                      {Steps: -1},
		"backoff: limit.AdaptiveRate.Recovery: Linear.Initial is -1s, want 0 or more":          {Recovery: backoff.Linear{Initial: -time.Second}},
	} {
		require.EqualError(t, b.Validate(), want)
	}
	for want, b := range map[string]*limit.AdaptiveRate{
		"limit.AdaptiveRate.Decrease is -0.5": {Decrease: -0.5}, "limit.AdaptiveRate.Min is 2": {Min: 2, Max: 1}, "limit.AdaptiveRate.Min is +Inf": {Min: inf},
		"limit.AdaptiveRate.Min is 1.7976931348623157e+308": {Min: rate.Inf},
	} {
		require.ErrorContains(t, b.Validate(), want)
	}
	for _, b := range []*limit.AdaptiveRate{{}, {Min: 1}, {Min: 10, Max: 10}, {Min: 10, Max: rate.Inf}} {
		require.NoError(t, b.Validate())
	}
}

// Contract row 49: one hot key does not slow another.
func TestRow49RatesKeptPerKeyAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tables := backoff.Budgets{New: func(string) backoff.Budget { return new(limit.AdaptiveRate) }}
		hot, cold := newLimitedService(10, 1), newLimitedService(1e6, 1e6)
		var all sync.WaitGroup
		var sent int
		all.Go(func() { offer(t, tables.For("hot"), hot, time.Minute) })
		all.Go(func() { sent = offer(t, tables.For("cold"), cold, time.Minute) })
		all.Wait()
		require.Less(t, hot.served+hot.refused, 800)
		require.Equal(t, 60_000, sent, "a call every millisecond, as offered")
	})
}

func ExampleAdaptiveRate() {
	indexes := backoff.Budgets{New: func(string) backoff.Budget { return &limit.AdaptiveRate{Max: 100} }}

	index := indexes.For("index-7").(*limit.AdaptiveRate)
	search := backoff.Policy{Name: "search", Budget: index}
	attempts := 0
	err := search.Do(context.Background(), func(context.Context) error {
		if attempts++; attempts == 1 {
			return backoff.WithClass(errors.New("too many requests"), backoff.ClassThrottled)
		}
		return nil
	})
	fmt.Println(err, attempts)
	fmt.Printf("%.0f a second to index-7\n", index.Limit())
	fmt.Printf("%.0f a second to index-8\n", indexes.For("index-8").(*limit.AdaptiveRate).Limit())
	// Output:
	// <nil> 2
	// 50 a second to index-7
	// 100 a second to index-8
}
