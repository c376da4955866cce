package backoffmetrics

import (
	"cmp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// reading is what is watched, by name. Of breakers that share a name the worst state
// counts, and budgets that share one are added up.
type reading struct {
	breakers map[string]*snapshot.Breaker // with those that were counted
	seen     map[string]bool              // watched breakers
	budgets  map[string]snapshot.Budget
}

// readWatched reads everything that is watched. It adds to the breakers, and returns
// the budgets, sorted by name.
func (m *Metrics) readWatched(breakers map[string]*snapshot.Breaker) []snapshot.Budget {
	r := reading{breakers, make(map[string]bool), make(map[string]snapshot.Budget)}
	for name, b := range m.watched.breaker.sorted() {
		r.breaker(name, b.Stats())
	}
	for name, s := range m.watched.budget.sorted() {
		if state := s.State(); state.Budget != nil {
			r.budget(name, state)
		}
	}
	known := map[*backoff.Breaker]bool{nil: true} // tenants share one
	breakerNames, budgetNames := m.newBound(), m.newBound()
	for _, of := range inTurns(m.watched.services.and(m.endpoints.services())) {
		state := of.service.State()
		if _, b := of.service.Parts(); !known[b] {
			known[b] = true
			r.breaker(breakerNames.label(cmp.Or(b.Name, of.key)), state.Breaker)
		}
		if state.Budget != nil {
			r.budget(budgetNames.label(of.key), state)
		}
	}
	return sortedByName(r.budgets)
}

// breaker adds the state of a breaker.
func (r *reading) breaker(name string, s backoff.BreakerStats) {
	to := r.breakers[name]
	if to == nil {
		to = &snapshot.Breaker{Name: name}
		r.breakers[name] = to
	}
	if !r.seen[name] || urgencyOf(s.State) > urgencyOf(to.State) {
		to.State, to.Mode = s.State, s.Mode
	}
	r.seen[name] = true
}

// urgencyOf orders the states of breakers.
func urgencyOf(s backoff.BreakerState) int {
	return map[backoff.BreakerState]int{backoff.BreakerHalfOpen: 1, backoff.BreakerOpen: 2}[s]
}

// budget adds the state of a budget.
func (r *reading) budget(name string, s guard.State) {
	sum := r.budgets[name]
	sum.Name, sum.Strained = name, sum.Strained || s.Budget.Strained
	sum.Successes, sum.Retries, sum.Allowed = sum.Successes+s.Budget.Successes, sum.Retries+s.Budget.Retries, sum.Allowed+s.Budget.Allowed
	sum.PerSecond, sum.AtOnce, sum.Waiting = sum.PerSecond+s.PerSecond, sum.AtOnce+s.AtOnce, sum.Waiting+s.Waiting
	r.budgets[name] = sum
}
