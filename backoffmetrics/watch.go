package backoffmetrics

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// WatchBreaker shows the state of b under a name, from now on, and not only
// after its first change. The state is read when the series are
// requested. A breaker of the same name is replaced. A nil b removes the name.
func (m *Metrics) WatchBreaker(name string, b *backoff.Breaker) {
	m.watched.breaker.set(name, b, b == nil)
}

// WatchBreakers shows the breakers of b under their keys, and under the name how
// many keys b has forgotten for others. All of this is read when the series
// are requested. A b of the same name is replaced. A nil b removes the
// name. Why and how often a breaker opened is known only if b.New makes it
// with an Observer, such as m.Observe.
func (m *Metrics) WatchBreakers(name string, b *backoff.Breakers) {
	m.watched.breakers.set(name, b, b == nil)
}

// WatchBudget shows the state of b under a name. The state is read when the
// series are requested. A budget of the same name is replaced. A nil
// b removes the name.
func (m *Metrics) WatchBudget(name string, b *backoff.RetryBudget) {
	m.watched.budget.set(name, b, b == nil)
}

// WatchBudgets shows those budgets of b that are RetryBudgets or Pacers under
// their keys, and under the name how many keys b has forgotten for others. All
// of this is read when the series are requested. A b of the same name
// is replaced. A nil b removes the name.
func (m *Metrics) WatchBudgets(name string, b *backoff.Budgets) {
	m.watched.budgets.set(name, b, b == nil)
}

// WatchFamily adds a family of the program's own to the series, under its Name.
// read is called when the series are requested. A family of the same name is
// replaced. A nil read removes the name.
func (m *Metrics) WatchFamily(name string, read func() Family) {
	m.watched.families.set(name, &read, read == nil)
}

// watched has things by the name under which they are shown.
type watched[T comparable] struct {
	mu     sync.Mutex
	byName map[string]T
}

// set adds a thing, or removes the name.
func (w *watched[T]) set(name string, thing T, remove bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	label := snapshot.Label(name)
	if remove {
		delete(w.byName, label)
		return
	}
	if w.byName == nil {
		w.byName = make(map[string]T)
	}
	w.byName[strings.Clone(label)] = thing
}

// sorted yields all things, sorted by name. The lock is not held meanwhile.
func (w *watched[T]) sorted() iter.Seq2[string, T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(w.byName)
	return func(yield func(string, T) bool) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !yield(name, all[name]) {
				return
			}
		}
	}
}

// and returns all things, and those of others, each once.
func (w *watched[T]) and(others []T) (all []T) {
	for _, thing := range w.sorted() {
		if !slices.Contains(all, thing) {
			all = append(all, thing)
		}
	}
	return append(all, w.rest(others)...)
}

// turn is a value of a registry, and how many keys were there before its own.
type turn[V any] struct {
	older int
	key   string
	value V
}

// inTurns returns the oldest key of each registry, then the second of each, and
// so on. Within a limit, a stranger who chooses the keys of one then hides
// neither older ones nor those of others.
func inTurns[R interface{ All() iter.Seq2[string, V] }, V any](registries []R) (all []turn[V]) {
	for _, r := range registries {
		older := 0
		for key, value := range r.All() {
			all = append(all, turn[V]{older, key, value})
			older++
		}
	}
	slices.SortStableFunc(all, func(a, b turn[V]) int { return a.older - b.older })
	return all
}

// rest returns those things that are not watched under a name.
func (w *watched[T]) rest(all []T) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	named := slices.Collect(maps.Values(w.byName))
	return slices.DeleteFunc(all, func(thing T) bool { return slices.Contains(named, thing) })
}

// sortedByName returns the values of a map, sorted by their keys.
func sortedByName[T any](all map[string]T) []T {
	list := make([]T, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// The names under which the keys of all endpoints are shown, unless they are
// watched under a name.
const (
	breakersOfEndpoints = "breakers of endpoints"
	budgetsOfEndpoints  = "budgets of endpoints"
)

// readKeys returns the evictions of all that is keyed, sorted by name.
func (m *Metrics) readKeys() []snapshot.Keys {
	shown := make(map[string]snapshot.Keys)
	add := func(name string, evictions uint64) {
		shown[name] = snapshot.Keys{Name: name, Evictions: shown[name].Evictions + evictions}
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
