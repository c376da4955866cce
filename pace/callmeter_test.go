package pace

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestACallMeterKnowsASteadyRate(t *testing.T) {
	for _, want := range []float64{0.01, 1, 30, 1000, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			var m callMeter
			for range max(int(3*want), 300) {
				time.Sleep(time.Duration(r.ExpFloat64() / want * 1e9))
				m.add()
			}
			require.InDelta(t, want, m.rate(), want*0.7, "of at least 8 calls")
			if want >= 1000 {
				require.InDelta(t, want, m.rate(), want*0.2)
			}
		})
	}
}

func TestACallMeterSeesABurstAfterADayOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m callMeter
		for range 10 {
			m.add()
		}
		time.Sleep(24 * time.Hour)
		require.Less(t, m.rate(), 0.001)
		for range 100 {
			m.add()
			time.Sleep(time.Millisecond)
		}
		require.GreaterOrEqual(t, m.rate(), 40., "the mark before it may be old")
		time.Sleep(time.Minute)
		require.Less(t, m.rate(), 2., "and its end")
	})
}

func TestAYoungCallMeterCountsItsFirstSecondAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m callMeter
		require.Equal(t, 1., m.rate(), "before the first call")
		m.add()
		require.Equal(t, 1., m.rate())
		m.add()
		m.add()
		require.Equal(t, 3., m.rate())
		time.Sleep(10 * time.Second)
		require.Equal(t, 0.3, m.rate())
	})
}

func TestACallMeterCountsBeyondItsLastMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m callMeter
		m.add()
		for _, count := range []uint64{1<<33 - 1, 1<<63 - 1} {
			m.count.Store(count)
			for range 800 {
				m.add()
				time.Sleep(10 * time.Millisecond)
			}
			require.InDelta(t, 100, m.rate(), 30)
		}
	})
}
