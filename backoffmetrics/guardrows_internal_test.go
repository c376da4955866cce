package backoffmetrics

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/pace"
)

func TestABreakerSaysForHowLongAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Metrics
		for trigger := range backoff.TriggerShared + 1 {
			for to := range backoff.StateHalfOpen + 1 {
				m.Observe(t.Context(), backoff.Event{Kind: backoff.EventTransition, Name: "db", Transition: &backoff.Transition{
					Name: "db", To: to, Trigger: trigger, At: time.Now().Add(-950 * time.Millisecond)}})
				require.Regexp(t, "^for 950 ms, because [a-zA-Z ]+; opened ", m.pageData().Breakers[0].Text+"; opened ")
			}
		}
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventTransition, Name: "db", Transition: &backoff.Transition{
			Name: "db", To: backoff.StateOpen, Trigger: backoff.TriggerProbe, At: time.Now().Add(-950 * time.Millisecond)}})
		m.Observe(t.Context(), backoff.Event{Kind: backoff.EventRefused, Name: "db", Reason: backoff.ReasonOpen})
		require.Equal(t, breakerRow{Name: "db", State: "open", Level: bad, Refused: 1, Opened: 9, age: "950 ms", Text: "for 950 ms, because a probe failed; opened 9 times; refused 1 call"}, m.pageData().Breakers[0])
	})
}

func TestAWatchedBreakerSaysWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Metrics
		b := &backoff.Breaker{OpenFor: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Observer: m.Observe, Name: "db"}
		m.WatchBreaker("db", b)
		row := func() string {
			r := m.pageData().Breakers[0]
			return string(r.Level) + ", " + r.State + ": " + r.Text
		}
		require.Equal(t, "good, closed: since the start", row())
		b.Trip()
		require.Equal(t, "bad, open: for less than 1 ms, because it was set by hand or by the program; opened once", row())
		time.Sleep(time.Second)
		require.Equal(t, "watch, half-open: the open time is over, and the next call probes the service; opened once", row())
		b.Force(backoff.ModeForcedOpen)
		require.Equal(t, "bad, forced open: by hand or by the program, until that ends; opened once", row())
		b.Force(backoff.ModeForcedClosed)
		require.Equal(t, "watch, forced closed: by hand or by the program, until that ends; opened once", row())
		b.Force(backoff.ModeObserve)
		require.Equal(t, "good, closed: for less than 1 ms, because it was set by hand or by the program; opened once; it only observes, and refuses nothing", row())
		b.Trip()
		require.Regexp(t, "^watch, open \\(observed only\\): for .*; it only observes, and refuses nothing$", row())

		deaf := new(backoff.Breaker)
		m.WatchBreaker("db", deaf)
		m.WatchBreaker("apart", deaf)
		deaf.Trip()
		require.Equal(t, "its Observer is not connected, so it is not known why", m.pageData().Breakers[0].Text)
	})
}

func TestWhatABudgetHasUsedAndWhatIsLeftAddUp(t *testing.T) {
	for name, c := range map[string]struct {
		stats backoff.RetryBudgetStats
		want  budgetRow
	}{
		"some left": {backoff.RetryBudgetStats{Successes: 202, Retries: 12, Allowed: 20}, budgetRow{Used: 12, Left: 8, Allowed: 20, Text: "202 successes in the last 10 s paid for 20 retries"}},
		"overdrawn": {backoff.RetryBudgetStats{Successes: 202, Retries: 29, Allowed: 20}, budgetRow{Used: 20, Allowed: 20, Extra: 9,
			Text: "202 successes in the last 10 s paid for 20 retries; 9 more were granted, on earlier successes or as spare retries"}},
		"spare": {backoff.RetryBudgetStats{Retries: 1}, budgetRow{Extra: 1, Text: "no success in the last 10 s, and so none to pay for retries; 1 more was granted, on earlier successes or as spare retries"}},
	} {
		require.Equal(t, c.want, shownBudget{RetryBudgetStats: c.stats, window: 10 * time.Second}.row(), name)
	}
}

// A Pacer that slows calls down is why they take longer, and fail without an
// attempt.
func TestABudgetSaysThatCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Metrics
		budgets := &backoff.Budgets{New: func(string) backoff.Budget { return new(pace.Pacer) }}
		m.WatchBudgets("hosts", budgets)
		p := backoff.Policy{Budget: budgets.For("a.test"), MaxAttempts: 1}
		fail := func(context.Context) error { return backoff.WithClass(errors.New("429"), backoff.ClassThrottled) }
		require.NotContains(t, m.pageData().Budgets[0].Text, "turn")
		for range 10 {
			require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
		}
		require.Error(t, p.Do(t.Context(), fail))
		for range 2 {
			go func() { _ = p.Do(t.Context(), fail) }()
		}
		synctest.Wait()
		require.Regexp(t, `^the service throttles: calls wait for their turn, at \d+\.\d a second, and 2 calls wait now; 10 successes`, m.pageData().Budgets[0].Text)
		time.Sleep(time.Minute)
		require.NotContains(t, m.pageData().Budgets[0].Text, "turn", "it is over")
	})
}

// The page says over which time a budget counts.
func TestTheWindowOfABudgetIsThatWhichItUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for own, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: time.Minute} {
			b := &backoff.RetryBudget{Window: own}
			require.Equal(t, want, windowOfBudget(b))
			p := backoff.Policy{Budget: b}
			require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
			require.EqualValues(t, 1, b.Stats().Successes)
			time.Sleep(want * 8 / 10)
			require.EqualValues(t, 1, b.Stats().Successes)
			time.Sleep(want * 4 / 10)
			require.Zero(t, b.Stats().Successes)
		}
	})
}
