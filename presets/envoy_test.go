package presets_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

var envoyRows = []row{
	{"envoy-retry-docs", 2, 0, time.Millisecond,
		"25ms 75ms 175ms 250ms 250ms 250ms 250ms 250ms",
		"[0us,25ms] [0us,75ms] [0us,175ms] [0us,250ms] [0us,250ms] [0us,250ms] [0us,250ms] [0us,250ms]"},
	{"envoy-retry-source", 2, 0, 0,
		"25ms 50ms 100ms 200ms 250ms 250ms 250ms 250ms",
		"[0us,24ms] [0us,49ms] [0us,99ms] [0us,199ms] [0us,249ms] [0us,249ms] [0us,249ms] [0us,249ms]"},
	{"istio-virtualservice-retry", 4, 0, 0,
		"25ms 50ms 100ms 200ms 250ms 250ms 250ms 250ms",
		"[0us,24ms] [0us,49ms] [0us,99ms] [0us,199ms] [0us,249ms] [0us,249ms] [0us,249ms] [0us,249ms]"},
	{"envoy-outlier-ejection", -1, 0, 0,
		"30s 60s 90s 120s 150s 180s 210s 240s",
		"[30s,30s] [60s,60s] [90s,90s] [120s,120s] [150s,150s] [180s,180s] [210s,210s] [240s,240s]"},
}

func TestEnvoyDrawsWholeMillisecondsBelowTheInterval(t *testing.T) {
	p := presets.EnvoySource()
	p.Rand = seeded()
	for i, interval := range []int{25, 50, 100, 200, 250, 250} {
		uniform(t, slots(t, p, i+1, time.Millisecond, interval, 50_000), "retry %d", i+1)
	}
}

func TestEnvoyDocsAndSourceDiffer(t *testing.T) {
	docs, source := endless(byName(t, "envoy-retry-docs"), always(top)), endless(presets.EnvoySource(), always(top))
	const ms = time.Millisecond
	require.Equal(t, []time.Duration{24 * ms, 74 * ms, 174 * ms, 249 * ms, 249 * ms}, waits(t, docs, 5))
	require.Equal(t, []time.Duration{24 * ms, 49 * ms, 99 * ms, 199 * ms, 249 * ms}, waits(t, source, 5))
}

func TestIstioLimitsEveryTryTheFirstIncluded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.Istio()
		attempts := 0
		err := p.Do(t.Context(), func(ctx context.Context) error {
			attempts++
			deadline, _ := ctx.Deadline()
			require.Equal(t, 2*time.Second, time.Until(deadline))
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, 4, attempts)
	})
}

func TestEnvoyOutlierEjectionGrowsToItsMaximumOrBase(t *testing.T) {
	p, long := presets.EnvoyOutlierEjection(0), presets.EnvoyOutlierEjection(10*time.Minute)
	require.Equal(t, 300*time.Second, p.Delay(10))
	require.Equal(t, 300*time.Second, p.Delay(11))
	require.Equal(t, 10*time.Minute, long.Delay(1))
	require.Equal(t, 10*time.Minute, long.Delay(9))
	require.NoError(t, long.Validate())
}
