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
	{
		name:   "aws-full-jitter-100ms-30s",
		delays: "100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		bounds: "[0us,100ms] [0us,200ms] [0us,400ms] [0us,800ms] [0us,1.6s] [0us,3.2s] [0us,6.4s] [0us,12.8s]",
	},
	{
		name:   "aws-equal-jitter-100ms-30s",
		delays: "100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		bounds: "[50ms,100ms] [100ms,200ms] [200ms,400ms] [400ms,800ms] [800ms,1.6s] [1.6s,3.2s] [3.2s,6.4s] [6.4s,12.8s]",
	},
	{
		name:   "aws-decorrelated-100ms-30s",
		bounds: "[100ms,300ms] [100ms,900ms] [100ms,2.7s] [100ms,8.1s] [100ms,24.3s] [100ms,30s] [100ms,30s] [100ms,30s]",
		grain:  121, // 1+3+9+27+81 ns: each wait is cut to a nanosecond, and tripled
	},
	{
		name:     "aws-simulator-5-2000",
		delays:   "10ms 20ms 40ms 80ms 160ms 320ms 640ms 1.28s",
		bounds:   "[10ms,10ms] [20ms,20ms] [40ms,40ms] [80ms,80ms] [160ms,160ms] [320ms,320ms] [640ms,640ms] [1.28s,1.28s]",
		attempts: -1,
	},
	{
		name:     "aws-sdk-standard-doc",
		delays:   "1s 2s 4s 8s 16s 20s 20s 20s",
		bounds:   "[0us,1s] [0us,2s] [0us,4s] [0us,8s] [0us,16s] [0us,20s] [0us,20s] [0us,20s]",
		attempts: 3,
	},
	{
		name:     "aws-sdk-go-v2-legacy",
		delays:   "2s 4s 8s 16s 20s 20s 20s 20s",
		bounds:   "[0us,2s] [0us,4s] [0us,8s] [0us,16s] [20s,20s] [20s,20s] [20s,20s] [20s,20s]",
		attempts: 3,
	},
	{
		name:     "aws-sdk-2026-transient",
		delays:   "50ms 100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s",
		bounds:   "[0us,50ms] [0us,100ms] [0us,200ms] [0us,400ms] [0us,800ms] [0us,1.6s] [0us,3.2s] [0us,6.4s]",
		attempts: 3,
	},
	{
		name:     "aws-sdk-2026-throttling",
		delays:   "1s 2s 4s 8s 16s 20s 20s 20s",
		bounds:   "[0us,1s] [0us,2s] [0us,4s] [0us,8s] [0us,16s] [0us,20s] [0us,20s] [0us,20s]",
		attempts: 3,
	},
}

func TestAWSFullJitterWaitsHalfTheCapOnAverage(t *testing.T) {
	const n = 100_000
	p := presets.AWSFullJitter()
	p.Rand = seeded()
	var sum float64
	for range n {
		sum += p.Delay(20).Seconds()
	}
	require.InDelta(t, 15, sum/n, 3*30/math.Sqrt(12*n), "3 sigma")
}

func TestAWSEqualJitterNeverWaitsLessThanHalf(t *testing.T) {
	p := presets.AWSEqualJitter()
	p.Rand = always(0)
	for retry := 1; retry <= 100; retry++ {
		require.Equal(t, p.Schedule.Delay(retry)/2, p.Delay(retry))
	}
}

func TestAWSDecorrelatedStaysBetweenItsBaseAndThreeTimesThePreviousWait(t *testing.T) {
	const base, most = 100 * time.Millisecond, 30 * time.Second
	p := presets.AWSDecorrelated()
	draw := seeded()
	for _, prev := range []time.Duration{0, base, 150 * time.Millisecond, time.Second, 9 * time.Second, 10 * time.Second, 11 * time.Second, most} {
		hi := min(most, 3*max(prev, base))
		for range 10_000 {
			wait := p.Jitter(base, prev, draw())
			if wait < base || wait > hi {
				require.FailNowf(t, "out of bounds", "after %v: %v", prev, wait)
			}
		}
		require.InDelta(t, base, p.Jitter(base, prev, 0), 1)
		require.InDelta(t, hi, p.Jitter(base, prev, top), float64(float))
	}
}

func TestAWSDecorrelatedPutsTwoThirdsOnTheCapAfterOneAtTheCap(t *testing.T) {
	const n, most = 100_000, 30 * time.Second
	p := presets.AWSDecorrelated()
	draw := seeded()
	for prev, want := range map[time.Duration]float64{
		5 * time.Second:  0,                      // 3*5 s does not reach it
		20 * time.Second: (60. - 30) / (60 - .1), // U(0.1, 60) beyond 30
		most:             (90. - 30) / (90 - .1),
	} {
		at := 0
		for range n {
			if p.Jitter(0, prev, draw()) == most {
				at++
			}
		}
		require.InDelta(t, want, float64(at)/n, 3*math.Sqrt(.25/n), "after %v", prev)
	}
}

func TestAWSDecorrelatedCallsDoNotMix(t *testing.T) {
	p := endless(presets.AWSDecorrelated(), always(top))
	alone := waits(t, &p, 5)
	one, two := p.Start(t.Context()), p.Start(t.Context())
	for i, want := range alone {
		first, _ := one.Retry(errTransient)
		require.Equal(t, want, first, "retry %d", i+1)
		if i%2 == 0 { // the other one is slower
			second, _ := two.Retry(errTransient)
			require.Equal(t, alone[i/2], second)
		}
	}
}

func TestAWSSimulatorStaysAtTwoSeconds(t *testing.T) {
	p := presets.AWSSimulator()
	require.Equal(t, 1280*time.Millisecond, p.Delay(8))
	require.Equal(t, 2*time.Second, p.Delay(9))
	require.Equal(t, 2*time.Second, p.Delay(1000))
}

func TestAWSStandardDocsPutsAMassOnTheCap(t *testing.T) {
	const n = 100_000
	p := presets.AWSStandardDocs()
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
		wait, _ := p.Decide(30, err)
		require.Equal(t, 5*time.Second, wait)
	}
}

var errThrottled = backoff.WithClass(errTransient, backoff.ClassThrottled)

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
