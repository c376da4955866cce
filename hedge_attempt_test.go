package backoff_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/stretchr/testify/require"
)

func TestHedgeEndsWithItsContext(t *testing.T) {
	errGone := errors.New("caller is gone")
	hedgeTest(t, "before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		b := new(hedgeBudget)
		_, err := backoff.HedgeValue(ctx, &backoff.Hedge{Budget: b}, inTime(0, 0, errHedgeNever), nil)
		require.EqualError(t, err, "backoff: not started: caller is gone")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errGone)
		require.Empty(t, b.asked)
	})
	hedgeTest(t, "during the first attempt", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*milli, func() { cancel(errGone) })
		s := script(inTime(time.Hour, 1, nil))
		_, took, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errGone)
		require.Equal(t, 50*milli, took)
	})
	hedgeTest(t, "while waiting for a hedge", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		s := script(inTime(milli, 1, errHedgeUnknown), deaf(time.Hour, 2, nil))
		_, took, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errHedgeUnknown)
		require.Equal(t, time.Second, took)
		rest(2 * time.Hour)
		require.Equal(t, []int{2}, s.lost())
	})
	hedgeTest(t, "while it waits for the server", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(second, cancel)
		b := new(hedgeBudget)
		s := script(inTime(0, 1, backoff.RetryAfter(errHedgeUnknown, time.Minute)))
		_, took, err := s.run(ctx, &backoff.Hedge{Budget: b})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errHedgeUnknown)
		require.Equal(t, time.Second, took)
		require.Len(t, b.asked, 1)
	})
	hedgeTest(t, "but a result is not lost", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		v, err := backoff.HedgeValue(ctx, &backoff.Hedge{}, deaf(2*second, 1, nil), nil)
		require.NoError(t, err)
		require.Equal(t, 1, v)
	})
	hedgeTest(t, "just when a hedge is due", func(t *testing.T) {
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*milli, cancel)
			s := script(deaf(150*milli, 0, errHedgeUnknown), inTime(time.Hour, 0, nil))
			_, _, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli, MaxExtraLoad: -1})
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

func TestHedgeContextsCarryTheCallsValuesAndDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), hedgeKey{}, "v"), second)
		defer cancel()
		for _, asks := range []bool{false, true} {
			_, err := backoff.HedgeValue(ctx, &backoff.Hedge{}, func(ctx context.Context) (int, error) {
				if asks {
					_ = ctx.Done()
				}
				deadline, ok := ctx.Deadline()
				if !ok || time.Until(deadline) != second || ctx.Value(hedgeKey{}) != "v" || ctx.Err() != nil {
					return 0, errHedgeNever
				}
				return 0, nil
			}, nil)
			require.NoError(t, err)
		}
	})
}

func TestHedgeContextsEndWithThatOfTheCallCauseAndAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, asks := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			_, err := backoff.HedgeValue(ctx, &backoff.Hedge{}, func(attempt context.Context) (int, error) {
				if asks {
					_ = attempt.Done()
				}
				cancel(errHedgeUnknown)
				if attempt.Err() != context.Canceled {
					return 0, errHedgeNever
				}
				<-attempt.Done()
				if attempt.Err() != context.Canceled || context.Cause(attempt) != errHedgeUnknown {
					return 0, errHedgeNever
				}
				return 0, nil
			}, nil)
			require.NoError(t, err)
		}
	})
}

func TestHedgeContextsOfLosersEndForErrHedgeLostWithThoseDerivedFromThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{Delay: milli}, func(ctx context.Context) (int, error) {
			if backoff.HedgeNumber(ctx) == 1 {
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
			if derived.Err() != context.Canceled || context.Cause(derived) != backoff.ErrHedgeLost || ctx.Err() != context.Canceled {
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
			_, err := backoff.HedgeValue(context.WithValue(t.Context(), hedgeKey{}, "v"), &backoff.Hedge{}, winner(&seen), nil)
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
			_, err := backoff.HedgeValue(ctx, &backoff.Hedge{}, winner(&seen), func(int) {})
			require.NoError(t, err)
			require.NoError(t, seen.Err())
			cancel(errHedgeUnknown)
			<-seen.Done()
			require.Equal(t, errHedgeUnknown, context.Cause(seen))
		}
	})
}

func TestHedgeContextsOfFailuresEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen context.Context
		_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{}, func(ctx context.Context) (int, error) {
			if backoff.HedgeNumber(ctx) == 0 {
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

func TestHedgeContextsMayBeAskedByManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			var wg sync.WaitGroup
			_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{}, func(ctx context.Context) (int, error) {
				for range 4 {
					wg.Go(func() { <-ctx.Done() })
				}
				return 0, nil
			}, nil)
			require.NoError(t, err)
			wg.Wait()
		}
	})
}

func TestHedgeNumberOutsideOfAHedgeIsZero(t *testing.T) {
	require.Zero(t, backoff.HedgeNumber(t.Context()))
}

func TestHedgeContextOfAFailureEndsForNoLaterCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen context.Context
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := backoff.HedgeValue(ctx, &backoff.Hedge{MaxAttempts: 1}, func(ctx context.Context) (int, error) {
			_, seen = ctx.Done(), ctx
			return 0, errHedgeUnknown
		}, nil)
		require.Error(t, err)
		cancel(errHedgeNever)
		require.Equal(t, context.Canceled, context.Cause(seen))
	})
}
