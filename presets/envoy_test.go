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
	{
		name:     "envoy-retry-docs",
		delays:   "25ms 75ms 175ms 250ms 250ms 250ms 250ms 250ms",
		bounds:   "[0us,25ms] [0us,75ms] [0us,175ms] [0us,250ms] [0us,250ms] [0us,250ms] [0us,250ms] [0us,250ms]",
		grain:    time.Millisecond,
		attempts: 2,
	},
	{
		name:     "envoy-retry-source",
		delays:   "25ms 50ms 100ms 200ms 250ms 250ms 250ms 250ms",
		bounds:   "[0us,24ms] [0us,49ms] [0us,99ms] [0us,199ms] [0us,249ms] [0us,249ms] [0us,249ms] [0us,249ms]",
		attempts: 2,
	},
	{
		name:     "istio-virtualservice-retry",
		delays:   "25ms 50ms 100ms 200ms 250ms 250ms 250ms 250ms",
		bounds:   "[0us,24ms] [0us,49ms] [0us,99ms] [0us,199ms] [0us,249ms] [0us,249ms] [0us,249ms] [0us,249ms]",
		attempts: 4,
	},
	{
		name:     "envoy-outlier-ejection",
		delays:   "30s 60s 90s 120s 150s 180s 210s 240s",
		bounds:   "[30s,30s] [60s,60s] [90s,90s] [120s,120s] [150s,150s] [180s,180s] [210s,210s] [240s,240s]",
		attempts: -1,
	},
}

func TestEnvoyDrawsWholeMillisecondsBelowTheInterval(t *testing.T) {
	p := presets.EnvoySource()
	p.Rand = seeded()
	for i, interval := range []int{25, 50, 100, 200, 250, 250} {
		uniform(t, slots(t, &p, i+1, time.Millisecond, interval, 50_000), "retry %d", i+1)
	}
}

// Contract row 63.
func TestEnvoyDocsAndSourceDiffer(t *testing.T) {
	docs, source := endless(presets.EnvoyDocs(), always(top)), endless(presets.EnvoySource(), always(top))
	const ms = time.Millisecond
	require.Equal(t, []time.Duration{24 * ms, 74 * ms, 174 * ms, 249 * ms, 249 * ms}, waits(t, &docs, 5))
	require.Equal(t, []time.Duration{24 * ms, 49 * ms, 99 * ms, 199 * ms, 249 * ms}, waits(t, &source, 5))
}

// Contract row 61.
func TestIstioLimitsEveryTryTheFirstIncluded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.Istio()
		var limits []time.Duration
		err := p.Do(t.Context(), func(ctx context.Context) error {
			limits = append(limits, remaining(t, ctx))
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second}, limits)
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
