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
