package waker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/waker"
)

// A bell counts how often it rings.
type bell struct{ rung int }

func (b *bell) Wake() { b.rung++ }

func TestASleeperIsWokenByEverySignalAroundItUntilItRises(t *testing.T) {
	var inner, outer waker.Signal
	ctx := inner.With(outer.With(t.Context()))
	var b bell
	for range 2 {
		rise := waker.Sleep(ctx, &b)
		inner.Wake()
		outer.Wake()
		rise()
		inner.Wake()
		outer.Wake()
	}
	require.Equal(t, 4, b.rung)
}

func TestSinceKnowsWhetherASignalWasGivenAfterATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner, outer waker.Signal
		ctx := inner.With(outer.With(t.Context()))
		began := time.Now()
		require.False(t, waker.Since(ctx, began))
		time.Sleep(time.Nanosecond)
		outer.Wake()
		require.True(t, waker.Since(ctx, began))
		require.False(t, waker.Since(ctx, time.Now()))
		require.False(t, waker.Since(t.Context(), began))
	})
}

// nap waits by a timer that ctx may wake, and returns for how long.
func nap(ctx context.Context, wait, sure, spread time.Duration) (slept time.Duration, woken bool) {
	began := time.Now()
	timer := time.NewTimer(wait)
	rise := (*waker.Nap.Load())(ctx, timer, wait, sure, spread)
	<-timer.C
	woken = rise()
	return time.Since(began), woken
}

// Many signals in a row do not put the end off.
func TestANapEndsInTimeHoweverOftenItIsWoken(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			var s waker.Signal
			ctx := s.With(t.Context())
			for i := range 1000 {
				time.AfterFunc(time.Duration(i)*time.Millisecond, s.Wake)
			}
			slept, woken := nap(ctx, time.Minute, 0, time.Second)
			require.True(t, woken)
			require.LessOrEqual(t, slept, time.Second)
			time.Sleep(time.Second)
		})
	}
}

// A Signal that lives longer than a bubble of testing/synctest keeps nothing of it.
func TestANapEndsEarlyButNotBeforeWhatIsSure(t *testing.T) {
	var s waker.Signal
	for _, c := range []struct{ wait, sure, spread, least, most time.Duration }{
		{time.Minute, 0, 100 * time.Millisecond, 10 * time.Second, 10100 * time.Millisecond},
		{time.Minute, 0, time.Hour, 10 * time.Second, 11 * time.Second},
		{time.Minute, 30 * time.Second, time.Second, 30 * time.Second, 30 * time.Second},
		{10*time.Second + 1, 0, 0, 10 * time.Second, 10 * time.Second},
		{5 * time.Second, 0, 0, 5 * time.Second, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			time.AfterFunc(10*time.Second, s.Wake)
			slept, woken := nap(s.With(t.Context()), c.wait, c.sure, c.spread)
			require.GreaterOrEqual(t, slept, c.least)
			require.LessOrEqual(t, slept, c.most)
			require.Equal(t, c.wait > 10*time.Second, woken)
			time.Sleep(time.Minute)
		})
	}
	require.Nil(t, (*waker.Nap.Load())(t.Context(), time.NewTimer(1), 1, 0, 0))
}
