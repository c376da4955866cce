package hedge_test

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
)

// A call that waits for its service is made again under the same key, if the policy
// makes that. A key of the hedge's own is known to that call only.
func TestACallThatWaitsKeepsTheKeyOfItsHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keyed := range []bool{true, false} {
			s, h := guard.Service{}, &hedge.Hedge{Idempotency: backoff.Keyed, Delay: time.Second}
			p := backoff.Policy{Schedule: backoff.Constant(0)}
			if keyed {
				p.Idempotency = backoff.Keyed
			}
			keys := map[string]int{}
			err := s.Do(t.Context(), p, func(ctx context.Context) error {
				_, err := hedge.Value(ctx, h, func(ctx context.Context) (int, error) {
					keys[backoff.IdempotencyKey(ctx)]++
					if keys[backoff.IdempotencyKey(ctx)] <= 5 {
						return 0, backoff.OfClass(errors.New("reset"), backoff.ClassRetryable)
					}
					return 0, nil
				}, nil)
				return err
			})
			require.Equal(t, keyed, err == nil, "%v", err)
			require.Len(t, keys, 1)
		}
	})
}

func TestToAServiceAHedgedCallIsOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := new(backoff.RetryBudget)
		service, h := guard.Service{Budget: budget}, &hedge.Hedge{Delay: time.Second, MaxExtraLoad: -1}
		for range 10 {
			s := script(inTime(time.Minute, 0, nil), inTime(0, 0, nil))
			require.NoError(t, service.Do(t.Context(), backoff.Policy{MaxAttempts: 1}, func(ctx context.Context) error {
				_, _, err := s.run(ctx, h)
				return err
			}))
			require.Len(t, s.starts, 2)
		}
		require.EqualValues(t, 10, service.State().Breaker.Successes)
		require.EqualValues(t, 10, budget.Stats().Successes)
	})
}

func TestACallThatMayWaitDoesNotRepeatWhatItsHedgeMustNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := guard.Service{}, &hedge.Hedge{Idempotency: ifNotSent{}, Delay: time.Second}
		attempts := 0
		require.Error(t, s.Do(t.Context(), backoff.Policy{MaxAttempts: 1}, func(ctx context.Context) error {
			_, err := hedge.Value(ctx, h, func(ctx context.Context) (int, error) {
				if attempts++; attempts == 1 {
					return 0, syscall.ECONNREFUSED
				}
				return 0, backoff.OfClass(errors.New("reset"), backoff.ClassRetryable)
			}, nil)
			return err
		}))
		require.Equal(t, 2, attempts)
	})
}

func TestAHedgeKeepsTheLastErrorFromWhileTheContextLived(t *testing.T) {
	for late, class := range map[error]backoff.Class{io.ErrUnexpectedEOF: backoff.ClassNotSent, backoff.Permanent(errBoom): backoff.ClassPermanent} {
		hedgeTest(t, late.Error(), func(t *testing.T) {
			ctx := within(t, time.Minute)
			h := &hedge.Hedge{Delay: time.Second}
			got := observed(h)
			_, _, err := script(func(ctx context.Context) (int, error) { // the caller's goroutine runs it, and so it ends the call
				<-ctx.Done()
				return 0, late // an answer counts that was on its way
			}, inTime(0, 0, backoff.OfClass(errBoom, backoff.ClassNotSent))).run(ctx, h)
			require.EqualError(t, err, "backoff: gave up after 2 attempts: context deadline exceeded: boom")
			require.Equal(t, class, (*got)[1].Class)
		})
	}
}
