package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/stretchr/testify/require"
)

// hedgeAgain is hedgeGRPC that goes by what the errors say of themselves.
func hedgeAgain() *backoff.Hedge {
	h := hedgeGRPC()
	h.Classify = nil
	return h
}

func pushback(d time.Duration) error { return backoff.Pushback(errHedgeUnavailable, d) }

func TestHedgeSendsNoMoreOnceTheServerSaysNotToRetry(t *testing.T) {
	hedgeTest(t, "with one under way", func(t *testing.T) {
		s := script(inTime(600*milli, 0, pushback(-1)), inTime(3*second, 2, nil))
		v, took, err := s.run(t.Context(), hedgeAgain())
		require.NoError(t, err)
		require.Equal(t, 2, v)
		require.Equal(t, []time.Duration{0, 500 * milli}, s.starts, "the one under way goes on, no other follows")
		require.Equal(t, 3500*milli, took)
	})
	hedgeTest(t, "with nothing under way", func(t *testing.T) {
		s := script(inTime(milli, 0, pushback(-1)))
		_, took, err := s.run(t.Context(), hedgeAgain())
		require.EqualError(t, err, "backoff: grpc: gave up after 1 attempt in 1ms: the server says not to retry: UNAVAILABLE")
		require.Equal(t, milli, took)
	})
	hedgeTest(t, "after a failure", func(t *testing.T) {
		s := script(inTime(600*milli, 0, errHedgeUnknown), inTime(10*milli, 0, pushback(-1)))
		_, _, err := s.run(t.Context(), hedgeAgain())
		require.ErrorIs(t, err, errHedgeUnknown)
		require.ErrorContains(t, err, "the server says not to retry")
		require.Len(t, s.starts, 2)
	})
}

func TestHedgeIsSentJustWhenTheServerSays(t *testing.T) {
	for name, hint := range map[string]error{
		"after a while":                 pushback(2 * second),
		"after a while, by RetryAfter":  backoff.RetryAfter(errHedgeUnavailable, 2*second),
		"after a while, when throttled": backoff.RetryAfter(backoff.WithClass(errHedgeUnavailable, backoff.ClassThrottled), 2*second),
	} {
		hedgeTest(t, name, func(t *testing.T) {
			s := script(inTime(100*milli, 0, hint), inTime(time.Minute, 2, nil), inTime(milli, 3, nil))
			v, _, err := s.run(t.Context(), hedgeAgain())
			require.NoError(t, err)
			require.Equal(t, 3, v)
			require.Equal(t, []time.Duration{0, 2100 * milli, 2600 * milli}, s.starts, "exactly then, then at the delay")
		})
	}
	hedgeTest(t, "at once", func(t *testing.T) {
		s := script(inTime(100*milli, 0, pushback(0)), inTime(milli, 2, nil))
		_, _, err := s.run(t.Context(), hedgeAgain())
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 100 * milli}, s.starts)
	})
	hedgeTest(t, "whatever fails meanwhile", func(t *testing.T) {
		s := script(inTime(second, 0, errHedgeUnknown), inTime(100*milli, 0, pushback(2*second)), inTime(milli, 3, nil))
		_, _, err := s.run(t.Context(), hedgeAgain())
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 500 * milli, 2600 * milli}, s.starts)
	})
}

func TestHedgeWaitsForNoHintBeyondMaxHint(t *testing.T) {
	hedgeTest(t, "beyond it", func(t *testing.T) {
		s := script(inTime(milli, 0, pushback(6*time.Minute)))
		_, took, err := s.run(t.Context(), hedgeAgain())
		require.EqualError(t, err, "backoff: grpc: gave up after 1 attempt in 1ms: the server asks to wait 6m0s, more than MaxRetryAfter 5m0s: UNAVAILABLE")
		require.Equal(t, milli, took)
		var gaveUp *backoff.Error
		require.ErrorAs(t, err, &gaveUp)
		require.Equal(t, 6*time.Minute, gaveUp.RetryAfter())
	})
	hedgeTest(t, "but for any without it", func(t *testing.T) {
		h := hedgeAgain()
		h.MaxRetryAfter = -1
		s := script(inTime(0, 0, pushback(time.Hour)), inTime(0, 2, nil))
		_, took, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, time.Hour, took)
	})
}

func TestHedgeWaitsForNoHintBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*second)
		defer cancel()
		s := script(inTime(milli, 0, pushback(2*second)))
		_, took, err := s.run(ctx, hedgeAgain())
		require.EqualError(t, err, "backoff: grpc: gave up after 1 attempt in 1ms: the next wait of 2s would pass the deadline in 2s: UNAVAILABLE")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, milli, took)
	})
}

func TestHedgeWaitsForAHintOfJustMaxHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(inTime(0, 0, backoff.Pushback(errHedgeUnavailable, 5*time.Minute)), inTime(0, 2, nil))
		_, took, err := s.run(t.Context(), new(backoff.Hedge))
		require.NoError(t, err)
		require.Equal(t, 5*time.Minute, took)
	})
}

func TestHedgeAtTheVeryDeadlineIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*second)
		defer cancel()
		s := script(inTime(0, 0, backoff.Pushback(errHedgeUnknown, 2*second)))
		_, took, err := s.run(ctx, &backoff.Hedge{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, took)
	})
}

func TestHedgeTellsADeadlineThatPassedFromOneThatWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*second)
		defer cancel()
		s := script(inTime(time.Hour, 0, nil), inTime(0, 0, backoff.Pushback(errHedgeUnknown, time.Minute)))
		_, _, err := s.run(ctx, &backoff.Hedge{Delay: second, MaxAttempts: 3})
		require.EqualError(t, err, "backoff: gave up after 2 attempts in 10s: context deadline exceeded")
	})
}

// "Too much" without a time is no reason to send more at once.
func TestHedgeIsNotSentToAThrottlingServer(t *testing.T) {
	throttled := backoff.WithClass(errHedgeUnavailable, backoff.ClassThrottled)
	hedgeTest(t, "alone", func(t *testing.T) {
		s := script(inTime(milli, 0, throttled))
		_, took, err := s.run(t.Context(), &backoff.Hedge{Delay: second})
		require.ErrorIs(t, err, errHedgeUnavailable)
		require.Equal(t, milli, took)
	})
	hedgeTest(t, "with one under way", func(t *testing.T) {
		s := script(inTime(2*second, 1, nil), inTime(milli, 0, throttled))
		v, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 3})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Len(t, s.starts, 2)
	})
}
