package window

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTallyKnowsWhenItWasFirstUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tally Tally
		require.Zero(t, tally.Total())
		require.True(t, tally.Born().IsZero())

		time.Sleep(time.Minute)
		first := time.Now()
		tally.Add()
		time.Sleep(time.Minute)
		tally.Add()
		require.Equal(t, first, tally.Born())
		require.EqualValues(t, 2, tally.Total())
	})
}

func TestTallyDoesNotAllocateButAtFirst(t *testing.T) {
	var tally Tally
	tally.Add()
	require.Zero(t, testing.AllocsPerRun(100, tally.Add))
}

func TestTallyTellsAGoroutineWhereItCounts(t *testing.T) {
	var tally Tally
	for _, apart := range []bool{false, true} {
		if apart {
			tally.counter.Split()
		}
		before := tally.Here()
		for n := range uint64(10) {
			require.Equal(t, before+n, tally.Here())
			tally.Add()
		}
	}
	require.EqualValues(t, 20, tally.Total())
}
