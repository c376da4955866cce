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
