package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/stretchr/testify/require"
)

// hedgeRefusals are how an operation is refused without being sent.
var hedgeRefusals = map[string]error{
	"by a breaker": &backoff.OpenError{Name: "inner", State: backoff.StateHalfOpen},
	"by a budget":  backoff.Permanent(backoff.ErrBudget),
}

// What a hedge was refused for on this side of the wire says nothing of the attempt
// under way.
func TestHedgeRefusedLocallyLeavesTheFirstAttemptAlone(t *testing.T) {
	for name, refusal := range hedgeRefusals {
		hedgeTest(t, name, func(t *testing.T) {
			s := script(inTime(5*second, 1, nil), inTime(0, 0, refusal))
			v, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 5})
			require.NoError(t, err)
			require.Equal(t, 1, v)
			require.Len(t, s.starts, 2)
		})
		hedgeTest(t, name+", then a failure", func(t *testing.T) {
			s := script(inTime(5*second, 1, errHedgeUnknown), inTime(0, 0, refusal))
			_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 5})
			require.ErrorIs(t, err, errHedgeUnknown)
			require.False(t, new(backoff.Policy).Retryable(err))
		})
	}
}

func TestHedgeRefusedLocallyAfterAFailureEndsTheCall(t *testing.T) {
	for name, refusal := range hedgeRefusals {
		hedgeTest(t, name, func(t *testing.T) {
			s := script(inTime(0, 1, errHedgeUnknown), inTime(0, 0, refusal))
			_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 5})
			require.ErrorIs(t, err, refusal)
			require.False(t, new(backoff.Policy).Retryable(err))
			require.Len(t, s.starts, 2)
		})
	}
}

func TestHedgeWhoseFirstAttemptIsRefusedLocallySaysSo(t *testing.T) {
	for name, refusal := range hedgeRefusals {
		hedgeTest(t, name, func(t *testing.T) {
			s := script(inTime(0, 0, refusal))
			_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second})
			require.ErrorIs(t, err, refusal)
			require.Contains(t, err.Error(), refusal.Error())
			require.False(t, new(backoff.Policy).Retryable(err))
		})
	}
	hedgeTest(t, "by a budget, as it is", func(t *testing.T) {
		_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{}, inTime(0, 0, backoff.Permanent(backoff.ErrBudget)), nil)
		require.EqualError(t, err, backoff.ErrBudget.Error())
	})
}

func TestHedgeRefusedLocallyIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(hedgeBudget)
		s := script(inTime(5*second, 1, errHedgeUnknown), inTime(0, 0, &backoff.OpenError{}))
		_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, Budget: b})
		var gaveUp *backoff.Error
		require.ErrorAs(t, err, &gaveUp)
		require.Equal(t, 1, gaveUp.Attempts)
		require.Equal(t, backoff.ReasonOpen, gaveUp.Reason)
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, []backoff.Outcome{backoff.OutcomeNotSent}, b.outcomes[2])
	})
}

func TestHedgeRefusedLocallyLetsTheLastAnswerOfTheServiceStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(inTime(0, 0, errHedgeUnknown), inTime(0, 0, &backoff.OpenError{}))
		_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second})
		require.ErrorIs(t, err, errHedgeUnknown)
		require.ErrorIs(t, err, backoff.ErrOpen)
	})
}

func TestHedgeRefusedByAHalfOpenBreakerLeavesTheProbeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(second), Jitter: backoff.NoJitter}
		_ = b.Do(t.Context(), func(context.Context) error { return errHedgeUnknown })
		time.Sleep(second)
		s := script(inTime(500*milli, 1, nil), inTime(0, 2, nil))
		v, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{Delay: 100 * milli}, func(ctx context.Context) (int, error) {
			return backoff.DoValue(ctx, b, s.op)
		}, nil)
		require.NoError(t, err)
		require.Equal(t, 1, v, "the probe")
		require.Len(t, s.starts, 1)
	})
}

func TestHedgeRefusedByTheBudgetOfItsOperation(t *testing.T) {
	hedgeTest(t, "says so if the first fails", func(t *testing.T) {
		s := script(inTime(5*second, 1, errHedgeUnknown), inTime(0, 0, backoff.Permanent(backoff.ErrBudget)))
		_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 3})
		require.ErrorContains(t, err, "budget refused: UNKNOWN")
	})
	hedgeTest(t, "unless it says that it may be retried", func(t *testing.T) {
		s := script(inTime(5*second, 1, nil), inTime(0, 0, backoff.WithClass(backoff.ErrBudget, backoff.ClassRetryable)), inTime(0, 3, nil))
		v, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 3})
		require.NoError(t, err)
		require.Equal(t, 3, v)
	})
}
