package backoff_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/force"
)

// forceFirst makes the first attempt of each call fail without being made, and the second
// one after it was made, until the test ends.
func forceFirst(t *testing.T) {
	type key struct{}
	force.OnStart = func(ctx context.Context, limit int, elapsed time.Duration, repeatable bool) context.Context {
		require.True(t, repeatable)
		require.Equal(t, 3, limit)
		require.Equal(t, time.Minute, elapsed)
		return context.WithValue(ctx, key{}, new(int))
	}
	force.OnAttempt = func(ctx context.Context) (context.Context, error) {
		made := ctx.Value(key{}).(*int)
		if *made++; *made == 1 {
			return ctx, errDown
		}
		return ctx, nil
	}
	force.OnResult = func(ctx context.Context, err error) error {
		if *ctx.Value(key{}).(*int) == 2 {
			return errDown
		}
		return err
	}
	force.OnBreaker = func(ctx context.Context, b any) context.Context { return context.WithValue(ctx, key{}, b) }
	force.On.Store(true)
	t.Cleanup(func() { force.On.Store(false) })
}

func TestATestMayForceEachKindOfLoopToRetry(t *testing.T) {
	forceFirst(t)
	p := backoff.Policy{MaxAttempts: 3, MaxElapsed: time.Minute, Schedule: backoff.Constant(0)}
	calls := 0
	require.NoError(t, p.Do(t.Context(), func(context.Context) error {
		calls++
		return nil
	}))
	require.Equal(t, 2, calls)

	run := p.Start(t.Context())
	for range run.Attempts() {
		require.Equal(t, 2, run.Attempt())
		break
	}
	require.NoError(t, run.Err())

	run = p.Start(t.Context())
	_, ok := run.Begin(0) // which has no way to fail
	require.True(t, ok)
	_, ok = run.Retry(nil)
	require.False(t, ok)

	b := new(backoff.Breaker)
	require.NoError(t, b.Do(t.Context(), func(ctx context.Context) error {
		require.NotEqual(t, t.Context(), ctx)
		return nil
	}))
}
