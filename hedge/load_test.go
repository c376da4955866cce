package hedge

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const milli = time.Millisecond

var start = time.Unix(0, 0)

// measured returns the delay after so many latencies, evenly spread up to most.
func measured(n int, most time.Duration, extraLoad float64) *measuredDelay {
	d := new(measuredDelay)
	for i := range n {
		d.add(most*time.Duration(i+1)/time.Duration(n), start, extraLoad)
	}
	return d
}

func TestADelayIsNotKnownBeforeAHundredLatencies(t *testing.T) {
	require.Zero(t, new(measuredDelay).within(math.MaxInt64))
	require.Zero(t, measured(99, time.Second, 0).within(math.MaxInt64))
	require.NotZero(t, measured(100, time.Second, 0).within(math.MaxInt64))
}

func TestADelayIsPassedByAsManyAsTheExtraLoadAllows(t *testing.T) {
	for extraLoad, want := range map[float64]time.Duration{0: 950 * milli, -1: 950 * milli, .01: 990 * milli, .25: 750 * milli} {
		require.InEpsilon(t, float64(want), float64(measured(1000, time.Second, extraLoad).within(math.MaxInt64)), .1, "%v", extraLoad)
	}
}

func TestADelayIsLookedAtAfterEveryFiftyLatencies(t *testing.T) {
	d := measured(100, time.Second, 0)
	before := d.within(math.MaxInt64)
	for range 49 {
		d.add(time.Minute, start, 0)
	}
	require.Equal(t, before, d.within(math.MaxInt64))
	d.add(time.Minute, start, 0)
	require.Greater(t, d.within(math.MaxInt64), 50*time.Second)
}

func TestADelayIsAtMostHalfTheTimeAndAtLeastAMillisecond(t *testing.T) {
	d := measured(100, time.Second, 0)
	require.Equal(t, 200*milli, d.within(400*milli))
	require.Equal(t, milli, d.within(milli))
	require.Equal(t, milli, measured(100, time.Microsecond, 0).within(math.MaxInt64))
}

// taken is how many hedges an account pays for until it refuses.
func taken(a *account, extraLoad float64) (n int) {
	for a.take(extraLoad) {
		n++
	}
	return n
}

func TestAnAccountPaysForTenAndForWhatWasEarned(t *testing.T) {
	for extraLoad, perHundred := range map[float64]int{0: 5, .05: 5, .01: 1, .29: 29, 1: 100} {
		var a account
		require.Equal(t, 10, taken(&a, extraLoad))
		paid := 0
		for range 100 {
			a.calls.Add(1)
			paid += taken(&a, extraLoad)
		}
		require.Equal(t, perHundred, paid, "%v", extraLoad)
	}
}

func TestAnAccountSavesNoMoreThanTen(t *testing.T) {
	var a account
	a.calls.Add(1_000_000)
	require.Equal(t, 10, taken(&a, 0))
	a.calls.Add(1_000_000)
	require.Equal(t, 10, taken(&a, 0))
}

func TestAnAccountTakesBackWhatWasNotSent(t *testing.T) {
	var a account
	a.giveBack()
	require.Equal(t, 10, taken(&a, 0), "there was nothing to give back")
	a.giveBack()
	require.Equal(t, 1, taken(&a, 0))
}

func TestAnAccountWithoutALimitPaysForEverything(t *testing.T) {
	var a account
	for range 1000 {
		require.True(t, a.take(-1))
	}
	require.Equal(t, 10, taken(&a, 0))
}

func TestAnAccountIsExactUnderAnyConcurrency(t *testing.T) {
	var a account
	var paid atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				a.calls.Add(1)
				if a.take(0) {
					paid.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, paid.Load(), int64(10+8000/20))
	require.Greater(t, paid.Load(), int64(8000/20))
}
