//go:build !race

package guard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// The race detector allocates, so this runs without it.
func TestACallThatSucceedsAllocatesNothing(t *testing.T) {
	ctx, n := t.Context(), 0 // n is captured, so that the closures are real ones
	for name, s := range map[string]*guard.Service{
		"usual":             {},
		"fails fast":        {FailFast: true},
		"a retry budget":    {Budget: new(backoff.RetryBudget)},
		"without a breaker": {NoBreaker: true, FailFast: true},
		"without guards":    {NoBreaker: true, NoBudget: true},
		"a tenant":          new(guard.Service).Tenant("a"),
	} {
		client := s.With(backoff.Policy{Name: "send"})
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = client.Do(ctx, func(context.Context) error { n++; return nil })
		}), "%s: With", name)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = s.Do(ctx, backoff.Policy{Name: "send"}, func(context.Context) error { n++; return nil })
		}), "%s: Do", name)
	}
}
