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

func TestIstioLimitsEveryTryTheFirstIncluded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := presets.Istio()
		attempts := 0
		err := p.Do(t.Context(), func(ctx context.Context) error {
			attempts++
			deadline, _ := ctx.Deadline()
			require.Equal(t, 2*time.Second, time.Until(deadline))
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, 4, attempts)
	})
}
