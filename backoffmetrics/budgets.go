package backoffmetrics

import (
	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// readBudgets returns all watched budgets, sorted by name. Those that share a
// name are added up.
func (m *Metrics) readBudgets() []snapshot.Budget {
	all := make(map[string]snapshot.Budget)
	add := func(name string, budget backoff.Budget) {
		b, ok := budget.(interface {
			Stats() backoff.RetryBudgetStats
		})
		if !ok {
			return
		}
		s, sum := b.Stats(), all[name]
		sum.Name, sum.Of = name, append(sum.Of, budget)
		sum.Strained = sum.Strained || s.Strained
		sum.Successes, sum.Retries, sum.Allowed = sum.Successes+s.Successes, sum.Retries+s.Retries, sum.Allowed+s.Allowed
		all[name] = sum
	}
	for name, b := range m.watched.budget.sorted() {
		add(name, b)
	}
	bounded := m.newBound()
	for _, of := range inTurns(m.watched.budgets.and(m.endpoints.budgets())) {
		add(bounded.label(of.key), of.value)
	}
	return sortedByName(all)
}
