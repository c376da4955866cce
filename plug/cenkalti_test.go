package plug_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

func TestCenkaltiStopsAfterMaxAttempts(t *testing.T) {
	b := plug.Cenkalti(t.Context(), steps)
	for range 2 {
		b.Reset()
		require.NoError(t, b.Err())
		for _, want := range []time.Duration{100, 200, 400} {
			require.Equal(t, want*time.Millisecond, b.NextBackOff())
		}
		require.Equal(t, plug.Stop, b.NextBackOff())
		require.Equal(t, plug.Stop, b.NextBackOff())
		require.ErrorIs(t, b.Err(), backoff.ErrExhausted)
	}
}

func TestCenkaltiObeysMaxElapsedAndTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := steps
		p.MaxAttempts, p.MaxElapsed = -1, time.Second
		b := plug.Cenkalti(t.Context(), p)
		b.Reset()
		time.Sleep(900 * time.Millisecond)
		require.Equal(t, 100*time.Millisecond, b.NextBackOff())
		require.Equal(t, plug.Stop, b.NextBackOff(), "the time of the first attempt counts")

		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		b = plug.Cenkalti(ctx, steps)
		require.Equal(t, 100*time.Millisecond, b.NextBackOff())
		require.Equal(t, plug.Stop, b.NextBackOff())
		require.ErrorIs(t, b.Err(), context.DeadlineExceeded)
	})
}

func TestCenkaltiKeepsTheMemoryOfJitter(t *testing.T) {
	p := backoff.Policy{
		Schedule: backoff.Constant(10 * time.Millisecond),
		Jitter:   backoff.DecorrelatedJitter(10*time.Millisecond, time.Second),
		Rand:     func() float64 { return 0.5 },
	}
	b := plug.Cenkalti(t.Context(), p)
	first := b.NextBackOff()
	require.Greater(t, b.NextBackOff(), first)
}

func TestCenkaltiAsksTheBudget(t *testing.T) {
	b := new(books)
	c := plug.Cenkalti(t.Context(), withBudget(b))
	c.Reset()
	require.Equal(t, 100*time.Millisecond, c.NextBackOff())
	require.Equal(t, 1, b.firsts)
	require.Equal(t, 1, b.retries)
	b.refuse = true
	require.Equal(t, plug.Stop, c.NextBackOff())
	require.ErrorIs(t, c.Err(), backoff.ErrBudget)
}

// gaxRetryer is gax.Retryer.
type gaxRetryer interface {
	Retry(err error) (pause time.Duration, shouldRetry bool)
}

func TestGaxRetriesAttemptsThatTheRunDidNotBegin(t *testing.T) {
	b := new(books)
	p := withBudget(b)
	run := p.Start(t.Context())
	var retryer gaxRetryer = plug.Gax(run.Tried)
	for _, want := range []time.Duration{100, 200} {
		pause, again := retryer.Retry(errTransient)
		require.True(t, again)
		require.Equal(t, want*time.Millisecond, pause)
	}
	require.Equal(t, 1, b.firsts)
	require.Equal(t, 2, b.retries)
	_, again := retryer.Retry(backoff.Permanent(errTransient))
	require.False(t, again)
	require.ErrorIs(t, run.Err(), errTransient)

	_, again = plug.Gax(invalid.Start(t.Context()).Tried).Retry(errTransient)
	require.False(t, again)
}

func TestCenkaltiRefusesWhatCannotBeObeyed(t *testing.T) {
	for want, p := range map[string]backoff.Policy{
		"Policy.Schedule: Constant is -1ns":            {Schedule: backoff.Constant(-1)},
		"set MaxAttempts, or give the call a deadline": {MaxAttempts: -1},
	} {
		b := plug.Cenkalti(t.Context(), p)
		b.Reset()
		require.Equal(t, plug.Stop, b.NextBackOff())
		require.ErrorContains(t, b.Err(), want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.Positive(t, plug.Cenkalti(ctx, backoff.Policy{MaxAttempts: -1, Jitter: backoff.NoJitter}).NextBackOff())
}
