package presets_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

var awsRows = []row{
	{"aws-full-jitter-100ms-30s", 0, 0, 0,
		"100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		"[0us,100ms] [0us,200ms] [0us,400ms] [0us,800ms] [0us,1.6s] [0us,3.2s] [0us,6.4s] [0us,12.8s]"},
	{"aws-equal-jitter-100ms-30s", 0, 0, 0,
		"100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		"[50ms,100ms] [100ms,200ms] [200ms,400ms] [400ms,800ms] [800ms,1.6s] [1.6s,3.2s] [3.2s,6.4s] [6.4s,12.8s]"},
	{"aws-decorrelated-100ms-30s", 0, 0, 121, // 1+3+9+27+81 ns: each wait is cut to a nanosecond, and tripled
		"",
		"[100ms,300ms] [100ms,900ms] [100ms,2.7s] [100ms,8.1s] [100ms,24.3s] [100ms,30s] [100ms,30s] [100ms,30s]"},
	{"aws-simulator-5-2000", -1, 0, 0,
		"10ms 20ms 40ms 80ms 160ms 320ms 640ms 1.28s",
		"[10ms,10ms] [20ms,20ms] [40ms,40ms] [80ms,80ms] [160ms,160ms] [320ms,320ms] [640ms,640ms] [1.28s,1.28s]"},
	{"aws-sdk-standard-doc", 3, 0, 0,
		"1s 2s 4s 8s 16s 20s 20s 20s",
		"[0us,1s] [0us,2s] [0us,4s] [0us,8s] [0us,16s] [0us,20s] [0us,20s] [0us,20s]"},
	{"aws-sdk-go-v2-legacy", 3, 0, 0,
		"2s 4s 8s 16s 20s 20s 20s 20s",
		"[0us,2s] [0us,4s] [0us,8s] [0us,16s] [20s,20s] [20s,20s] [20s,20s] [20s,20s]"},
	{"aws-sdk-2026-transient", 3, 0, 0,
		"50ms 100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s",
		"[0us,50ms] [0us,100ms] [0us,200ms] [0us,400ms] [0us,800ms] [0us,1.6s] [0us,3.2s] [0us,6.4s]"},
	{"aws-sdk-2026-throttling", 3, 0, 0,
		"1s 2s 4s 8s 16s 20s 20s 20s",
		"[0us,1s] [0us,2s] [0us,4s] [0us,8s] [0us,16s] [0us,20s] [0us,20s] [0us,20s]"},
}

func TestAWSSimulatorStaysAtTwoSeconds(t *testing.T) {
	p := byName(t, "aws-simulator-5-2000")
	require.Equal(t, 1280*time.Millisecond, p.Delay(8))
	require.Equal(t, 2*time.Second, p.Delay(9))
	require.Equal(t, 2*time.Second, p.Delay(1000))
}

func TestAWSStandardDocsPutsAMassOnTheCap(t *testing.T) {
	const n = 100_000
	p := byName(t, "aws-sdk-standard-doc")
	p.Rand = seeded()
	for i := 3; i <= 9; i++ { // the exponent, which is 0 at the first retry
		at := 0
		for range n {
			if p.Delay(i+1) == 20*time.Second {
				at++
			}
		}
		want := max(0, 1-20/math.Exp2(float64(i)))
		require.InDelta(t, want, float64(at)/n, 3*math.Sqrt(.25/n), "exponent %d", i)
	}
}

func TestAWSGoV2LegacyWaitsExactlyTwentySecondsAfterTheFourthRetry(t *testing.T) {
	p := presets.AWSGoV2Legacy()
	for _, u := range []float64{0, 0.5, top} {
		p.Rand = always(u)
		require.InDelta(t, u*16, p.Delay(4).Seconds(), 1e-8)
		for _, retry := range []int{5, 6, 63, 64, 1000} {
			require.Equal(t, 20*time.Second, p.Delay(retry))
		}
	}
}

func TestAWS2026KeepsItsSpreadAtTheCap(t *testing.T) {
	p := presets.AWS2026()
	p.Rand = always(0.25)
	p.MaxAttempts = -1
	for _, err := range []error{errTransient, errThrottled} {
		require.Equal(t, 5*time.Second, p.Decide(30, err).Wait)
	}
}

var errThrottled = backoff.OfClass(errTransient, backoff.ClassThrottled)

// The base is that of the error, the exponent that of the call.
func TestAWS2026LooksAtEachError(t *testing.T) {
	p := endless(presets.AWS2026(), always(top))
	run := p.Start(t.Context())
	for i, row := range []struct {
		err  error
		wait time.Duration
	}{
		{errTransient, 50 * time.Millisecond}, {errThrottled, 2 * time.Second}, {errTransient, 200 * time.Millisecond},
		{errThrottled, 8 * time.Second}, {errThrottled, 16 * time.Second}, {errThrottled, 20 * time.Second}, {errTransient, 3200 * time.Millisecond},
	} {
		wait, ok := run.Retry(row.err)
		require.True(t, ok)
		require.InDelta(t, row.wait, wait, float64(float), "retry %d", i+1)
	}
}
