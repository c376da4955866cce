package backoffmetrics

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gobackoff/backoff"
)

// Metrics counts events. Its Observe is the Observer of any number of policies,
// hedges and breakers.
//
// The zero value is ready for use. A Metrics must not be copied, nor its field
// changed, after first use. All methods are safe for concurrent use. It starts
// no goroutine. A call that succeeds at its first attempt costs a lookup of its
// name and one addition, and takes no lock. Other events take a lock for a new
// name, and every 5 seconds for the history of the page. A transition of a
// breaker allocates; all other events allocate only then.
type Metrics struct {
	_ [0]func() // no unkeyed literals, no ==

	// MaxNames bounds the number of operations that are counted separately,
	// and that of breakers, since names may come from strangers. Later
	// names are counted together under the name "other", and so are names
	// of more than 200 bytes. Bytes that are not UTF-8 are replaced, and an
	// empty name is shown as "unnamed". An operation takes about 1 kB, and
	// 4.5 kB more for the history of the page. 0 means 100, and a negative
	// number means no limit.
	MaxNames int

	operations names[operation]
	breakers   names[breaker]
	history    history

	budgets watched[*backoff.RetryBudget]
	keys    watched[keyed]
}

// Observe counts e. It is a [backoff.Observer].
func (m *Metrics) Observe(_ context.Context, e backoff.Event) { m.observe(&e) }

// observe counts the most frequent event itself.
func (m *Metrics) observe(e *backoff.Event) {
	if e.Kind == backoff.EventSuccess && e.Attempt == 1 && e.Slept == 0 {
		m.operation(e.Name).first.Add()
		return
	}
	m.observeRest(e)
}

// operation returns the counters of a name.
func (m *Metrics) operation(name string) *operation {
	if known := m.operations.lookup(name); known != nil {
		return &known.value
	}
	m.history.recordFirst(m)
	return &m.operations.get(name, m.MaxNames).value
}

// observeRest counts all other events.
func (m *Metrics) observeRest(e *backoff.Event) {
	switch {
	case e.Kind == backoff.EventRefused && e.Reason == backoff.ReasonOpen && e.Wait > 0:
		return // of a policy that waits: the breaker itself has told of the refusal
	case e.Kind == backoff.EventTransition || e.Kind == backoff.EventRefused && e.Reason != backoff.ReasonBudget:
		m.breakers.get(e.Name, m.MaxNames).value.count(e)
	default:
		m.operation(e.Name).count(e)
	}
	m.history.record(m)
}

// WatchBudget shows the state of b under a name. The state is read when
// somebody looks. A budget of the same name is replaced. A nil b removes the
// name.
func (m *Metrics) WatchBudget(name string, b *backoff.RetryBudget) {
	m.budgets.set(name, b, b == nil)
}

// keyed is a [backoff.Breakers] or a [backoff.Budgets].
type keyed interface{ Evictions() uint64 }

// WatchKeys shows under a name how many keys k, a [backoff.Breakers] or a
// [backoff.Budgets], has forgotten for others. The number is read when somebody
// looks. A k of the same name is replaced. A nil k removes the name.
func (m *Metrics) WatchKeys(name string, k interface{ Evictions() uint64 }) {
	m.keys.set(name, k, k == nil)
}

// watched has things by the name under which they are shown.
type watched[T any] struct {
	mu     sync.Mutex
	byName map[string]T
}

// set adds a thing, or removes the name.
func (w *watched[T]) set(name string, thing T, remove bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	label := labelOf(name)
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
	all := maps.Clone(w.byName)
	w.mu.Unlock()
	return func(yield func(string, T) bool) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !yield(name, all[name]) {
				return
			}
		}
	}
}
