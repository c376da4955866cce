package hedge_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/fault"
	"github.com/gobackoff/backoff/internal/steer"
	"github.com/gobackoff/backoff/limit"
)

func TestHedgeAsksItsBudgetOnceForEachAttemptAndTellsItHowThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(hedgeBudget)
		h := hedgeGRPC()
		h.Budget = b
		s := script(inTime(100*milli, 0, errHedgeUnavailable), inTime(time.Hour, 2, nil), inTime(milli, 3, nil))
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		synctest.Wait()
		for i, want := range []backoff.Attempt{
			{Number: 1, MaxAttempts: 3, Now: s.began},
			{Number: 2, Hedge: true, Class: backoff.ClassRetryable, MaxAttempts: 3, Now: s.began.Add(100 * milli)},
			{Number: 3, Hedge: true, Class: backoff.ClassRetryable, MaxAttempts: 3, Now: s.began.Add(600 * milli)},
		} {
			require.True(t, want.Now.Equal(b.asked[i].Now))
			want.Now, want.Paced = b.asked[i].Now, true
			require.Equal(t, want, b.asked[i])
		}
		require.Equal(t, map[uint64][]string{
			1: {"failed"}, 2: {"canceled"}, 3: {"success"},
		}, b.outcomes)
		require.Equal(t, 101*milli, b.took, "the canceled attempt took nothing from the service")
	})
}

func TestHedgeIsNotSentIfItsBudgetRefuses(t *testing.T) {
	hedgeTest(t, "while the first attempt is slow", func(t *testing.T) {
		b := refusesHedges()
		h := &hedge.Hedge{Delay: 100 * milli, MaxAttempts: 5, Budget: b}
		succeed(t, h, 1, inTime(second, 1, nil))
		require.Len(t, b.asked, 2, "and is then left alone")
		require.Equal(t, map[uint64][]string{1: {"success"}}, b.outcomes)
		require.EqualValues(t, 1, h.Stats().Refused)

		for range 20 { // what the hedge's own budget paid was paid back
			_, err := hedge.Value(t.Context(), h, inTime(150*milli, 0, errHedgeUnknown), nil)
			require.ErrorIs(t, err, backoff.ErrBudget)
			require.ErrorIs(t, err, errHedgeUnknown)
			require.ErrorContains(t, err, "budget refused (Budget); the limit may be MaxExtraLoad: UNKNOWN")
		}
		require.Len(t, b.asked, 42)
	})
	hedgeTest(t, "after the wait that the server asked for", func(t *testing.T) {
		s := script(inTime(0, 0, backoff.Pushback(errHedgeUnknown, second)))
		_, took, err := s.run(t.Context(), &hedge.Hedge{Budget: refusesHedges()})
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorIs(t, err, errHedgeUnknown)
		require.Equal(t, time.Second, took)
	})
}

func TestHedgesBudgetHearsWhoseFaultAFailureIs(t *testing.T) {
	for f, want := range map[fault.Fault]string{fault.Own: "not sent", fault.Left: "canceled", fault.Answered: "permanent"} {
		synctest.Test(t, func(t *testing.T) {
			b := new(hedgeBudget)
			_, _, err := script(inTime(milli, 0, fault.As(errHedgeUnknown, f))).run(t.Context(), &hedge.Hedge{Delay: second, MaxAttempts: 1, Budget: b})
			require.ErrorIs(t, err, errHedgeUnknown)
			require.Equal(t, map[uint64][]string{1: {want}}, b.outcomes)
		})
	}
}

func TestHedgeIsNotSentIfItsBudgetIsOutOfPlacesAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &hedgeBudget{depart: func(number int) bool { return number == 1 }}
		h := &hedge.Hedge{Delay: 100 * milli, Budget: b}
		s := script(inTime(second, 0, errHedgeUnknown))
		_, _, err := s.run(t.Context(), h)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Equal(t, map[uint64][]string{1: {"failed"}, 2: {"not sent"}}, b.outcomes)
		require.Zero(t, h.Stats().Hedges)
	})
}

func TestHedgeIsSentNoSoonerThanItsBudgetWants(t *testing.T) {
	slow := inTime(time.Hour, 0, nil)
	budgeted := func() *hedge.Hedge {
		h := hedgeGRPC()
		h.Budget = &hedgeBudget{grant: hedgeWait(second)}
		return h
	}
	runAll(t, budgeted, map[string]hedgeRun{
		"after the delay": {
			steps:  []hedgeStep{slow, slow, inTime(milli, 3, nil)},
			starts: msec(1500, 4000), took: 4001 * milli, value: 3, beaten: []int{0, 1},
		},
		"if all are sent at once": {
			adjust: func(h *hedge.Hedge) { h.Delay = -1 },
			steps:  []hedgeStep{slow, slow, inTime(milli, 3, nil)},
			starts: msec(1000, 3000), took: 3001 * milli, value: 3, beaten: []int{0, 1},
		},
		"whatever fails meanwhile": {
			steps:  []hedgeStep{inTime(600*milli, 1, errHedgeUnknown), inTime(milli, 2, nil)},
			starts: msec(1500), took: 1501 * milli, value: 2,
		},
	})
}

func TestHedgeGivesBackWhatItDoesNotUseOfItsBudget(t *testing.T) {
	hedgeTest(t, "when the first attempt is back", func(t *testing.T) {
		b := &hedgeBudget{grant: hedgeWait(second)}
		h := &hedge.Hedge{Delay: 100 * milli, Budget: b}
		for range 20 {
			s := script(inTime(200*milli, 1, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
			require.Len(t, s.starts, 1)
			require.Equal(t, []string{"not sent"}, b.outcomes[2])
			b.outcomes = nil
		}
		require.Zero(t, h.Stats().Refused)
		require.Zero(t, h.Stats().Hedges)
	})
	hedgeTest(t, "when a server puts it off", func(t *testing.T) {
		b := &hedgeBudget{grant: hedgeWait(second)}
		s := script(inTime(200*milli, 0, backoff.Pushback(errHedgeUnknown, 5*second)), inTime(milli, 2, nil))
		_, _, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli, Budget: b})
		require.NoError(t, err)
		require.Equal(t, []string{"not sent", "success"}, b.outcomes[2])
	})
	hedgeTest(t, "when it would come too late", func(t *testing.T) {
		b := &hedgeBudget{grant: hedgeWait(second)}
		s := script(inTime(200*milli, 1, errHedgeUnknown))
		_, _, err := s.run(within(t, second), &hedge.Hedge{Delay: 100 * milli, Budget: b})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, map[uint64][]string{1: {"failed"}, 2: {"not sent"}}, b.outcomes)
	})
}

func TestHedgeMeasuresNoWaitForItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedge.Hedge{Budget: &hedgeBudget{grant: waitASecond}, MaxAttempts: 1}
		for range 100 {
			s := script(inTime(10*milli, 1, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
			require.Equal(t, []time.Duration{time.Second}, s.starts)
		}
		require.InEpsilon(t, float64(10*milli), float64(h.Stats().Delay), .1)
	})
}

func waitASecond(backoff.Attempt) (time.Duration, bool) { return second, true }

func TestHedgeStartsNoCallThatItsBudgetDoesNotLetGoInTime(t *testing.T) {
	notSent := map[uint64][]string{1: {"not sent"}}
	never := func(int) bool { panic("it does not depart") }
	for name, row := range map[string]struct {
		ctx      func(*testing.T) context.Context
		budget   *hedgeBudget
		is       error
		text     string
		outcomes map[uint64][]string
	}{
		"it refuses": {(*testing.T).Context, &hedgeBudget{depart: never, grant: func(backoff.Attempt) (time.Duration, bool) { return 0, false }},
			backoff.ErrBudget, "backoff: not started: budget refused (Budget); the limit may be MaxExtraLoad", nil},
		"it is out of places at the last moment": {(*testing.T).Context, &hedgeBudget{depart: func(int) bool { return false }},
			backoff.ErrBudget, "backoff: not started: budget refused (Budget); the limit may be MaxExtraLoad", notSent},
		"the wait passes the deadline": {func(t *testing.T) context.Context { return within(t, second) },
			&hedgeBudget{grant: waitASecond, depart: never},
			context.DeadlineExceeded, "backoff: not started: the Budget makes it wait until after the deadline", notSent},
		"the context ends meanwhile": {func(t *testing.T) context.Context { return canceled(t, milli, nil) }, &hedgeBudget{grant: waitASecond},
			context.Canceled, "backoff: not started: context canceled", notSent},
	} {
		hedgeTest(t, name, func(t *testing.T) {
			h := &hedge.Hedge{Budget: row.budget}
			_, err := hedge.Value(row.ctx(t), h, inTime(0, 0, errHedgeNever), nil)
			require.ErrorIs(t, err, row.is)
			require.EqualError(t, err, row.text)
			require.Zero(t, h.Stats().Refused, "it was no hedge")
			require.Equal(t, row.outcomes, row.budget.outcomes)
		})
	}
}

// Losers hold their places in flight until they are back, so the cap is right.
func TestHedgeCountsAsConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.Concurrency{Max: 2}
		h := &hedge.Hedge{Delay: 100 * milli, MaxAttempts: 3, Budget: b}
		s := script(inTime(250*milli, 1, nil), deaf(second, 2, nil), inTime(0, 3, nil))
		v, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, 1, v, "there was no place for a third")
		require.Equal(t, 1, b.Load())
		rest(time.Minute)
		require.Zero(t, b.Load())
	})
}

func TestHedgeSendsNoneUntilItHasMeasuredAHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hedge.Hedge
		fast, slow := inTime(20*milli, 1, nil), inTime(time.Hour, 1, nil)
		took := func() time.Duration {
			_, took, err := script(slow, fast).run(t.Context(), &h)
			require.NoError(t, err)
			return took
		}
		succeed(t, &h, 98, fast)
		require.Zero(t, h.Stats().Delay)
		require.Equal(t, time.Hour, took())
		require.Zero(t, h.Stats().Delay)
		succeed(t, &h, 1, fast)
		delay := h.Stats().Delay
		require.InEpsilon(t, float64(20*milli), float64(delay), .1)
		require.Equal(t, delay+20*milli, took())
	})
}

// hedgeMeasured returns a hedge that has seen so many calls take d.
func hedgeMeasured(t *testing.T, d time.Duration) *hedge.Hedge {
	h := new(hedge.Hedge)
	succeed(t, h, 100, inTime(d, 0, nil))
	return h
}

func TestHedgeWithoutALimitOfExtraLoadIsSentAtTheDelayOfFivePercent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedge.Hedge{MaxExtraLoad: -1, MaxAttempts: 1}
		for n := range 200 {
			succeed(t, h, 1, inTime(time.Duration(n+1)*second, 0, nil))
		}
		require.InDelta(t, 190, h.Stats().Delay.Seconds(), 3)
	})
}

func TestHedgeDelayIsAtLeastAMillisecondAndAtMostHalfTheTime(t *testing.T) {
	hedgeTest(t, "a millisecond", func(t *testing.T) {
		require.Equal(t, milli, hedgeMeasured(t, 0).Stats().Delay)
	})
	hedgeTest(t, "half the time", func(t *testing.T) {
		h := hedgeMeasured(t, second)
		_, took, err := script(inTime(second, 1, nil), inTime(10*milli, 2, nil)).run(within(t, 800*milli), h)
		require.NoError(t, err)
		require.Equal(t, 410*milli, took)
	})
	hedgeTest(t, "nothing, if a millisecond is more than half", func(t *testing.T) {
		h := hedgeMeasured(t, second)
		s := script(inTime(second, 1, nil))
		_, took, err := s.run(within(t, 2*milli-1), h)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*milli-1, took)
		require.Len(t, s.starts, 1)
	})
}

func TestHedgeIsNotSentWithLessTimeLeftThanItsDelay(t *testing.T) {
	slow, failing := inTime(time.Hour, 0, nil), inTime(50*milli, 0, errHedgeUnknown)
	const over = "backoff: gave up after %d attempts: context deadline exceeded"
	tenth := func() *hedge.Hedge { return &hedge.Hedge{Delay: 100 * milli, MaxAttempts: 3} }
	runAll(t, tenth, map[string]hedgeRun{
		"no time for one": {
			limit: 200*milli - 1,
			steps: []hedgeStep{slow},
			took:  200*milli - 1,
			err:   "backoff: gave up after 1 attempt: context deadline exceeded",
		},
		"for one": {
			limit:  200 * milli,
			steps:  []hedgeStep{slow, slow},
			starts: msec(100), took: 200 * milli,
			err: fmt.Sprintf(over, 2),
		},
		"for two": {
			limit:  300 * milli,
			steps:  []hedgeStep{slow, slow, slow},
			starts: msec(100, 200), took: 300 * milli,
			err: fmt.Sprintf(over, 3),
		},
		"after a failure": {
			limit: 130 * milli,
			steps: []hedgeStep{failing},
			took:  50 * milli,
			err:   "backoff: gave up after 1 attempt: the next wait would pass the deadline: UNKNOWN",
		},
		"for one after one": {
			limit:  150 * milli,
			steps:  []hedgeStep{failing, slow},
			starts: msec(50), took: 150 * milli,
			err: fmt.Sprintf(over, 2) + ": UNKNOWN",
		},
	})
}

func TestHedgeEstimateLeavesOutFailures(t *testing.T) {
	hedgeTest(t, "and what was cancelled", func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		before := h.Stats().Delay
		for range 500 {
			_, err := hedge.Value(t.Context(), h, inTime(time.Microsecond, 0, errHedgeInvalid), nil)
			require.Error(t, err)
			_, err = hedge.Value(within(t, 10*milli), h, inTime(second, 0, nil), nil)
			require.Error(t, err)
		}
		require.Equal(t, before, h.Stats().Delay)
	})
	hedgeTest(t, "also those that a hedge made good", func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		before := h.Stats().Delay
		for range 10 {
			s := script(inTime(0, 0, errHedgeUnknown), inTime(10*second, 2, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
		}
		succeed(t, h, 40, inTime(20*milli, 0, nil))
		require.Equal(t, before, h.Stats().Delay)
	})
}

func TestHedgeEstimateCountsAsSlowWhatWasBeatenEarlyForADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		h.MaxExtraLoad = -1
		before := h.Stats().Delay
		for range 2500 {
			v, took, err := script(inTime(20*milli, 1, nil), inTime(0, 2, nil)).run(within(t, 8*milli), h)
			require.NoError(t, err)
			require.Equal(t, 2, v)
			require.Equal(t, 4*milli, took)
		}
		require.InEpsilon(t, float64(before), float64(h.Stats().Delay), .1)
	})
}

func TestHedgeEstimateIsOfFirstAttemptsAlsoBeatenOnesAndNotOfHedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		h.MaxExtraLoad = -1
		for range 400 {
			s := script(inTime(10*second, 1, nil), inTime(0, 2, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
		}
		require.Greater(t, h.Stats().Delay, 20*milli, "had the hedges counted, the delay would be that of nothing")
	})
}

// hedgeAgain is hedgeGRPC that goes by what the errors say of themselves.
func hedgeAgain() *hedge.Hedge {
	h := hedgeGRPC()
	h.Classify = nil
	return h
}

func pushback(d time.Duration) error { return backoff.Pushback(errHedgeUnavailable, d) }

func TestHedgeGoesByWhatTheServerSays(t *testing.T) {
	throttled := backoff.OfClass(errHedgeUnavailable, backoff.ClassThrottled)
	slow := inTime(time.Minute, 0, nil)
	runAll(t, hedgeAgain, map[string]hedgeRun{
		"not to retry": {
			steps: []hedgeStep{inTime(milli, 0, pushback(-1))},
			took:  milli,
			err:   "backoff: grpc: gave up after 1 attempt: not to be retried: UNAVAILABLE",
		},
		"not to retry, one is under way": {
			steps:  []hedgeStep{inTime(600*milli, 0, pushback(-1)), inTime(3*second, 2, nil)},
			starts: msec(500), took: 3500 * milli, value: 2,
		},
		"not to retry, one says when it is too late": {
			steps:  []hedgeStep{inTime(600*milli, 0, pushback(time.Hour)), inTime(10*milli, 0, pushback(-1))},
			starts: msec(500), took: 600 * milli,
			err: "backoff: grpc: gave up after 2 attempts: not to be retried: UNAVAILABLE",
		},
		"not to retry, one fails later": {
			steps:  []hedgeStep{inTime(600*milli, 0, errHedgeUnknown), inTime(10*milli, 0, pushback(-1))},
			starts: msec(500), took: 600 * milli,
			err: "backoff: grpc: gave up after 2 attempts: not to be retried: UNKNOWN",
		},
		"when": {
			steps:  []hedgeStep{inTime(100*milli, 0, pushback(2*second)), slow, inTime(milli, 3, nil)},
			starts: msec(2100, 2600), took: 2601 * milli, value: 3, beaten: []int{1},
		},
		"when, by RetryAfter": {
			steps:  []hedgeStep{inTime(100*milli, 0, backoff.RetryAfter(errHedgeUnavailable, 2*second)), slow, inTime(milli, 3, nil)},
			starts: msec(2100, 2600), took: 2601 * milli, value: 3, beaten: []int{1},
		},
		"when, as it throttles": {
			steps:  []hedgeStep{inTime(100*milli, 0, backoff.RetryAfter(throttled, 2*second)), slow, inTime(milli, 3, nil)},
			starts: msec(2100, 2600), took: 2601 * milli, value: 3, beaten: []int{1},
		},
		"when, and another fails": {
			steps:  []hedgeStep{inTime(second, 0, errHedgeUnknown), inTime(100*milli, 0, pushback(2*second)), inTime(milli, 3, nil)},
			starts: msec(500, 2600), took: 2601 * milli, value: 3,
		},
		"at once": {
			steps:  []hedgeStep{inTime(100*milli, 0, pushback(0)), inTime(milli, 2, nil)},
			starts: msec(100), took: 101 * milli, value: 2,
		},
		"at once, by AtOnce": {
			steps:  []hedgeStep{inTime(0, 0, backoff.AtOnce(badRequest{})), inTime(0, 2, nil)},
			starts: msec(0), value: 2,
		},
		"as late as MaxRetryAfter allows": {
			steps:  []hedgeStep{inTime(0, 0, pushback(5*time.Minute)), inTime(0, 2, nil)},
			starts: msec(300_000), took: 5 * time.Minute, value: 2,
		},
		"later than that": {
			steps: []hedgeStep{inTime(milli, 0, pushback(6*time.Minute))},
			took:  milli,
			err:   "backoff: grpc: gave up after 1 attempt: the server asks for a longer wait (MaxRetryAfter): UNAVAILABLE",
		},
		"later, without a limit": {
			adjust: func(h *hedge.Hedge) { h.MaxRetryAfter = -1 },
			steps:  []hedgeStep{inTime(0, 0, pushback(time.Hour)), inTime(0, 2, nil)},
			starts: msec(3_600_000), took: time.Hour, value: 2,
		},
		"at the deadline": {
			limit: 2 * second,
			steps: []hedgeStep{inTime(0, 0, pushback(2*second))},
			err:   "backoff: grpc: gave up after 1 attempt: the next wait would pass the deadline: UNAVAILABLE",
		},
		"beyond a deadline that passes": {
			limit:  10 * second,
			steps:  []hedgeStep{inTime(time.Hour, 0, nil), inTime(0, 0, pushback(time.Minute))},
			starts: msec(500), took: 10 * second,
			err: "backoff: grpc: gave up after 2 attempts: context deadline exceeded: UNAVAILABLE",
		},
		"too much, and not when": {
			steps: []hedgeStep{inTime(milli, 0, throttled)},
			took:  milli,
			err:   "backoff: grpc: gave up after 1 attempt: not to be retried: UNAVAILABLE",
		},
		"too much, one is under way": {
			steps:  []hedgeStep{inTime(2*second, 1, nil), inTime(milli, 0, throttled)},
			starts: msec(500), took: 2 * second, value: 1,
		},
	})
}

// hedgeRefusals are how an operation is refused without being sent.
var hedgeRefusals = map[string]error{
	"by a breaker": &backoff.OpenError{Name: "inner", State: backoff.BreakerHalfOpen},
	"by a budget":  backoff.Permanent(backoff.ErrBudget),
}

// What a hedge was refused for on this side of the wire says nothing of the
// attempt under way. What a breaker refused is no attempt.
func TestHedgeRefusedLocallyLeavesTheFirstAttemptAlone(t *testing.T) {
	const open = "backoff: gave up after 1 attempt: circuit open: UNKNOWN"
	for _, row := range []struct {
		name        string
		maxAttempts int
		text        string
		outcome     string
	}{
		{"by a breaker", 5, open, "not sent"},
		{"by a breaker", 2, open, "not sent"},
		{"by a budget", 5, "backoff: gave up after 2 attempts: budget refused (Budget); the limit may be MaxExtraLoad: UNKNOWN", "permanent"},
	} {
		hedgeTest(t, fmt.Sprint(row.name, ", of ", row.maxAttempts), func(t *testing.T) {
			for _, first := range []error{nil, errHedgeUnknown} {
				b := new(hedgeBudget)
				s := script(inTime(5*second, 1, first), inTime(0, 0, hedgeRefusals[row.name]))
				v, _, err := s.run(t.Context(), &hedge.Hedge{Delay: second, MaxAttempts: row.maxAttempts, Budget: b})
				require.Equal(t, 1, v)
				require.ErrorIs(t, err, first)
				require.Len(t, s.starts, 2)
				require.Equal(t, []string{row.outcome}, b.outcomes[2])
				if first != nil {
					require.EqualError(t, err, row.text)
					require.Equal(t, row.text == open, errors.Is(err, backoff.ErrOpen))
					require.False(t, new(backoff.Policy).Retryable(err))
				}
			}
		})
	}
}

func TestHedgeRefusedLocallyAfterAFailureEndsTheCall(t *testing.T) {
	for name, refusal := range hedgeRefusals {
		hedgeTest(t, name, func(t *testing.T) {
			s := script(inTime(0, 1, errHedgeUnknown), inTime(0, 0, refusal))
			_, _, err := s.run(t.Context(), &hedge.Hedge{Delay: second, MaxAttempts: 5})
			require.ErrorIs(t, err, refusal)
			require.Equal(t, name == "by a breaker", errors.Is(err, errHedgeUnknown), "the service's last answer")
			require.False(t, new(backoff.Policy).Retryable(err))
			require.Len(t, s.starts, 2)
		})
	}
}

func TestHedgeWhoseFirstAttemptIsRefusedLocallySaysSo(t *testing.T) {
	for name, text := range map[string]string{
		"by a breaker": "backoff: not started: circuit open: inner: circuit half-open",
		"by a budget":  backoff.ErrBudget.Error(), // as it is
	} {
		hedgeTest(t, name, func(t *testing.T) {
			_, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: second}, inTime(0, 0, hedgeRefusals[name]), nil)
			require.ErrorIs(t, err, hedgeRefusals[name])
			require.EqualError(t, err, text)
			require.False(t, new(backoff.Policy).Retryable(err))
		})
	}
}

func TestHedgeRefusedByAHalfOpenBreakerLeavesTheProbeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(second), Jitter: backoff.NoJitter}
		_ = b.Do(t.Context(), func(context.Context) error { return errHedgeUnknown })
		time.Sleep(second)
		s := script(inTime(500*milli, 1, nil), inTime(0, 2, nil))
		v, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: 100 * milli}, func(ctx context.Context) (int, error) {
			return backoff.DoValue(ctx, b, s.op)
		}, nil)
		require.NoError(t, err)
		require.Equal(t, 1, v, "the probe")
		require.Len(t, s.starts, 1)
	})
}

func TestHedgeRefusedByABudgetThatSaysSoIsRetried(t *testing.T) {
	budgeted := func() *hedge.Hedge { return &hedge.Hedge{Delay: second, MaxAttempts: 3} }
	runAll(t, budgeted, map[string]hedgeRun{"at once": {
		steps:  []hedgeStep{inTime(5*second, 1, nil), inTime(0, 0, backoff.OfClass(backoff.ErrBudget, backoff.ClassRetryable)), inTime(0, 3, nil)},
		starts: msec(1000, 1000), took: second, value: 3, beaten: []int{0},
	}})
}

// steering is a driver that takes note, and does nothing by itself.
type steering struct {
	sent  []func(error)
	armed []time.Duration
	rings []func()
	ends  []error
}

func (s *steering) Send(done func(error)) { s.sent = append(s.sent, done) }

func (s *steering) Arm(d time.Duration, ring func()) {
	s.armed = append(s.armed, d)
	s.rings = append(s.rings, ring)
}

func (s *steering) Over(err error) { s.ends = append(s.ends, err) }

func steered(h *hedge.Hedge) *steering {
	s := new(steering)
	_, _ = hedge.Value[struct{}](steer.With(context.Background(), s), h, nil, nil)
	return s
}

func TestASteeredHedgeGoesWhereItsDriverLetsIt(t *testing.T) {
	h := &hedge.Hedge{Delay: time.Hour, MaxExtraLoad: -1}
	s := steered(h)
	require.Len(t, s.sent, 1)
	require.Equal(t, []time.Duration{time.Hour}, s.armed)
	s.rings[0]()
	require.Len(t, s.sent, 2)
	s.sent[1](nil)
	require.Equal(t, []error{nil}, s.ends)
	s.sent[0](nil)
	s.rings[0]()
	require.Len(t, s.ends, 1, "it is over once")
	require.EqualValues(t, 1, h.Stats().Wins)
	require.EqualValues(t, 1, h.Stats().Calls)
}

func TestASteeredHedgeTriesAgainAtOnceAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steered(&hedge.Hedge{Delay: time.Hour, MaxAttempts: 3})
		s.sent[0](errBoom)
		synctest.Wait()
		require.Len(t, s.sent, 2, "and once")
		require.Empty(t, s.ends)
		s.rings[0]()
		require.Len(t, s.sent, 2, "an alarm that was replaced does nothing")
		s.sent[1](errBoom)
		s.sent[2](errBoom)
		require.Len(t, s.ends, 1)
		require.ErrorIs(t, s.ends[0], errBoom)
		require.ErrorIs(t, s.ends[0], backoff.ErrExhausted)
	})
}

func TestASteeredHedgeEndsWithAPermanentError(t *testing.T) {
	s := steered(&hedge.Hedge{Delay: time.Hour})
	s.sent[0](backoff.Permanent(errBoom))
	require.Len(t, s.sent, 1)
	require.Len(t, s.ends, 1)
	require.ErrorIs(t, s.ends[0], errBoom)
}

func TestASteeredHedgeMayEndWithItsAlarm(t *testing.T) {
	s := steered(&hedge.Hedge{Delay: time.Hour, Budget: refusesHedges()})
	s.sent[0](backoff.Pushback(errBoom, time.Minute))
	require.Empty(t, s.ends, "the server asked for a minute")
	s.rings[1]()
	require.Len(t, s.ends, 1)
	require.ErrorIs(t, s.ends[0], backoff.ErrBudget)
}

func TestASteeredHedgeThatIsInvalidSendsNothing(t *testing.T) {
	s := steered(&hedge.Hedge{MaxExtraLoad: 2})
	require.Empty(t, s.sent)
	require.Len(t, s.ends, 1)
	require.ErrorContains(t, s.ends[0], "Hedge.MaxExtraLoad is 2")
}

func TestHedgeEndsWithItsContext(t *testing.T) {
	errGone := errors.New("caller is gone")
	hedgeTest(t, "before it began", func(t *testing.T) {
		ctx, b := canceled(t, 0, errGone), new(hedgeBudget)
		<-ctx.Done()
		_, err := hedge.Value(ctx, &hedge.Hedge{Budget: b}, inTime(0, 0, errHedgeNever), nil)
		require.EqualError(t, err, "backoff: not started: caller is gone")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errGone)
		require.Empty(t, b.asked)
	})
	hedgeTest(t, "during the first attempt", func(t *testing.T) {
		b := new(hedgeBudget)
		_, took, err := script(func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, errBoom
		}).run(canceled(t, 50*milli, errGone), &hedge.Hedge{Delay: 100 * milli, Budget: b})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errGone)
		require.EqualError(t, err, "backoff: gave up after 1 attempt: caller is gone: boom")
		require.Equal(t, 50*milli, took)
		require.Equal(t, map[uint64][]string{1: {"canceled"}}, b.outcomes)
	})
	runAll(t, tenth, map[string]hedgeRun{
		"while waiting for a hedge": {
			limit:  second,
			steps:  []hedgeStep{inTime(milli, 1, errHedgeUnknown), deaf(time.Hour, 2, nil)},
			starts: msec(1), took: second, lost: []int{2},
			err: "backoff: gave up after 2 attempts: context deadline exceeded: UNKNOWN",
		},
		"but a result is not lost": {
			limit:  second,
			adjust: func(h *hedge.Hedge) { h.MaxAttempts = 1 },
			steps:  []hedgeStep{deaf(2*second, 1, nil)},
			took:   2 * second, value: 1,
		},
	})
	hedgeTest(t, "while it waits for the server", func(t *testing.T) {
		b := new(hedgeBudget)
		s := script(inTime(0, 1, backoff.RetryAfter(errHedgeUnknown, time.Minute)))
		_, took, err := s.run(canceled(t, second, nil), &hedge.Hedge{Budget: b})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errHedgeUnknown)
		require.Equal(t, time.Second, took)
		require.Len(t, b.asked, 1)
	})
	hedgeTest(t, "just when a hedge is due", func(t *testing.T) {
		for range 100 {
			s := script(deaf(150*milli, 0, errHedgeUnknown), inTime(time.Hour, 0, nil))
			_, _, err := s.run(canceled(t, 100*milli, nil), &hedge.Hedge{Delay: 100 * milli, MaxExtraLoad: -1})
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

type hedgeKey struct{}

// keepContext is an operation that keeps its context, and askContext one that
// asks when it ends, too.
func keepContext(seen *context.Context, err error) hedgeStep {
	return func(ctx context.Context) (int, error) { *seen = ctx; return 0, err }
}

func askContext(seen *context.Context) hedgeStep {
	return func(ctx context.Context) (int, error) { *seen = ctx; _ = ctx.Done(); return 0, nil }
}

var hedgeWinners = []func(*context.Context) hedgeStep{
	askContext, func(seen *context.Context) hedgeStep { return keepContext(seen, nil) },
}

func TestHedgeContextsOfLosersEndForErrLostWithThoseDerivedFromThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		_, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: milli}, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 1 {
				return 0, nil
			}
			derived, cancel := context.WithCancel(context.WithValue(ctx, hedgeKey{}, 1))
			defer cancel()
			before := runtime.NumGoroutine()
			stop := context.AfterFunc(derived, func() { close(done) })
			defer stop()
			if runtime.NumGoroutine() > before {
				return 0, errHedgeNever
			}
			<-done
			if derived.Err() != context.Canceled || context.Cause(derived) != hedge.ErrLost || ctx.Err() != context.Canceled {
				return 0, backoff.Permanent(errHedgeNever)
			}
			return 0, nil
		}, nil)
		require.NoError(t, err)
		<-done
	})
}

func TestHedgeContextsOfWinnersEndWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, winner := range hedgeWinners {
			var seen context.Context
			_, err := hedge.Value(context.WithValue(t.Context(), hedgeKey{}, "v"), &hedge.Hedge{}, winner(&seen), nil)
			require.NoError(t, err)
			require.Equal(t, "v", seen.Value(hedgeKey{}))
			require.Equal(t, context.Canceled, seen.Err())
			require.Equal(t, context.Canceled, context.Cause(seen))
			<-seen.Done()
			derived, cancel := context.WithCancel(seen)
			require.Error(t, derived.Err())
			cancel()
		}
	})
}

func TestHedgeContextsOfWinnersWhoseValueMayBeDiscardedEndWithTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, winner := range hedgeWinners {
			var seen context.Context
			ctx, cancel := context.WithCancelCause(t.Context())
			_, err := hedge.Value(ctx, &hedge.Hedge{}, winner(&seen), func(int) {})
			require.NoError(t, err)
			require.NoError(t, seen.Err())
			cancel(errHedgeUnknown)
			<-seen.Done()
			require.Equal(t, errHedgeUnknown, context.Cause(seen))
		}
	})
}

// registry is a context that counts the contexts which wait for its end.
type registry struct {
	context.Context
	done chan struct{}
	live atomic.Int64
}

func (r *registry) Done() <-chan struct{} { return r.done }

func (r *registry) Value(any) any { return nil } // package context must ask for AfterFunc

func (r *registry) AfterFunc(f func()) func() bool {
	r.live.Add(1)
	stop := context.AfterFunc(r.Context, f)
	return func() bool { r.live.Add(-1); return stop() }
}

// Only a value that may be in use still hears of the end of its context, and
// holds something for that: the caller lets go of it by a context of its own.
func TestAHedgedCallLeavesNothingOnItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &registry{Context: t.Context(), done: make(chan struct{})}
		asks := func(step hedgeStep) hedgeStep {
			return func(ctx context.Context) (int, error) { _ = ctx.Done(); return step(ctx) }
		}
		call := func(ctx context.Context, detach bool, discard func(int), steps ...hedgeStep) {
			defer func() { _ = recover() }()
			_, _ = hedge.Value(ctx, &hedge.Hedge{Delay: milli, MaxExtraLoad: -1, Detach: detach}, script(steps...).op, discard)
		}
		discard := func(int) {}
		for range 100 {
			call(all, false, nil, asks(inTime(second, 1, nil)), asks(inTime(0, 2, nil)))
			call(all, false, discard, deaf(0, 1, nil))
			call(all, false, discard, asks(deaf(0, 1, errHedgeUnknown)), asks(deaf(0, 1, errHedgeInvalid)))
			call(all, false, discard, asks(bang(second, "bang")), asks(inTime(0, 2, nil)))
			call(all, true, discard, asks(bang(milli/2, "bang")))
			rest(time.Minute)
			require.Zero(t, all.live.Load())

			ctx, cancel := context.WithCancel(all)
			call(ctx, false, discard, asks(deaf(second, 1, nil)), asks(inTime(0, 2, nil)))
			require.EqualValues(t, 1, all.live.Load(), "the value is in use")
			cancel()
			require.Zero(t, all.live.Load())
		}
	})
}

func TestHedgeContextsOfFailuresEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen context.Context
		_, err := hedge.Value(t.Context(), &hedge.Hedge{}, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 0 {
				return keepContext(&seen, errHedgeUnknown)(ctx)
			}
			if seen.Err() == nil {
				return 0, errHedgeNever
			}
			return 0, nil
		}, func(int) {})
		require.NoError(t, err)
	})
}

func TestNumberOutsideOfAHedgeIsZero(t *testing.T) {
	require.Zero(t, hedge.Number(t.Context()))
}
