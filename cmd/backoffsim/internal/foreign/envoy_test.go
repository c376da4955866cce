package foreign_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
)

// envoy returns a budget without a minimum.
func envoy(percent float64) *foreign.Envoy {
	b := foreign.NewEnvoy()
	b.BudgetPercent, b.MinRetryConcurrency = percent, 0
	return b
}

func TestEnvoyAllowsAShareOfWhatIsUnderWay(t *testing.T) {
	for _, c := range []struct{ active, want int }{{0, 3}, {1, 3}, {15, 3}, {19, 3}, {20, 4}, {24, 4}, {25, 5}, {100, 20}, {1000, 200}} {
		b := foreign.NewEnvoy()
		repeat(c.active, func() { begin(t, b) })
		require.Equal(t, c.want, grants(b, 2000), "%d under way", c.active)
	}
	b := envoy(25) // the example of its documentation
	repeat(100, func() { begin(t, b) })
	require.Equal(t, 25, grants(b, 2000))
	require.Zero(t, grants(envoy(100), 1), "without a minimum, and nothing under way")
}

func TestEnvoyCountsADepartedRetryAsUnderWay(t *testing.T) {
	b := envoy(50)
	repeat(4, func() { begin(t, b) })
	one, _ := askRetry(b)
	_, _ = askRetry(b)
	_, ok := askRetry(b)
	require.False(t, ok, "2 of 4")
	require.True(t, b.Confirm(one))
	require.True(t, b.Confirm(one), "once")
	require.True(t, b.Confirm(backoff.Ticket{Word: 99}))
	_, ok = askRetry(b)
	require.False(t, ok, "2 of 5, truncated")
	first := begin(t, b)
	three, ok := askRetry(b)
	require.True(t, ok, "3 of 6")
	b.Done(three, backoff.Result{Outcome: backoff.OutcomeNotSent})
	b.Done(one, backoff.Result{})
	b.Done(one, backoff.Result{})
	require.True(t, b.Confirm(one), "nobody departs who is gone")
	b.Done(first, backoff.Result{})
	active, retries := b.Load()
	require.Equal(t, []int{4, 1}, []int{active, retries})
}

func TestEnvoyCountsAHedgeAsBoth(t *testing.T) {
	b := foreign.NewEnvoy()
	ticket, _, ok := b.Reserve(backoff.Attempt{Number: 2, Hedge: true})
	require.True(t, ok)
	active, retries := b.Load()
	require.Equal(t, []int{1, 1}, []int{active, retries})
	b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeCanceled})
	active, retries = b.Load()
	require.Equal(t, []int{0, 0}, []int{active, retries})
}
