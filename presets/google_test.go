package presets_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/presets"
)

func TestIoTCoreDrawsAfreshForEveryWait(t *testing.T) {
	p := endless(presets.IoTCore(64*time.Second), script(t, 0, 0.25, 0.5, 0.75, 0.999))
	require.Equal(t, []time.Duration{
		time.Second,
		2250 * time.Millisecond,
		4500 * time.Millisecond,
		8750 * time.Millisecond,
		16999 * time.Millisecond,
	}, waits(t, p, 5))
}

func TestIoTCoreAddsOneOf1001WholeMilliseconds(t *testing.T) {
	p := presets.IoTCore(32 * time.Second)
	draw := seeded()
	counts := make([]float64, 1001)
	for range 200_000 {
		extra := p.Jitter(time.Second, 0, draw()) - time.Second
		require.Zero(t, extra%time.Millisecond)
		counts[extra/time.Millisecond]++
	}
	uniform(t, counts, "milliseconds")
}

func TestAPIN5WaitsFiveTimesAndBetween31And36Seconds(t *testing.T) {
	draws := []func() float64{always(0), always(0.2), always(top), seeded()}
	for i, want := range []time.Duration{31 * time.Second, 32 * time.Second, 36 * time.Second, 0} {
		synctest.Test(t, func(t *testing.T) {
			p := byName(t, "api-n5")
			p.Rand = draws[i]
			start := time.Now()
			made, _ := exhaust(t, p)
			require.Equal(t, 6, made)
			require.GreaterOrEqual(t, time.Since(start), 31*time.Second)
			require.LessOrEqual(t, time.Since(start), 36*time.Second)
			if want > 0 {
				require.Equal(t, want, time.Since(start))
			}
		})
	}
}
