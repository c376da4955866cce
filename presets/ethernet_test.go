package presets_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

const slot = 51200 * time.Nanosecond

var ethernetRows = []row{
	{"ieee-802.3-truncated-beb", 16, 0, 0,
		"",
		"[0us,51.2us] [0us,153.6us] [0us,358.4us] [0us,768us] [0us,1.5872ms] [0us,3.2256ms] [0us,6.5024ms] [0us,13.056ms]"},
	{"ethernet-untruncated-beb", 0, 0, 0,
		"",
		"[0us,51.2us] [0us,153.6us] [0us,358.4us] [0us,768us] [0us,1.5872ms] [0us,3.2256ms] [0us,6.5024ms] [0us,13.056ms]"},
	{"csma-ca-ofdm", 0, 0, 0,
		"",
		"[0us,135us] [0us,279us] [0us,567us] [0us,1.143ms] [0us,2.295ms] [0us,4.599ms] [0us,9.207ms] [0us,9.207ms]"},
}

func TestEthernetDrawsWholeSlotsAllEquallyLikely(t *testing.T) {
	p := presets.Ethernet(0)
	p.Rand = seeded()
	for c := 1; c <= 15; c++ {
		choices := 1 << min(c, 10)
		counts := slots(t, p, c, slot, choices, 200_000)
		uniform(t, counts, "collision %d", c)
	}
}

func TestEthernetWaitsFifteenTimesAndNeverBeyond1023Slots(t *testing.T) {
	p := presets.Ethernet(0)
	p.Rand = always(top)
	for _, c := range []int{10, 11, 15, 63, 64, 1000} {
		require.Equal(t, 1023*slot, p.Delay(c))
	}
}

func TestEthernetHasTheSlotOfItsSpeed(t *testing.T) {
	const fast = 5120 * time.Nanosecond
	p := presets.Ethernet(fast)
	p.Rand = always(top)
	require.Equal(t, 7*fast, p.Delay(3))
	require.Equal(t, 1023*fast, p.Delay(12))
}

func TestExponentialSlotsWaitHalfTheWindowOnAverage(t *testing.T) {
	const n = 100_000
	p := presets.ExponentialSlots(0, 0)
	p.Rand = seeded()
	for _, c := range []int{1, 2, 3, 8, 10, 20} {
		var sum float64
		for range n {
			sum += float64(p.Delay(c) / slot)
		}
		choices := math.Exp2(float64(c))
		sigma := math.Sqrt((choices*choices - 1) / 12 / n)
		require.InDelta(t, (choices-1)/2, sum/n, 3*sigma, "E(%d)", c)
	}
}

// The contention of Aloha. N stations that each draw one of W
// slots make N(N-1)/2W colliding pairs on the mean: 487.8 for 1000 and 1024.
func TestAThousandStationsCollideAsOftenAsChanceHasIt(t *testing.T) {
	const stations, window, rounds = 1000, 1024, 200
	p := presets.Ethernet(0)
	p.Rand = seeded()
	pairs := 0
	for range rounds {
		var taken [window]int
		for range stations {
			k := p.Delay(10) / slot
			pairs += taken[k]
			taken[k]++
		}
	}
	const mean = stations * (stations - 1) / 2.0 / window
	sigma := math.Sqrt(mean * (1 - 1.0/window) / rounds)
	require.InDelta(t, 487.8, mean, .05)
	require.InDelta(t, mean, float64(pairs)/rounds, 3*sigma)
}

func TestExponentialSlotsAreNotTruncatedAndDoNotWrap(t *testing.T) {
	p := presets.ExponentialSlots(0, 0)
	p.Rand = always(top)
	for _, c := range []int{11, 16, 40, 47} {
		require.Equal(t, slot*(1<<c-1), p.Schedule.Delay(c))
	}
	for _, c := range []int{48, 62, 63, 64, 70, 1000} {
		require.Equal(t, math.MaxInt64-slot, p.Schedule.Delay(c))
		require.Greater(t, p.Delay(c), time.Duration(math.MaxInt64)/2)
		require.Zero(t, p.Delay(c)%slot)
	}
}

func TestExponentialSlotsTakeAnyBaseAndSlot(t *testing.T) {
	p := presets.ExponentialSlots(3, time.Millisecond)
	p.Rand = seeded()
	for c, choices := range []int{0: 1, 1: 3, 2: 9, 3: 27, 4: 81} {
		if c > 0 {
			uniform(t, slots(t, p, c, time.Millisecond, choices, 50_000), "failure %d", c)
		}
	}
}

func TestCSMACADoublesItsWindowAndStaysAtTheLast(t *testing.T) {
	p := presets.CSMACA(20*time.Microsecond, 31, 0) // DSSS
	p.Rand = always(top)
	for k, want := range []int{1: 31, 2: 63, 3: 127, 4: 255, 5: 511, 6: 1023, 7: 1023, 70: 1023} {
		if want > 0 {
			require.Equal(t, time.Duration(want)*20*time.Microsecond, p.Delay(k), "window %d", k)
		}
	}
}

func TestCSMACADrawsBeforeTheFirstTransmissionToo(t *testing.T) {
	p := presets.CSMACA(0, 0, 0)
	p.Rand = seeded()
	uniform(t, slots(t, p, 1, 9*time.Microsecond, 16, 50_000), "before the first")
}

// slots counts how often each number of slots is drawn; all must be whole.
func slots(t *testing.T, p backoff.Policy, retry int, slot time.Duration, choices, draws int) []float64 {
	t.Helper()
	counts := make([]float64, choices)
	for range draws {
		wait := p.Delay(retry)
		if wait%slot != 0 || wait/slot >= time.Duration(choices) {
			require.FailNowf(t, "not one of the slots", "%v", wait)
		}
		counts[wait/slot]++
	}
	return counts
}

// uniform is a chi-square test that refuses one uniform sample in some
// thousands.
func uniform(t *testing.T, counts []float64, format string, args ...any) {
	t.Helper()
	var total, chi2 float64
	for _, n := range counts {
		total += n
	}
	expected := total / float64(len(counts))
	for _, n := range counts {
		chi2 += (n - expected) * (n - expected) / expected
	}
	freedom := float64(len(counts) - 1)
	require.InDelta(t, freedom, chi2, 4*math.Sqrt(2*freedom)+8, append([]any{format}, args...)...)
}
