package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/clock"
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
