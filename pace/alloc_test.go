//go:build !race

// The race detector allocates.

package pace_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/pace"
)

func TestNothingHeldAllocatesNothing(t *testing.T) {
	policy := backoff.Policy{Budget: backoff.JoinBudgets(new(backoff.RetryBudget), new(pace.HoldOff))}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = policy.Do(t.Context(), func(context.Context) error { return nil })
	}))
}
