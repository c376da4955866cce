package backoffmetrics

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// WatchBreaker shows the state of b under a name, from now on, and not only
// after its first change. The state is read when the series are
// requested. A breaker of the same name is replaced. A nil b removes the name.
func (m *Metrics) WatchBreaker(name string, b *backoff.Breaker) {
	m.watched.breaker.set(name, b, b == nil)
}

// WatchBudget shows the state of b, a RetryBudget or a Pacer, under a name. The state
// is read when the series are requested. A budget of the same name is replaced. A nil
// b removes the name. [guard.Service.Parts] returns the budget and the breaker of a
// Service.
func (m *Metrics) WatchBudget(name string, b backoff.Budget) {
	m.watched.budget.set(name, &guard.Service{Budget: b, NoBreaker: true}, b == nil)
}

// WatchServices shows the breakers, the RetryBudgets and the Pacers of s under their
// keys, and under the name how many keys s has forgotten for others. Tenants have a
// budget each, and share a breaker, which is shown once. All of this is read when the
// series are requested. An s of the same name is replaced. A nil s removes the name.
// Why and how often a breaker opened is known only if s.New makes the Service with an
// Observer, such as m.Observe.
func (m *Metrics) WatchServices(name string, s *guard.Services) {
	m.watched.services.set(name, s, s == nil)
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

// turn is a service, and how many keys were there before its own.
type turn struct {
	older   int
	key     string
	service *guard.Service
}

// inTurns returns the oldest key of each registry, then the second of each, and
// so on. Within a limit, a stranger who chooses the keys of one then hides
// neither older ones nor those of others. A New may want no service for a key.
func inTurns(registries []*guard.Services) (all []turn) {
	for _, r := range registries {
		older := 0
		for key, service := range r.All() {
			if service != nil {
				all = append(all, turn{older, key, service})
			}
			older++
		}
	}
	slices.SortStableFunc(all, func(a, b turn) int { return a.older - b.older })
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

// servicesOfEndpoints is the name under which the keys of all endpoints are shown,
// unless they are watched under a name.
const servicesOfEndpoints = "services of endpoints"

// readKeys returns the evictions of all that is keyed, sorted by name.
func (m *Metrics) readKeys() []snapshot.Keys {
	shown := make(map[string]snapshot.Keys)
	add := func(name string, evictions uint64) {
		shown[name] = snapshot.Keys{Name: name, Evictions: shown[name].Evictions + evictions}
	}
	for name, s := range m.watched.services.sorted() {
		add(name, s.Evictions())
	}
	for _, s := range m.watched.services.rest(m.endpoints.services()) {
		add(servicesOfEndpoints, s.Evictions())
	}
	return sortedByName(shown)
}
