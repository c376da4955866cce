package foreign_test

import (
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
	"github.com/gobackoff/backoff/presets"
)

func TestBudgetsKeepTheContractOfABudget(t *testing.T) {
	for name := range foreign.Budgets() {
		t.Run(name, func(t *testing.T) {
			backofftest.Budget(t, func() backoff.Budget { return maps.Collect(foreign.Budgets())[name] })
		})
	}
}

func TestBudgetsRefuseWhatMakesNoSense(t *testing.T) {
	for want, b := range map[string]backoff.Budget{
		"SREBudget.Ratio is -0.1, want 0 to 1000":       &foreign.SREBudget{Ratio: -0.1, Window: 1, MinInterval: 1},
		"SREBudget.Ratio is NaN, want 0 to 1000":        &foreign.SREBudget{Ratio: math.NaN(), Window: 1, MinInterval: 1},
		"SREBudget.Window is 0s, want more than 0":      &foreign.SREBudget{MinInterval: 1},
		"SREBudget.MinRetries is -1, want 0 or more":    &foreign.SREBudget{Window: 1, MinInterval: 1, MinRetries: -1},
		"SREBudget.MinInterval is 0s, want more than 0": &foreign.SREBudget{Window: 1},
		"AdaptiveRate is nil":                           (*foreign.AdaptiveRate)(nil),
		"SREBudget is nil":                              (*foreign.SREBudget)(nil),
	} {
		require.EqualError(t, b.Validate(), "backoff: foreign."+want)
	}
}

func TestBudgetsHaveThoseOfPresetsAndAreNew(t *testing.T) {
	all := maps.Collect(foreign.Budgets())
	require.Len(t, all, 11)
	for name, b := range presets.Budgets() {
		require.Equal(t, b, all[name])
	}
	for name, b := range foreign.Budgets() {
		require.Equal(t, grants(all[name], 100), grants(b, 100), name)
	}
}

// The steps that calls take through a budget.

func begin(t *testing.T, b backoff.Budget) backoff.Ticket {
	t.Helper()
	ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1})
	require.True(t, ok, "a first attempt")
	return ticket
}

func finish(t *testing.T, b backoff.Budget, o backoff.Outcome) {
	t.Helper()
	b.Done(begin(t, b), backoff.Result{Outcome: o})
}

func repeat(n int, f func()) {
	for range n {
		f()
	}
}

func askRetry(b backoff.Budget) (backoff.Ticket, bool) {
	ticket, _, ok := b.Reserve(backoff.Attempt{Number: 2})
	return ticket, ok
}

// grants is how many retries are granted one after the other, up to most.
func grants(b backoff.Budget, most int) (n int) {
	for n < most {
		if _, ok := askRetry(b); !ok {
			break
		}
		n++
	}
	return n
}
