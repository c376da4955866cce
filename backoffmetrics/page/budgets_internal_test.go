package page

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/snapshot"
)

func TestWhatABudgetHasUsedAndWhatIsLeftAddUp(t *testing.T) {
	for name, c := range map[string]struct {
		stats   backoff.RetryBudgetStats
		waiting int
		want    budgetRow
	}{
		"some left": {backoff.RetryBudgetStats{Successes: 202, Retries: 12, Allowed: 20}, 0, budgetRow{Used: 12, Left: 8, Allowed: 20, Text: "202 successes within its window paid for 20 retries"}},
		"overdrawn": {backoff.RetryBudgetStats{Successes: 202, Retries: 29, Allowed: 20}, 0, budgetRow{Used: 20, Allowed: 20, Extra: 9,
			Text: "202 successes within its window paid for 20 retries; 9 more were granted, on earlier successes or as spare retries"}},
		"strained": {backoff.RetryBudgetStats{Successes: 202, Retries: 12, Allowed: 20, Strained: true}, 0, budgetRow{Used: 12, Left: 8, Allowed: 20,
			Text: "the service is much slower than usual, so there are fewer retries; 202 successes within its window paid for 20 retries"}},
		"patient": {backoff.RetryBudgetStats{}, 3, budgetRow{Text: "3 calls wait for the service to come back; no success within its window, and so none to pay for retries"}},
		"spare":   {backoff.RetryBudgetStats{Retries: 1}, 0, budgetRow{Extra: 1, Text: "no success within its window, and so none to pay for retries; 1 more was granted, on earlier successes or as spare retries"}},
	} {
		require.Equal(t, c.want, budgetRowOf(&snapshot.Budget{RetryBudgetStats: c.stats, Waiting: c.waiting}), name)
	}
}

// A Pacer that slows calls down is why they take longer, and fail without an
// attempt.
func TestABudgetSaysThatCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := serve()
		hosts := &guard.Services{New: func(string) *guard.Service { return &guard.Service{NoBreaker: true} }}
		m.WatchServices("hosts", hosts)
		p := hosts.For("a.test").With(backoff.Policy{MaxAttempts: 1})
		fail := func(context.Context) error { return backoff.OfClass(errors.New("429"), backoff.ClassThrottled) }
		require.NotContains(t, m.pageData().Budgets[0].Text, "turn")
		for range 10 {
			require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
		}
		for range 4 { // of a program that makes ten calls in a moment
			require.Error(t, p.Do(t.Context(), fail))
		}
		for range 2 {
			go func() { _ = p.Do(t.Context(), fail) }()
		}
		synctest.Wait()
		require.Regexp(t, `^the service throttles: calls wait for their turn, at \d+\.\d a second, and 2 calls wait now; 10 successes`, m.pageData().Budgets[0].Text)
		require.Equal(t, "Calls wait for their turn at a.test. The service throttles: send fewer calls, or ask for a higher limit.", headlineText(t, m))
		time.Sleep(time.Minute)
		require.NotContains(t, m.pageData().Budgets[0].Text, "turn", "it is over")
		require.Contains(t, headlineText(t, m), "Nothing to do")
	})
}
