package hedge_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
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
func TestAPatientCallKeepsTheKeyOfItsHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keyed := range []bool{true, false} {
			s, h := guard.Service{Patient: true}, &hedge.Hedge{Idempotency: backoff.Keyed, Delay: time.Second}
			p := backoff.Policy{MaxAttempts: 1}
			if keyed {
				p.Idempotency = backoff.Keyed
			}
			keys := map[string]int{}
			err := s.Do(t.Context(), p, func(ctx context.Context) error {
				_, err := hedge.Value(ctx, h, func(ctx context.Context) (int, error) {
					keys[backoff.IdempotencyKey(ctx)]++
					if keys[backoff.IdempotencyKey(ctx)] <= 3 {
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
		s, h := guard.Service{Budget: budget}, &hedge.Hedge{Delay: time.Second, MaxExtraLoad: -1}
		var attempts atomic.Int32
		for range 10 {
			require.NoError(t, s.Do(t.Context(), backoff.Policy{MaxAttempts: 1}, func(ctx context.Context) error {
				_, err := hedge.Value(ctx, h, func(ctx context.Context) (int, error) {
					if attempts.Add(1); hedge.Number(ctx) == 0 {
						<-ctx.Done()
					}
					return 0, ctx.Err()
				}, nil)
				return err
			}))
		}
		require.EqualValues(t, 20, attempts.Load())
		require.EqualValues(t, 10, s.State().Breaker.Successes)
		require.EqualValues(t, 10, budget.Stats().Successes)
	})
}

func TestNoHedgeRunsBesideAnAttemptThatMayHaveBeenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedge.Hedge{Idempotency: ifNotSent{}, Delay: time.Second, MaxAttempts: 3, MaxExtraLoad: -1}
		attempts := 0
		_, err := hedge.Value(t.Context(), h, func(context.Context) (int, error) {
			if attempts++; attempts == 1 {
				return 0, syscall.ECONNREFUSED
			}
			time.Sleep(time.Minute)
			return 0, nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, 2, attempts)
	})
}

func TestAHedgeFollowsWhenAllAttemptsWereNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedge.Hedge{Idempotency: ifNotSent{}, Delay: time.Second, MaxAttempts: 3, MaxExtraLoad: -1}
		attempts := 0
		_, err := hedge.Value(t.Context(), h, func(context.Context) (int, error) {
			if attempts++; attempts == 2 {
				time.Sleep(1500 * time.Millisecond) // another one was due meanwhile
			}
			if attempts < 3 {
				return 0, syscall.ECONNREFUSED
			}
			return 0, nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, 3, attempts)
	})
}

func TestAPatientCallDoesNotRepeatWhatItsHedgeMustNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := guard.Service{Patient: true}, &hedge.Hedge{Idempotency: ifNotSent{}, Delay: time.Second}
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
	synctest.Test(t, func(t *testing.T) {
		ctx := within(t, time.Minute)
		var end backoff.Event
		hedged := hedge.Hedge{Delay: time.Second, Observer: func(_ context.Context, e backoff.Event) { end = e }}
		_, err := hedge.Value(ctx, &hedged, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 0 {
				return 0, backoff.OfClass(errBoom, backoff.ClassNotSent)
			}
			<-ctx.Done()
			return 0, io.ErrUnexpectedEOF
		}, nil)
		require.EqualError(t, err, "backoff: gave up after 2 attempts: context deadline exceeded: boom")
		require.Equal(t, backoff.ClassNotSent, end.Class)
	})
}
