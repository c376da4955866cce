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

var othersRows = []row{
	{"extra-azure-azcore", 4, 0, 0,
		"800ms 2.4s 5.6s 12s 24.8s 50.4s 60s 60s",
		"[640ms,1.04s] [1.92s,3.12s] [4.48s,7.28s] [9.6s,15.6s] [19.84s,32.24s] [40.32s,60s] [60s,60s] [60s,60s]"},
	{"extra-go-retryablehttp", 5, 0, 0,
		"1s 2s 4s 8s 16s 30s 30s 30s",
		"[1s,1s] [2s,2s] [4s,4s] [8s,8s] [16s,16s] [30s,30s] [30s,30s] [30s,30s]"},
	{"extra-k8s-default-backoff", 4, 0, 0,
		"10ms 50ms 250ms 1.25s 6.25s 6.25s 6.25s 6.25s",
		"[10ms,11ms] [50ms,55ms] [250ms,275ms] [1.25s,1.375s] [6.25s,6.875s] [6.25s,6.875s] [6.25s,6.875s] [6.25s,6.875s]"},
	{"extra-etcd-interceptor", 100, 0, 0,
		"25ms 25ms 25ms 25ms 25ms 25ms 25ms 25ms",
		"[22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms] [22.5ms,27.5ms]"},
	{"extra-urllib3-0.1", 11, 0, 0,
		"0us 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s",
		"[0us,0us] [200ms,200ms] [400ms,400ms] [800ms,800ms] [1.6s,1.6s] [3.2s,3.2s] [6.4s,6.4s] [12.8s,12.8s]"},
	{"extra-stripe-go", 3, 0, 0,
		"500ms 1s 2.5s 5s 5s 5s 5s 5s",
		"[500ms,500ms] [750ms,1s] [1.875s,2.5s] [3.75s,5s] [3.75s,5s] [3.75s,5s] [3.75s,5s] [3.75s,5s]"},
}

func TestAzcoreGivesUpOnARetryAfterBeyondItsLongestDelay(t *testing.T) {
	for after, want := range map[time.Duration]backoff.Reason{
		60 * time.Second: backoff.ReasonAttempts,
		61 * time.Second: backoff.ReasonRetryAfter,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := presets.Azcore()
			err := p.Do(t.Context(), func(context.Context) error { return backoff.RetryAfter(errTransient, after) })
			var gaveUp *backoff.Error
			require.ErrorAs(t, err, &gaveUp)
			require.Equal(t, want, gaveUp.Reason)
		})
	}
}

func TestAzcoreHasNoJitterLeftAtItsCap(t *testing.T) {
	p := presets.Azcore()
	for _, u := range []float64{0, 0.5, top} {
		p.Rand = always(u)
		for _, retry := range []int{7, 8, 63, 64, 1000} {
			require.Equal(t, 60*time.Second, p.Delay(retry))
		}
	}
}

func TestKubernetesStopsGrowingWithItsSteps(t *testing.T) {
	p := presets.KubernetesDefault()
	p.Rand = always(0)
	require.Equal(t, 6250*time.Millisecond, p.Delay(1000))
}

func TestEtcdWaitsOnlyAfterEachQuorum(t *testing.T) {
	const ms = time.Millisecond
	for endpoints, want := range map[int][]time.Duration{
		-2: {25 * ms, 25 * ms, 25 * ms, 25 * ms, 25 * ms, 25 * ms},
		0:  {25 * ms, 25 * ms, 25 * ms, 25 * ms, 25 * ms, 25 * ms},
		1:  {25 * ms, 25 * ms, 25 * ms, 25 * ms, 25 * ms, 25 * ms},
		3:  {0, 25 * ms, 0, 25 * ms, 0, 25 * ms},
		5:  {0, 0, 25 * ms, 0, 0, 25 * ms},
	} {
		p := endless(presets.Etcd(endpoints), always(0.5))
		require.Equal(t, want, waits(t, p, 6), "%d endpoints", endpoints)
	}
}

func TestUrllib3RetriesAtOnceFirstAndStaysAt120Seconds(t *testing.T) {
	p := presets.Urllib3(0)
	require.Zero(t, p.Delay(1))
	require.Equal(t, 102400*time.Millisecond, p.Delay(11))
	require.Equal(t, 120*time.Second, p.Delay(12))

	slow := presets.Urllib3(time.Second)
	require.Equal(t, 2*time.Second, slow.Delay(2))
}

func TestStripeNeverWaitsLessThanHalfASecond(t *testing.T) {
	p := presets.Stripe()
	for _, u := range []float64{0, 0.5, top} {
		p.Rand = always(u)
		require.Equal(t, 500*time.Millisecond, p.Delay(1))
	}
}
