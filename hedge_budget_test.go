package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
	"github.com/stretchr/testify/require"
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
			{Number: 1, Kind: backoff.AttemptFirst, MaxAttempts: 3, Now: s.began},
			{Number: 2, Kind: backoff.AttemptHedge, Class: backoff.ClassRetryable, MaxAttempts: 3, Now: s.began.Add(100 * milli)},
			{Number: 3, Kind: backoff.AttemptHedge, Class: backoff.ClassRetryable, MaxAttempts: 3, Now: s.began.Add(600 * milli)},
		} {
			require.True(t, want.Now.Equal(b.asked[i].Now))
			want.Now = b.asked[i].Now
			require.Equal(t, want, b.asked[i])
		}
		require.Equal(t, map[uint64][]backoff.Outcome{
			1: {backoff.OutcomeTransient}, 2: {backoff.OutcomeCanceled}, 3: {backoff.OutcomeSuccess},
		}, b.outcomes)
	})
}

func TestHedgeIsNotSentIfItsBudgetRefuses(t *testing.T) {
	hedgeTest(t, "while the first attempt is slow", func(t *testing.T) {
		b := &hedgeBudget{grant: func(a backoff.Attempt) (time.Duration, bool) { return 0, a.Kind == backoff.AttemptFirst }}
		h := &backoff.Hedge{Delay: 100 * milli, MaxAttempts: 5, Budget: b}
		s := script(inTime(second, 1, nil))
		v, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Len(t, b.asked, 2, "and is then left alone")
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeSuccess}}, b.outcomes)
		require.EqualValues(t, 1, h.Stats().Refused)

		for range 20 { // what the hedge's own budget paid was paid back
			_, err = backoff.HedgeValue(t.Context(), h, inTime(150*milli, 0, errHedgeUnknown), nil)
			require.ErrorIs(t, err, backoff.ErrBudget)
			require.ErrorIs(t, err, errHedgeUnknown)
			require.ErrorContains(t, err, "budget refused: UNKNOWN")
		}
		require.Len(t, b.asked, 42)
	})
	hedgeTest(t, "after the wait that the server asked for", func(t *testing.T) {
		b := &hedgeBudget{grant: func(a backoff.Attempt) (time.Duration, bool) { return 0, a.Kind == backoff.AttemptFirst }}
		s := script(inTime(0, 0, backoff.Pushback(errHedgeUnknown, second)))
		_, took, err := s.run(t.Context(), &backoff.Hedge{Budget: b})
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorIs(t, err, errHedgeUnknown)
		require.Equal(t, time.Second, took)
	})
}

func TestHedgeStartsNoCallThatItsBudgetRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &hedgeBudget{grant: func(backoff.Attempt) (time.Duration, bool) { return 0, false }}
		_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.EqualError(t, err, "backoff: not started: budget refused")
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Empty(t, b.outcomes)
	})
}

func TestHedgeIsNotSentIfItsBudgetIsOutOfPlacesAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &hedgeBudget{depart: func(number int) bool { return number == 1 }}
		h := &backoff.Hedge{Delay: 100 * milli, Budget: b}
		s := script(inTime(second, 0, errHedgeUnknown))
		_, _, err := s.run(t.Context(), h)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeTransient}, 2: {backoff.OutcomeNotSent}}, b.outcomes)
		require.Zero(t, h.Stats().Hedges)

		b = &hedgeBudget{depart: func(int) bool { return false }}
		_, err = backoff.HedgeValue(t.Context(), &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeNotSent}}, b.outcomes)
	})
}

func TestHedgeIsSentNoSoonerThanItsBudgetWants(t *testing.T) {
	hedgeTest(t, "after the delay", func(t *testing.T) {
		b := &hedgeBudget{grant: hedgeWait(second)}
		h := hedgeGRPC()
		h.Budget = b
		s := script(inTime(time.Hour, 1, nil), inTime(time.Hour, 2, nil), inTime(milli, 3, nil))
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 1500 * milli, 4 * time.Second}, s.starts)
		require.Len(t, b.asked, 3)
	})
	hedgeTest(t, "if all are sent at once", func(t *testing.T) {
		h := hedgeGRPC()
		h.Delay, h.Budget = -1, &hedgeBudget{grant: hedgeWait(second)}
		s := script(inTime(time.Hour, 1, nil), inTime(time.Hour, 2, nil), inTime(milli, 3, nil))
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second}, s.starts)
	})
	hedgeTest(t, "whatever fails meanwhile", func(t *testing.T) {
		h := &backoff.Hedge{Delay: 100 * milli, Budget: &hedgeBudget{grant: hedgeWait(second)}}
		s := script(inTime(200*milli, 1, errHedgeUnknown), inTime(milli, 2, nil))
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 1100 * milli}, s.starts)
	})
}

func TestHedgeGivesBackWhatItDoesNotUseOfItsBudget(t *testing.T) {
	hedgeTest(t, "when the first attempt is back", func(t *testing.T) {
		b := &hedgeBudget{grant: hedgeWait(second)}
		h := &backoff.Hedge{Delay: 100 * milli, Budget: b}
		for range 20 {
			s := script(inTime(200*milli, 1, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
			require.Len(t, s.starts, 1)
			require.Equal(t, []backoff.Outcome{backoff.OutcomeNotSent}, b.outcomes[2])
			b.outcomes = nil
		}
		require.Zero(t, h.Stats().Refused)
		require.Zero(t, h.Stats().Hedges)
	})
	hedgeTest(t, "when it would come too late", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		b := &hedgeBudget{grant: hedgeWait(second)}
		s := script(inTime(200*milli, 1, errHedgeUnknown))
		_, _, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli, Budget: b})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeTransient}, 2: {backoff.OutcomeNotSent}}, b.outcomes)
	})
}

func TestHedgeWaitsForItsBudget(t *testing.T) {
	patient := func() *hedgeBudget {
		return &hedgeBudget{grant: func(backoff.Attempt) (time.Duration, bool) { return second, true }}
	}
	hedgeTest(t, "before the first attempt, and does not measure it", func(t *testing.T) {
		h := &backoff.Hedge{Budget: patient(), MaxAttempts: 1}
		for range 100 {
			s := script(inTime(10*milli, 1, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
			require.Equal(t, []time.Duration{time.Second}, s.starts)
		}
		require.InEpsilon(t, float64(10*milli), float64(h.Stats().Delay), .1)
	})
	hedgeTest(t, "within its deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		b := patient()
		_, err := backoff.HedgeValue(ctx, &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.EqualError(t, err, "backoff: not started: the next wait of 1s would pass the deadline in 1s")
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeNotSent}}, b.outcomes)

		b = patient()
		b.depart = func(int) bool { panic("it does not depart") }
		_, err = backoff.HedgeValue(ctx, &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeNotSent}}, b.outcomes)
	})
	hedgeTest(t, "until its context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(milli, cancel)
		b := patient()
		_, err := backoff.HedgeValue(ctx, &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeNotSent}}, b.outcomes)
	})
}

// Losers hold their places in flight until they are back, so the cap is right.
func TestHedgeCountsAsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.Concurrency{Max: 2}
		h := &backoff.Hedge{Delay: 100 * milli, MaxAttempts: 3, Budget: b}
		s := script(inTime(250*milli, 1, nil), deaf(second, 2, nil), inTime(0, 3, nil))
		v, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, 1, v, "there was no place for a third")
		require.Equal(t, 1, b.Load())
		rest(time.Minute)
		require.Zero(t, b.Load())
	})
}
