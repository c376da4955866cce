package backoff_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/force"
)

// forceFirst makes the first attempt of each call fail without being made, until the test
// ends.
func forceFirst(t *testing.T) {
	do, start, attempt, breaker := force.Do, force.OnStart, force.OnAttempt, force.OnBreaker
	type key struct{}
	first := func(ctx context.Context) (context.Context, error) {
		if made := ctx.Value(key{}).(*bool); !*made {
			*made = true
			return ctx, errDown
		}
		return ctx, nil
	}
	force.OnStart = func(ctx context.Context, limit int, elapsed time.Duration) context.Context {
		require.Equal(t, 3, limit)
		require.Equal(t, time.Minute, elapsed)
		return context.WithValue(ctx, key{}, new(bool))
	}
	force.Do = func(ctx context.Context, op func(context.Context) error, limit int, elapsed time.Duration) (context.Context, func(context.Context) error) {
		return force.OnStart(ctx, limit, elapsed), func(ctx context.Context) error {
			if _, err := first(ctx); err != nil {
				return err
			}
			return op(ctx)
		}
	}
	force.OnAttempt = first
	force.OnBreaker = func(ctx context.Context, b any) context.Context { return context.WithValue(ctx, key{}, b) }
	force.On.Store(true)
	t.Cleanup(func() {
		force.On.Store(false)
		force.Do, force.OnStart, force.OnAttempt, force.OnBreaker = do, start, attempt, breaker
	})
}

func TestATestMayForceEachKindOfLoopToRetry(t *testing.T) {
	forceFirst(t)
	p := backoff.Policy{MaxAttempts: 3, MaxElapsed: time.Minute, Schedule: backoff.Constant(0)}
	var made []int

	require.NoError(t, p.Do(t.Context(), func(context.Context) error {
		made = append(made, 1)
		return nil
	}))
	run := p.Start(t.Context())
	for range run.Attempts() {
		made = append(made, run.Attempt())
		break
	}
	require.NoError(t, run.Err())
	run = p.Start(t.Context())
	_, ok := run.Begin(0) // which has no way to fail
	require.True(t, ok)
	_, ok = run.Retry(nil)
	require.False(t, ok)
	require.Equal(t, []int{1, 2}, made)
	require.NoError(t, (&backoff.Breaker{}).Do(t.Context(), func(ctx context.Context) error { return nil }))
}
