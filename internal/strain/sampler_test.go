package strain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// drive makes calls at a rate for a time from now on, and returns how many were
// chosen.
func drive(s *Sampler, now *time.Duration, count *uint64, rate float64, for_ time.Duration) (chosen int) {
	total := func() uint64 { return *count }
	for range int(rate * for_.Seconds()) {
		*now += time.Duration(1e9 / rate)
		if s.Chosen(*count) {
			chosen++
			s.Sampled(*now, total)
		}
		*count++
	}
	return chosen
}

func TestAboutFortySamplesASecondAreChosen(t *testing.T) {
	for _, rate := range []float64{0.1, 1, 10, 39} {
		var s Sampler
		var now time.Duration
		var count uint64
		require.Equal(t, int(rate*1000), drive(&s, &now, &count, rate, 1000*time.Second), "all of %v calls/s", rate)
	}
	for _, rate := range []float64{100, 1000, 30_000, 1_000_000} {
		var s Sampler
		var now time.Duration
		var count uint64
		require.LessOrEqual(t, drive(&s, &now, &count, rate, time.Second), 1000, "the first second of %v calls/s", rate)
		require.InDelta(t, 40*5, drive(&s, &now, &count, rate, 5*time.Second), 40, "%v calls/s", rate)
	}
}

func TestASamplerSeesASlowerRateSoon(t *testing.T) {
	var s Sampler
	var now time.Duration
	var count uint64
	drive(&s, &now, &count, 1000, 10*time.Second)
	drive(&s, &now, &count, 10, 10*time.Second)
	require.Equal(t, 100, drive(&s, &now, &count, 10, 10*time.Second))
}

// A job that begins with a burst is not blind after it.
func TestABurstHidesLittleOfWhatFollows(t *testing.T) {
	var s Sampler
	var now time.Duration
	var count uint64
	drive(&s, &now, &count, 1e6, time.Millisecond)
	require.Greater(t, drive(&s, &now, &count, 10, 20*time.Second), 150)
}

// Requests of two kinds may alternate.
func TestASamplerChoosesFromAllKinds(t *testing.T) {
	var s Sampler
	var now time.Duration
	var count uint64
	drive(&s, &now, &count, 1000, 10*time.Second)
	for _, period := range []uint64{2, 3, 4, 8, 10, 16} {
		kinds := make([]int, period)
		for n := range uint64(100_000) {
			if s.Chosen(n) {
				kinds[n%period]++
			}
		}
		for _, n := range kinds {
			require.InEpsilon(t, 4000/float64(period), n, 0.3, "every %d", period)
		}
	}
}
