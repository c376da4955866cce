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

func TestASuccessAllocatesNothingWhereNothingIsHeldOrThrottled(t *testing.T) {
	for _, budget := range []backoff.Budget{new(pace.Pacer), backoff.JoinBudgets(new(backoff.RetryBudget), new(pace.HoldOff))} {
		policy := backoff.Policy{Budget: budget}
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			_ = policy.Do(t.Context(), func(context.Context) error { return nil })
		}))
	}
}
