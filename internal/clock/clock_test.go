package clock_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
)

// sleeper hears when which alarm goes off.
type sleeper chan *clock.Alarm

func (s sleeper) Ring(a *clock.Alarm) { s <- a }

func TestAnAlarmGoesOffOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(sleeper, 2)
		began := time.Now()
		a := clock.NewAlarm(time.Minute, s, false)
		require.Same(t, a, <-s)
		require.Equal(t, time.Minute, time.Since(began))
		time.Sleep(time.Hour)
		require.Empty(t, s)
	})
}

func TestAnAlarmThatIsStoppedDoesNotGoOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(sleeper, 1)
		clock.NewAlarm(time.Minute, s, false).Stop()
		new(clock.Alarm).Stop()
		time.Sleep(time.Hour)
		require.Empty(t, s)
	})
}

// In earnest, as alarms are used again only outside of bubbles.
func TestAnAlarmThatIsUsedAgainCallsItsNewSleeper(t *testing.T) {
	first := make(sleeper, 1)
	for range 100 {
		clock.NewAlarm(time.Hour, first, true).Stop()
		s := make(sleeper, 1)
		a := clock.NewAlarm(time.Microsecond, s, true)
		require.Same(t, a, <-s)
		a.Stop()
	}
	require.Empty(t, first)
}

func TestAnAlarmThatIsUsedAgainAllocatesNothing(t *testing.T) {
	s := make(sleeper)
	least := 1.
	for range 100 { // the race detector, and the collector, make a sync.Pool forget
		least = min(least, testing.AllocsPerRun(1, func() { clock.NewAlarm(time.Hour, s, true).Stop() }))
	}
	require.Zero(t, least)
}

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

func TestStopwatchStartsAtItsFirstReading(t *testing.T) {
	var s clock.Stopwatch
	require.False(t, s.Started())
	now := time.Now()
	require.Zero(t, s.Elapsed(now))
	require.True(t, s.Started())
	require.Equal(t, time.Minute, s.Elapsed(now.Add(time.Minute)))
	require.Equal(t, now.Add(time.Minute), s.Time(time.Minute))
}

func TestStopwatchTakesALateReadingForTheLastOne(t *testing.T) {
	var s clock.Stopwatch
	now := time.Now()
	s.Elapsed(now)
	s.Elapsed(now.Add(time.Minute))
	require.Equal(t, time.Minute, s.Elapsed(now.Add(59*time.Second)))
	require.Equal(t, time.Minute, s.Elapsed(now.Add(time.Minute)))
	require.Equal(t, time.Minute+1, s.Elapsed(now.Add(time.Minute+1)))
}

func TestStopwatchGoesOnFromAClockThatWasSetBack(t *testing.T) {
	var s clock.Stopwatch
	now := time.Now().Round(0) // no monotonic reading
	s.Elapsed(now)
	back := now.Add(-time.Hour)
	require.Zero(t, s.Elapsed(back))
	require.Equal(t, time.Second, s.Elapsed(back.Add(time.Second)))
	require.Equal(t, now.Add(time.Second), s.Time(time.Second))
}

func TestStopwatchIsNotMovedWhereThereIsAMonotonicReading(t *testing.T) {
	var s clock.Stopwatch
	now := time.Now()
	s.Elapsed(now)
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		require.Zero(t, s.Elapsed(clocktest.Set(now, step)))
	}
}

func TestStopwatchSaturates(t *testing.T) {
	var s clock.Stopwatch
	now := time.Unix(0, 0)
	s.Elapsed(now)
	for range 3 {
		now = now.Add(math.MaxInt64)
		require.Equal(t, time.Duration(math.MaxInt64), s.Elapsed(now))
	}
}
