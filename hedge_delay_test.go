package backoff_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/stretchr/testify/require"
)

func TestHedgeSendsNoneUntilItHasMeasuredAHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h backoff.Hedge
		fast, slow := inTime(20*milli, 1, nil), inTime(time.Hour, 1, nil)
		for n := range 99 {
			require.Zero(t, h.Stats().Delay, "after %d", n)
			_, err := backoff.HedgeValue(t.Context(), &h, fast, nil)
			require.NoError(t, err)
			if n == 50 {
				s := script(slow, fast)
				_, took, err := s.run(t.Context(), &h)
				require.NoError(t, err)
				require.Equal(t, time.Hour, took)
			}
		}
		delay := h.Stats().Delay
		require.InEpsilon(t, float64(20*milli), float64(delay), .1)
		s := script(slow, fast)
		_, took, err := s.run(t.Context(), &h)
		require.NoError(t, err)
		require.Equal(t, delay+20*milli, took)
	})
}

// A failure needs no measure.
func TestHedgeAfterAFailureIsSentFromTheFirstCallOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(inTime(5*milli, 0, errHedgeUnknown), inTime(time.Hour, 2, nil))
		v, _, err := s.run(t.Context(), &backoff.Hedge{MaxAttempts: 3})
		require.NoError(t, err)
		require.Equal(t, 2, v)
		require.Equal(t, []time.Duration{0, 5 * milli}, s.starts)
	})
}

// hedgeMeasured returns a hedge that has seen so many calls take d.
func hedgeMeasured(t *testing.T, d time.Duration) *backoff.Hedge {
	h := new(backoff.Hedge)
	for range 100 {
		_, err := backoff.HedgeValue(t.Context(), h, inTime(d, 0, nil), nil)
		require.NoError(t, err)
	}
	return h
}

func TestHedgeWithoutALimitOfExtraLoadIsSentAtTheDelayOfFivePercent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &backoff.Hedge{MaxExtraLoad: -1, MaxAttempts: 1}
		for n := range 200 {
			_, err := backoff.HedgeValue(t.Context(), h, inTime(time.Duration(n+1)*second, 0, nil), nil)
			require.NoError(t, err)
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
		ctx, cancel := context.WithTimeout(t.Context(), 800*milli)
		defer cancel()
		s := script(inTime(second, 1, nil), inTime(10*milli, 2, nil))
		_, took, err := s.run(ctx, h)
		require.NoError(t, err)
		require.Equal(t, 410*milli, took)
	})
	hedgeTest(t, "nothing, if a millisecond is more than half", func(t *testing.T) {
		h := hedgeMeasured(t, second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*milli-1)
		defer cancel()
		s := script(inTime(second, 1, nil))
		_, took, err := s.run(ctx, h)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*milli-1, took)
		require.Len(t, s.starts, 1)
	})
}

func TestHedgeIsNotSentWithLessTimeLeftThanItsDelay(t *testing.T) {
	starts := func(t *testing.T, timeout time.Duration, first hedgeStep) ([]time.Duration, error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		s := script(first, inTime(time.Hour, 2, nil), inTime(time.Hour, 3, nil))
		_, _, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli, MaxAttempts: 3})
		synctest.Wait()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return s.starts, err
	}
	hedgeTest(t, "by its delay", func(t *testing.T) {
		got, _ := starts(t, 200*milli-1, inTime(time.Hour, 1, nil))
		require.Equal(t, []time.Duration{0}, got)
		got, _ = starts(t, 200*milli, inTime(time.Hour, 1, nil))
		require.Equal(t, []time.Duration{0, 100 * milli}, got)
		got, _ = starts(t, 300*milli, inTime(time.Hour, 1, nil))
		require.Equal(t, []time.Duration{0, 100 * milli, 200 * milli}, got)
	})
	hedgeTest(t, "after a failure", func(t *testing.T) {
		got, err := starts(t, 130*milli, inTime(50*milli, 1, errHedgeUnknown))
		require.Equal(t, []time.Duration{0}, got)
		require.EqualError(t, err, "backoff: gave up after 1 attempt in 50ms: the next wait of 100ms would pass the deadline in 80ms: UNKNOWN")
		got, _ = starts(t, 150*milli, inTime(50*milli, 1, errHedgeUnknown))
		require.Equal(t, []time.Duration{0, 50 * milli}, got)
	})
}

// One call in a thousand takes 30 s.
func TestHedgeEstimateWithstandsOutliers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := backoff.Hedge{MaxAttempts: 1} // measures, and cannot shorten the tail
		service := lognormal(rand.New(rand.NewPCG(7, 8)), 1)
		for n := range 10_000 {
			op := service
			if n%1000 == 500 {
				op = inTime(30*second, 0, nil)
			}
			_, err := backoff.HedgeValue(t.Context(), &h, op, nil)
			require.NoError(t, err)
			if n > 1000 && n%100 == 0 {
				require.InDelta(t, 23.8, float64(h.Stats().Delay)/1e6, 5)
			}
		}
	})
}

func TestHedgeEstimateLeavesOutFailures(t *testing.T) {
	hedgeTest(t, "and what was cancelled", func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		before := h.Stats().Delay
		for range 500 {
			_, err := backoff.HedgeValue(t.Context(), h, inTime(time.Microsecond, 0, errHedgeInvalid), nil)
			require.Error(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 10*milli)
			_, err = backoff.HedgeValue(ctx, h, inTime(second, 0, nil), nil)
			require.Error(t, err)
			cancel()
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
		for range 40 {
			_, err := backoff.HedgeValue(t.Context(), h, inTime(20*milli, 0, nil), nil)
			require.NoError(t, err)
		}
		require.Equal(t, before, h.Stats().Delay)
	})
}

func TestHedgeEstimateCountsAsSlowWhatWasBeatenEarlyForADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		h.MaxExtraLoad = -1
		before := h.Stats().Delay
		for range 2500 {
			ctx, cancel := context.WithTimeout(t.Context(), 8*milli)
			s := script(inTime(20*milli, 1, nil), inTime(0, 2, nil))
			v, took, err := s.run(ctx, h)
			cancel()
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
