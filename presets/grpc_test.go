package presets_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

var grpcRows = []row{
	{"grpc-a6-current", 4, 0, 0,
		"100ms 200ms 400ms 800ms 1s 1s 1s 1s",
		"[80ms,120ms] [160ms,240ms] [320ms,480ms] [640ms,960ms] [800ms,1.2s] [800ms,1.2s] [800ms,1.2s] [800ms,1.2s]"},
	{"grpc-connection-backoff", -1, 0, 0,
		"1s 1.6s 2.56s 4.096s 6.5536s 10.48576s 16.777216s 26.8435456s",
		"[1s,1s] [1.28s,1.92s] [2.048s,3.072s] [3.2768s,4.9152s] [5.24288s,7.86432s] [8.388608s,12.582912s] [13.4217728s,20.1326592s] [21.47483648s,32.21225472s]"},
}

func TestGRPCRetryJittersAfterTheCap(t *testing.T) {
	p := presets.GRPCRetry()
	p.Rand = always(top)
	require.InDelta(t, 1200*time.Millisecond, p.Delay(5), float64(float))
}

func TestGRPCConnectionWaitsExactlyOneSecondFirst(t *testing.T) {
	for _, u := range []float64{0, 0.3, top} {
		p := presets.GRPCConnection()
		p.Rand = always(u)
		require.Equal(t, time.Second, waits(t, p, 1)[0])
		require.Equal(t, time.Second, p.Delay(1))
		require.InDelta(t, (0.8+0.4*u)*1.6, p.Delay(2).Seconds(), 1e-8, "the second one is jittered, in a call or not")
	}
}

func TestGRPCConnectionReconnectsForEverAt120SecondsGiveOrTakeAFifth(t *testing.T) {
	low, high := presets.GRPCConnection(), presets.GRPCConnection()
	low.Rand, high.Rand = always(0), always(top)
	require.Equal(t, 120*time.Second, low.Schedule.Delay(12))
	for _, retry := range []int{12, 64, 1000} {
		require.InDelta(t, 96*time.Second, low.Delay(retry), float64(float))
		require.InDelta(t, 144*time.Second, high.Delay(retry), float64(float))
	}
	synctest.Test(t, func(t *testing.T) {
		made, err := exhaust(t, low)
		require.Equal(t, enough, made)
		require.Equal(t, backoff.ReasonCanceled, err.Reason)
	})
}
