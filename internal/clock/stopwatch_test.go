package clock_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
)

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
