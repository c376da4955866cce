package presets_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/presets"
)

var googleRows = []row{
	{"iot-core-32s", 0, 0, 0,
		"1s 2s 4s 8s 16s 32s 32s 32s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,32s] [32s,32s] [32s,32s]"},
	{"iot-core-64s", 0, 0, 0,
		"1s 2s 4s 8s 16s 32s 64s 64s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,33s] [64s,64s] [64s,64s]"},
	{"api-n5", 6, 0, 0,
		"1s 2s 4s 8s 16s 32s 64s 128s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,33s] [64s,65s] [128s,129s]"},
	{"gcloud-cli", 33, 0, 0,
		"1s 2s 4s 8s 16s 32s 32s 32s",
		"[1s,2s] [2s,3s] [4s,5s] [8s,9s] [16s,17s] [32s,32s] [32s,32s] [32s,32s]"},
	{"extra-gsutil", 24, 0, 0,
		"1s 2s 4s 8s 16s 32s 60s 60s",
		"[0us,1s] [0us,2s] [0us,4s] [0us,8s] [0us,16s] [0us,32s] [0us,60s] [0us,60s]"},
}

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

func TestIoTCoreKeepsRetryingAtTheMaximum(t *testing.T) {
	p := endless(presets.IoTCore(64*time.Second), seeded())
	for i, wait := range waits(t, p, 1000)[6:] {
		require.Equal(t, 64*time.Second, wait, "retry %d", i+7)
	}
	synctest.Test(t, func(t *testing.T) {
		p.MaxAttempts = 1 + 6 + 40
		made, err := exhaust(t, p)
		require.Equal(t, 47, made)
		require.InDelta(t, 63+40*64, err.Elapsed.Seconds(), 6)
	})
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

func TestGCloudIsBuiltOfItsFourProperties(t *testing.T) {
	p := presets.GCloud(2*time.Second, 3, 5, 20*time.Second)
	p.Rand = always(0.5)
	require.Equal(t, 6, p.MaxAttempts)
	for i, want := range []time.Duration{2500, 6500, 18500, 20000, 20000} { // ms
		require.Equal(t, want*time.Millisecond, p.Delay(i+1))
	}
	require.NoError(t, p.Validate())
}

func TestGCloudTakesZeroForItsDefaultsAndNegativeForNoLimit(t *testing.T) {
	docs, code := presets.GCloud(0, 0, 0, 0), presets.GCloud(0, 0, 23, 0)
	require.Equal(t, 33, docs.MaxAttempts)
	require.Equal(t, 24, code.MaxAttempts)
	explicit := presets.GCloud(time.Second, 2, 32, 32*time.Second)
	for retry := range 40 {
		require.Equal(t, explicit.Schedule.Delay(retry), docs.Schedule.Delay(retry))
	}
	require.Equal(t, explicit.MaxDelay, docs.MaxDelay)

	unlimited := presets.GCloud(0, 0, -1, -1)
	unlimited.Rand = always(0)
	require.Equal(t, -1, unlimited.MaxAttempts)
	require.Equal(t, 1024*time.Second, unlimited.Delay(11))
}
