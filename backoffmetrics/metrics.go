package backoffmetrics

import (
	"context"
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

	mu      sync.Mutex
	budgets map[string]*backoff.RetryBudget
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
	m.mu.Lock()
	defer m.mu.Unlock()
	label := labelOf(name)
	if b == nil {
		delete(m.budgets, label)
		return
	}
	if m.budgets == nil {
		m.budgets = make(map[string]*backoff.RetryBudget)
	}
	m.budgets[strings.Clone(label)] = b
}

// watchedBudget is the state of a budget and its name.
type watchedBudget struct {
	name  string
	stats backoff.RetryBudgetStats
}

// watchedBudgets reads all budgets, sorted by name.
func (m *Metrics) watchedBudgets() []watchedBudget {
	m.mu.Lock()
	all := make([]watchedBudget, 0, len(m.budgets))
	for name, b := range m.budgets {
		all = append(all, watchedBudget{name, b.Stats()})
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b watchedBudget) int { return strings.Compare(a.name, b.name) })
	return all
}
