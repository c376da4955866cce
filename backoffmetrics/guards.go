package backoffmetrics

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/pace"
)

// A shownBreaker is a breaker as it is shown: what its events said, and its
// state if it is watched.
type shownBreaker struct {
	name string
	*breaker
	state backoff.State
	mode  backoff.Mode // ModeEnforce if it is not watched
}

// shownBreakers returns all breakers, sorted by name. Of watched breakers that
// share a name the worst state counts.
func (m *Metrics) shownBreakers() []shownBreaker {
	shown := make(map[string]shownBreaker)
	for _, b := range m.breakers.inOrder() {
		shown[b.name] = shownBreaker{name: b.name, breaker: &b.value, state: b.value.state()}
	}
	watched := make(map[string]shownBreaker)
	m.eachBreaker(func(name string, b *backoff.Breaker) {
		state := b.State()
		if before, ok := watched[name]; !ok || urgencyOf(state) > urgencyOf(before.state) {
			watched[name] = shownBreaker{name: name, state: state, mode: b.Stats().Mode}
		}
	})
	for name, b := range watched {
		if b.breaker = shown[name].breaker; b.breaker == nil {
			b.breaker = new(breaker)
		}
		shown[name] = b
	}
	return sortedByName(shown)
}

// urgencyOf orders the states of breakers.
func urgencyOf(s backoff.State) int {
	return map[backoff.State]int{backoff.StateHalfOpen: 1, backoff.StateOpen: 2}[s]
}

// eachBreaker calls f for each watched breaker, with the name that is shown.
func (m *Metrics) eachBreaker(f func(name string, b *backoff.Breaker)) {
	for name, b := range m.watched.breaker.sorted() {
		f(name, b)
	}
	bounded := m.newBound()
	add := func(all *backoff.Breakers) {
		for key, b := range sortedByKey(all.All()) {
			if b == nil {
				continue // a New that wants no breaker for the key
			}
			if b.Name != "" {
				key = b.Name
			}
			f(bounded.label(key), b)
		}
	}
	for _, all := range m.watched.breakers.sorted() {
		add(all)
	}
	for _, all := range m.watched.breakers.rest(m.endpoints.breakers()) {
		add(all)
	}
}

// A shownBudget is a budget as it is shown.
type shownBudget struct {
	name string
	backoff.RetryBudgetStats
	window time.Duration // 0 if it is not known, or there are several

	paced   bool    // calls wait for their turn, because the service throttles
	rate    float64 // of the turns, per second
	waiting int     // calls
}

// addPace adds the pace of a budget that has one now.
func (b *shownBudget) addPace(budget any) {
	p, ok := budget.(*pace.Pacer)
	if !ok {
		return
	}
	if rate, waiting := p.Limit(); !math.IsInf(rate, 1) {
		b.paced, b.rate, b.waiting = true, b.rate+rate, b.waiting+waiting
	}
}

// shownBudgets returns all watched budgets, sorted by name. Those that share a
// name are added up.
func (m *Metrics) shownBudgets() []shownBudget {
	shown := make(map[string]shownBudget)
	add := func(name string, budget any) {
		b, ok := budget.(interface {
			Stats() backoff.RetryBudgetStats
		})
		if !ok {
			return
		}
		s, window := b.Stats(), windowOfBudget(budget)
		sum, ok := shown[name]
		if !ok {
			sum.window = window
		} else if sum.window != window {
			sum.window = 0
		}
		sum.name = name
		sum.addPace(budget)
		sum.Successes, sum.Retries, sum.Allowed = sum.Successes+s.Successes, sum.Retries+s.Retries, sum.Allowed+s.Allowed
		shown[name] = sum
	}
	for name, b := range m.watched.budget.sorted() {
		add(name, b)
	}
	bounded, added := m.newBound(), make(map[*backoff.Budgets]bool)
	addAll := func(all *backoff.Budgets) {
		if added[all] {
			return
		}
		added[all] = true
		for key, b := range sortedByKey(all.All()) {
			add(bounded.label(key), b)
		}
	}
	for _, all := range m.watched.budgets.sorted() {
		addAll(all)
	}
	for _, all := range m.endpoints.budgets() {
		addAll(all)
	}
	return sortedByName(shown)
}

// windowOfBudget returns the time over which a budget counts, or 0 if that is
// not known.
func windowOfBudget(budget any) time.Duration {
	var own time.Duration
	switch b := budget.(type) {
	case *backoff.RetryBudget:
		own = b.Window
	case *pace.Pacer:
		own = b.Window
	default:
		return 0
	}
	return cmp.Or(max(0, own), defaultBudgetWindow)
}

// defaultBudgetWindow is that of a RetryBudget without a Window.
const defaultBudgetWindow = 10 * time.Second

// sortedByName returns the values of a map, sorted by their keys.
func sortedByName[T any](all map[string]T) []T {
	list := make([]T, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// bound limits how many keys are shown by themselves.
type bound struct {
	limit int
	keys  map[string]bool
}

func (m *Metrics) newBound() *bound {
	return &bound{limits.Or(m.MaxNames, defaultMaxNames), make(map[string]bool)}
}

// label returns the name under which a key is shown.
func (b *bound) label(key string) string {
	l := labelOf(key)
	if !b.keys[l] && b.limit > 0 && len(b.keys) >= b.limit {
		return other
	}
	b.keys[l] = true
	return strings.Clone(l)
}

// A shownKeys is how many keys were forgotten for others.
type shownKeys struct {
	name      string
	evictions uint64
}

// The names under which the keys of all endpoints are shown, unless they are
// watched under a name.
const (
	breakersOfEndpoints = "breakers of endpoints"
	budgetsOfEndpoints  = "budgets of endpoints"
)

// shownKeys returns the evictions of all that is keyed, sorted by name.
func (m *Metrics) shownKeys() []shownKeys {
	shown := make(map[string]shownKeys)
	add := func(name string, evictions uint64) {
		shown[name] = shownKeys{name, shown[name].evictions + evictions}
	}
	for name, b := range m.watched.breakers.sorted() {
		add(name, b.Evictions())
	}
	for name, b := range m.watched.budgets.sorted() {
		add(name, b.Evictions())
	}
	for _, b := range m.watched.breakers.rest(m.endpoints.breakers()) {
		add(breakersOfEndpoints, b.Evictions())
	}
	for _, b := range m.watched.budgets.rest(m.endpoints.budgets()) {
		add(budgetsOfEndpoints, b.Evictions())
	}
	return sortedByName(shown)
}
