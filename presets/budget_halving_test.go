package presets_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

// limited returns a rate that has served 1,000 calls a second for 2 s.
func limited(t *testing.T) *presets.AdaptiveRate {
	b := presets.NewHalvingRate()
	serve(t, b, 2*time.Second)
	return b
}

// serve makes a call every millisecond, which succeeds.
func serve(t *testing.T, b backoff.Budget, d time.Duration) {
	for range d / time.Millisecond {
		time.Sleep(time.Millisecond)
		finish(t, b, backoff.OutcomeSuccess)
	}
}

func TestHalvingRateHalvesOnEachThrottledResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limited(t)
		require.Equal(t, math.Inf(1), b.Rate(), "no limit before there is a reason")
		for _, want := range []float64{500, 250, 125, 62.5} {
			finish(t, b, backoff.OutcomeThrottled)
			require.InEpsilon(t, want, b.Rate(), 0.01)
		}
		for range 20 {
			finish(t, b, backoff.OutcomeThrottled)
		}
		require.Equal(t, 0.5, b.Rate(), "but no further")
	})
}

// A fall takes one response, and eight quiet seconds make good for it.
func TestHalvingRateRisesInStepsMoreSlowlyThanItFell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limited(t)
		finish(t, b, backoff.OutcomeThrottled)
		low := b.Rate()
		for step := range 8 {
			serve(t, b, time.Second-time.Millisecond)
			require.InDelta(t, low*math.Exp2(float64(step)/8), b.Rate(), 1e-6, "not before its time")
			serve(t, b, time.Millisecond)
			require.InDelta(t, low*math.Exp2(float64(step+1)/8), b.Rate(), 1e-6)
		}
		serve(t, b, time.Minute)
		require.LessOrEqual(t, b.Rate(), 2005.0, "twice what is served")
	})
}

func TestHalvingRatesShareALimitFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 4
		service := rate.NewLimiter(200, 20)
		var sent [clients]float64
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 7 * time.Second) // late ones must find room
				taken, refused := offerTo(presets.NewHalvingRate(), service, 3*time.Millisecond, 5*time.Minute)
				sent[i] = float64(taken + refused)
			})
		}
		all.Wait()
		fair := (sent[0] + sent[1] + sent[2] + sent[3]) / clients
		for i, n := range sent {
			require.InDelta(t, 1, n/fair, 0.35, "client %d of %v", i, sent)
		}
	})
}
