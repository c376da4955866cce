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
	"github.com/gobackoff/backoff/hedge"
)

// A hedge makes its own key.
func TestAPatientCallKeepsTheKeyOfItsHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := new(backoff.Patience), &hedge.Hedge{Idempotency: backoff.Keyed, Delay: time.Second}
		keys := map[string]int{}
		require.NoError(t, p.Do(t.Context(), func(ctx context.Context) error {
			_, err := hedge.Value(ctx, h, func(ctx context.Context) (int, error) {
				keys[backoff.IdempotencyKey(ctx)]++
				if len(keys) == 1 && keys[backoff.IdempotencyKey(ctx)] <= 3 {
					return 0, backoff.OfClass(errors.New("reset"), backoff.ClassRetryable)
				}
				return 0, nil
			}, nil)
			return err
		}))
		require.Len(t, keys, 1)
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
		p, h := new(backoff.Patience), &hedge.Hedge{Idempotency: ifNotSent{}, Delay: time.Second}
		attempts := 0
		require.Error(t, p.Do(t.Context(), func(ctx context.Context) error {
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
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

func TestAHedgeThatGaveUpIsKnownByItsText(t *testing.T) {
	outer := backoff.Policy{Schedule: backoff.Constant(0), AttemptTimeout: time.Hour}
	calls := 0
	err := outer.Do(t.Context(), func(ctx context.Context) error {
		calls++
		_, err := hedge.Value(ctx, &hedge.Hedge{}, func(context.Context) (int, error) {
			return 0, backoff.OfClass(errBoom, backoff.ClassOverloaded)
		}, nil)
		return flat(err)
	})
	require.Error(t, err)
	require.Equal(t, 1, calls)
}
