package presets_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

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
