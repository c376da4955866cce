package presets_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

const slot = 51200 * time.Nanosecond

func TestDrawsAreWholeSlotsAndAllEquallyLikely(t *testing.T) {
	type window struct {
		name    string
		policy  backoff.Policy
		retry   int
		slot    time.Duration
		choices int
	}
	windows := []window{{"CSMA/CA, before the first transmission too", presets.CSMACA(0, 0, 0), 1, 9 * time.Microsecond, 16}}
	for c := 1; c <= 15; c++ {
		windows = append(windows, window{"Ethernet", presets.Ethernet(0), c, slot, 1 << min(c, 10)})
	}
	for c, choices := range []int{2, 4, 8, 16, 32, 64} {
		windows = append(windows, window{"no base", presets.ExponentialSlots(0, 0), c + 1, slot, choices})
	}
	for c, choices := range []int{3, 9, 27, 81} {
		windows = append(windows, window{"a base of 3", presets.ExponentialSlots(3, time.Millisecond), c + 1, time.Millisecond, choices})
	}
	for i, interval := range []int{25, 50, 100, 200, 250, 250} {
		windows = append(windows, window{"Envoy", presets.EnvoySource(), i + 1, time.Millisecond, interval})
	}
	for _, w := range windows {
		w.policy.Rand = seeded()
		uniform(t, slots(t, w.policy, w.retry, w.slot, w.choices, 100_000), "%s, retry %d", w.name, w.retry)
	}
}

func TestExponentialSlotsAreNotTruncatedAndDoNotWrap(t *testing.T) {
	p := presets.ExponentialSlots(0, 0)
	p.Rand = always(top)
	for _, c := range []int{11, 16, 40, 47} {
		require.Equal(t, slot*(1<<c-1), p.Schedule.Delay(c))
	}
	for _, c := range []int{48, 62, 63, 64, 70, 1000} {
		require.Equal(t, math.MaxInt64-slot, p.Schedule.Delay(c))
		require.Greater(t, p.WaitBefore(c), time.Duration(math.MaxInt64)/2)
		require.Zero(t, p.WaitBefore(c)%slot)
	}
}

// slots counts how often each number of slots is drawn; all must be whole.
func slots(t *testing.T, p backoff.Policy, retry int, slot time.Duration, choices, draws int) []float64 {
	t.Helper()
	counts := make([]float64, choices)
	for range draws {
		wait := p.WaitBefore(retry)
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

func TestSIPTimerASendsSevenTimesWithin64T1(t *testing.T) {
	want := []time.Duration{0, 500, 1500, 3500, 7500, 15500, 31500} // ms
	sends(t, presets.SIPTimerA(0), 1, want)
	sends(t, presets.SIPTimerA(2*time.Second), 4, want)
}

func TestSIPTimersEAndGSendElevenTimesWithin64T1(t *testing.T) {
	want := []time.Duration{0, 500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500} // ms
	sends(t, presets.SIPTimerE(0, 0), 1, want)
	sends(t, byName(t, "sip-timer-g"), 1, want)
	sends(t, presets.SIPTimerE(time.Second, 8*time.Second), 2, want)
}

func TestSIPTimerEStaysAtT2AfterAProvisionalResponse(t *testing.T) {
	p := presets.SIPTimerE(0, 0)
	p.Schedule = backoff.Constant(4 * time.Second)
	sends(t, p, 1, []time.Duration{0, 4000, 8000, 12000, 16000, 20000, 24000, 28000, 32000})
}

// sends checks when an operation that always fails is called, in times scale
// ms.
func sends(t *testing.T, p backoff.Policy, scale time.Duration, want []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var got []time.Duration
		err := p.Do(t.Context(), func(context.Context) error {
			got = append(got, time.Since(start)/scale/time.Millisecond)
			return errTransient
		})
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Equal(t, want, got)
		require.LessOrEqual(t, time.Since(start), p.MaxElapsed)
	})
}
