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
	bounded, added := m.newBound(), make(map[*backoff.Budgets]bool)
	addAll := func(keyed *backoff.Budgets) {
		if added[keyed] {
			return
		}
		added[keyed] = true
		for key, b := range sortedByKey(keyed.All()) {
			add(bounded.label(key), b)
		}
	}
	for _, keyed := range m.watched.budgets.sorted() {
		addAll(keyed)
	}
	for _, keyed := range m.endpoints.budgets() {
		addAll(keyed)
	}
	return sortedByName(all)
}
