package hedging_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/hedging"
)

const milli = time.Millisecond

var start = time.Unix(0, 0)

// measured returns the delay after so many latencies, evenly spread up to most.
func measured(n int, most time.Duration, extraLoad float64) *hedging.Delay {
	d := new(hedging.Delay)
	for i := range n {
		d.Add(most*time.Duration(i+1)/time.Duration(n), start, extraLoad)
	}
	return d
}

func TestADelayIsNotKnownBeforeAHundredLatencies(t *testing.T) {
	require.Zero(t, new(hedging.Delay).Within(math.MaxInt64))
	require.Zero(t, measured(99, time.Second, 0).Within(math.MaxInt64))
	require.NotZero(t, measured(100, time.Second, 0).Within(math.MaxInt64))
}

func TestADelayIsPassedByAsManyAsTheExtraLoadAllows(t *testing.T) {
	for extraLoad, want := range map[float64]time.Duration{0: 950 * milli, -1: 950 * milli, .01: 990 * milli, .25: 750 * milli} {
		require.InEpsilon(t, float64(want), float64(measured(1000, time.Second, extraLoad).Within(math.MaxInt64)), .1, "%v", extraLoad)
	}
}

func TestADelayIsLookedAtAfterEveryFiftyLatencies(t *testing.T) {
	d := measured(100, time.Second, 0)
	before := d.Within(math.MaxInt64)
	for range 49 {
		d.Add(time.Minute, start, 0)
	}
	require.Equal(t, before, d.Within(math.MaxInt64))
	d.Add(time.Minute, start, 0)
	require.Greater(t, d.Within(math.MaxInt64), 50*time.Second)
}

func TestADelayIsAtMostHalfTheTimeAndAtLeastAMillisecond(t *testing.T) {
	d := measured(100, time.Second, 0)
	require.Equal(t, 200*milli, d.Within(400*milli))
	require.Equal(t, milli, d.Within(milli))
	require.Equal(t, milli, measured(100, time.Microsecond, 0).Within(math.MaxInt64))
}

// taken is how many hedges an account pays for until it refuses.
func taken(a *hedging.Account, extraLoad float64) (n int) {
	for a.Take(extraLoad) {
		n++
	}
	return n
}

func TestAnAccountPaysForTenAndForWhatWasEarned(t *testing.T) {
	for extraLoad, perHundred := range map[float64]int{0: 5, .05: 5, .01: 1, .29: 29, 1: 100} {
		var a hedging.Account
		require.Equal(t, 10, taken(&a, extraLoad))
		paid := 0
		for range 100 {
			a.Calls.Add(1)
			paid += taken(&a, extraLoad)
		}
		require.Equal(t, perHundred, paid, "%v", extraLoad)
	}
}

func TestAnAccountSavesNoMoreThanTen(t *testing.T) {
	var a hedging.Account
	a.Calls.Add(1_000_000)
	require.Equal(t, 10, taken(&a, 0))
	a.Calls.Add(1_000_000)
	require.Equal(t, 10, taken(&a, 0))
}

func TestAnAccountTakesBackWhatWasNotSent(t *testing.T) {
	var a hedging.Account
	a.GiveBack()
	require.Equal(t, 10, taken(&a, 0), "there was nothing to give back")
	a.GiveBack()
	require.Equal(t, 1, taken(&a, 0))
}

func TestAnAccountWithoutALimitPaysForEverything(t *testing.T) {
	var a hedging.Account
	for range 1000 {
		require.True(t, a.Take(-1))
	}
	require.Equal(t, 10, taken(&a, 0))
}

func TestAnAccountIsExactUnderAnyConcurrency(t *testing.T) {
	var a hedging.Account
	var paid atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				a.Calls.Add(1)
				if a.Take(0) {
					paid.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, paid.Load(), int64(10+8000/20))
	require.Greater(t, paid.Load(), int64(8000/20))
}
