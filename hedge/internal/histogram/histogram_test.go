package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(0, 0)

func TestLogGrowthIsTheLogarithmOfGrowth(t *testing.T) {
	require.Equal(t, math.Log(growth), logGrowth)
}

func TestZeroValueIsEmpty(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Count())
	require.Zero(t, h.Quantile(.5))
}

func TestBinsCoverMicrosecondsToHours(t *testing.T) {
	require.Equal(t, 0, bin(math.MinInt64))
	require.Equal(t, 0, bin(0))
	require.Equal(t, 0, bin(shortest))
	require.Equal(t, bins-1, bin(11*time.Hour))
	require.Equal(t, bins-1, bin(math.MaxInt64))
	require.InDelta(t, 10, edge(bins-1).Hours(), .1)
	for i := range bins {
		middle := edge(float64(i) + .5)
		require.Equal(t, i, bin(middle), "%v", middle)
	}
}

// The exact quantiles are known. A bin is 10 % wide.
func TestQuantileIsWithinABinOfTheTruth(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, shape := range []struct {
		name string
		draw func() float64 // in milliseconds
	}{
		{"uniform", func() float64 { return 1 + 99*random.Float64() }},
		{"exponential", func() float64 { return 10 * random.ExpFloat64() }},
		{"lognormal", func() float64 { return 10 * math.Exp(random.NormFloat64()) }},
		{"two peaks", func() float64 { return []float64{1, 1000}[random.IntN(2)] * (1 + random.Float64()) }},
	} {
		t.Run(shape.name, func(t *testing.T) {
			var h Histogram
			all := make([]time.Duration, 10_000)
			for i := range all {
				all[i] = time.Duration(shape.draw() * 1e6)
				h.Add(all[i], start)
			}
			slices.Sort(all)
			for _, q := range []float64{.01, .1, .25, .6, .75, .9, .95, .99, .999} {
				truth := float64(all[int(math.Ceil(q*float64(len(all))))-1])
				require.InEpsilon(t, truth, float64(h.Quantile(q)), .1, "q %v", q)
			}
		})
	}
}

// The position within the bin is interpolated, so that the p95 of many
// durations is much closer than 10 %.
func TestQuantileOfASmoothDistributionIsWithinTwoPercent(t *testing.T) {
	var h Histogram
	random := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		h.Add(time.Duration(10e6*math.Exp(.5*random.NormFloat64())), start)
	}
	truth := 10e6 * math.Exp(.5*1.6448536)
	require.InEpsilon(t, truth, float64(h.Quantile(.95)), .02)
}

func TestQuantileTakesAnyNumber(t *testing.T) {
	var h Histogram
	for d := range 100 {
		h.Add(time.Duration(d+1)*time.Millisecond, start)
	}
	require.InEpsilon(t, float64(time.Millisecond), float64(h.Quantile(0)), .1)
	require.InEpsilon(t, float64(100*time.Millisecond), float64(h.Quantile(1)), .1)
	require.Equal(t, h.Quantile(0), h.Quantile(-1))
	require.Equal(t, h.Quantile(0), h.Quantile(math.NaN()))
	require.Equal(t, h.Quantile(0), h.Quantile(math.Inf(-1)))
	require.Equal(t, h.Quantile(1), h.Quantile(2))
	require.Equal(t, h.Quantile(1), h.Quantile(math.Inf(1)))
}

// One call in a thousand takes 30 s. The p95 stays where it was.
func TestOutliersDoNotMoveTheQuantile(t *testing.T) {
	var clean, dirty Histogram
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 50_000 {
		now := start.Add(time.Duration(i) * 10 * time.Millisecond)
		d := time.Duration(10e6 * math.Exp(.5*random.NormFloat64()))
		clean.Add(d, now)
		if i%1000 == 999 {
			d = 30 * time.Second
		}
		dirty.Add(d, now)
		if i > 1000 && i%100 == 0 {
			require.InEpsilon(t, float64(clean.Quantile(.95)), float64(dirty.Quantile(.95)), .05)
		}
	}
}

func TestGenerationEndsByCountAndByAgeWhicheverIsLater(t *testing.T) {
	var h Histogram
	n := 0
	for range fullCount + 100 { // enough, but not old enough
		n = h.Add(time.Millisecond, start.Add(fullAge-1))
	}
	require.Equal(t, fullCount+100, n)
	require.Equal(t, fullCount+100, h.Count())

	h = Histogram{}
	h.Add(time.Millisecond, start)
	for range fullCount - 2 { // old enough, but not enough
		n = h.Add(time.Millisecond, start.Add(time.Hour))
	}
	require.Equal(t, fullCount-1, n)
	require.Equal(t, fullCount, h.Add(time.Millisecond, start.Add(time.Hour)))
	require.Equal(t, 1, h.Add(time.Millisecond, start.Add(time.Hour)), "the next one begins")
	require.Equal(t, fullCount+1, h.Count(), "with the last one still counting")
}

func TestTwoGenerationsForgetTheThird(t *testing.T) {
	var h Histogram
	now := start
	fill := func(n int, d time.Duration) {
		for range n {
			now = now.Add(fullAge / (fullCount - 1) * 2)
			h.Add(d, now)
		}
	}
	fill(fullCount, time.Millisecond)
	fill(fullCount-1, time.Second)
	require.Equal(t, 2*fullCount-1, h.Count())
	require.InEpsilon(t, float64(time.Millisecond), float64(h.Quantile(.25)), .1)
	fill(1, time.Second)
	require.Equal(t, fullCount, h.Count())
	require.InEpsilon(t, float64(time.Second), float64(h.Quantile(.01)), .1)
}

// While other goroutines replace the generations, Count misses nothing that was
// added: each generation holds its own counts.
func TestConcurrentAddersAndReaders(t *testing.T) {
	var h Histogram
	var wg sync.WaitGroup
	const adders, each = 8, 20_000
	for worker := range adders {
		wg.Go(func() {
			for i := range each {
				h.Add(time.Duration(i%100+1)*time.Millisecond, start.Add(time.Duration(i)*10*time.Millisecond))
				if worker == 0 && i%100 == 0 {
					q := h.Quantile(.95)
					require.LessOrEqual(t, q, 110*time.Millisecond)
					require.GreaterOrEqual(t, h.Count(), 1)
				}
			}
		})
	}
	wg.Wait()
	kept := h.both.Load()
	for _, g := range []*generation{kept.young, kept.old} {
		sum := uint32(0)
		for i := range g.bins {
			sum += g.bins[i].Load()
		}
		require.Equal(t, g.count.Load(), sum)
	}
	require.GreaterOrEqual(t, int(kept.old.count.Load()), fullCount)
}

func TestConcurrentAddersWithinAGenerationLoseNothing(t *testing.T) {
	var h Histogram
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				h.Add(time.Millisecond, start)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 8000, h.Count())
}

func TestAddDoesNotAllocate(t *testing.T) {
	var h Histogram
	h.Add(time.Millisecond, start)
	require.Zero(t, testing.AllocsPerRun(1000, func() { h.Add(time.Millisecond, start) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { h.Quantile(.95) }))
}

func FuzzHistogram(f *testing.F) {
	f.Add(int64(0), int64(1), .5)
	f.Add(int64(time.Millisecond), int64(time.Hour), .95)
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), math.NaN())
	f.Add(int64(1100), int64(1099), 1.)
	f.Fuzz(func(t *testing.T, a, b int64, q float64) {
		var h Histogram
		small, large := time.Duration(min(a, b)), time.Duration(max(a, b))
		h.Add(small, start)
		h.Add(large, start)
		require.Equal(t, 2, h.Count())
		lo, mid, hi := h.Quantile(0), h.Quantile(q), h.Quantile(1)
		require.LessOrEqual(t, lo, mid)
		require.LessOrEqual(t, mid, hi)
		within(t, small, lo)
		within(t, large, hi)
	})
}

// within requires an estimate to be in the bin of the true value.
func within(t *testing.T, truth, got time.Duration) {
	t.Helper()
	truth = min(max(truth, shortest), edge(bins))
	require.InEpsilon(t, float64(truth), float64(got), growth-1+1e-9)
}
