package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/clock"
)

func TestSleepWaitsForItsWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.True(t, clock.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.False(t, clock.Sleep(ctx, time.Minute))
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestSleepReturnsAtOnceWhereThereIsNothingToWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		for _, d := range []time.Duration{0, -time.Second} {
			require.True(t, clock.Sleep(t.Context(), d))
			require.False(t, clock.Sleep(ended, d))
		}
		require.False(t, clock.Sleep(ended, time.Minute))
		require.Equal(t, began, time.Now())
	})
}
