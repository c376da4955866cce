package backoff

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// That two processors meet at the counter, no test can rely on.
func TestBreakerCountsSuccessesThatMeet(t *testing.T) {
	var b Breaker
	stack := Stack(&b, &Policy{})
	succeed := func(context.Context) error { return nil }
	require.NoError(t, b.Do(t.Context(), succeed))
	b.phase.Load().Good.Split()

	require.NoError(t, b.Do(t.Context(), succeed))
	require.NoError(t, stack.Do(t.Context(), succeed))
	require.EqualValues(t, 3, b.Stats().Successes)
}
