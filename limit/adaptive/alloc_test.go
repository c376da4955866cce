//go:build !race

package adaptive_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit/adaptive"
)

// The race detector allocates, so this runs without it.
func TestALimitAllocatesNothingWhileCallsSucceed(t *testing.T) {
	p, ctx := backoff.Policy{Budget: new(adaptive.Limit)}, t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = p.Do(ctx, func(context.Context) error { return nil })
	}))
}
