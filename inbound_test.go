package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func TestAnInboundDeadlineThatLeavesNoTimeOpensNoCircuit(t *testing.T) {
	for _, row := range []struct {
		left time.Duration
		mark bool
		want backoff.State
	}{
		{time.Millisecond, true, backoff.StateClosed},
		{time.Second, true, backoff.StateOpen},
		{time.Millisecond, false, backoff.StateOpen}, // the process's own
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), row.left)
			defer cancel()
			if row.mark {
				ctx = backoff.WithInboundDeadline(ctx)
			}
			breaker := &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1}
			require.Error(t, breaker.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
			require.Equal(t, row.want, breaker.State())
		})
	}
	require.Equal(t, t.Context(), backoff.WithInboundDeadline(t.Context()), "it has none")
}
