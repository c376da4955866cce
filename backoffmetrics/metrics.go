package backoffmetrics

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/gobackoff/backoff"
)

// Metrics counts events. Its Observe is the Observer of any number of policies, hedges
// and breakers.
//
// The zero value is ready to use. A Metrics must not be copied, nor its field changed,
// after first use. All its methods are safe for concurrent use. It has no goroutine. A
// first attempt that succeeds costs a lookup of its name and one addition, and takes no
// lock; other events take one for a new name, and every 5 seconds for the history of the
// page. Nothing else allocates, but for a change of a breaker.
type Metrics struct {
	_ [0]func() // no unkeyed literals, no ==

	// MaxNames bounds the operations that are counted apart, and as well the breakers,
	// because names may come from strangers. What comes later is counted together, under
	// the name "other", and so are names beyond 200 bytes. Bytes that are not UTF-8 are
	// replaced, and an empty name is "unnamed". An operation takes some 1 kB, and 4.5 kB
	// more for the history of the page. 0 means 100, a negative number no limit.
	MaxNames int

	operations names[operation]
	breakers   names[breaker]
	history    history

	mu      sync.Mutex
	budgets map[string]*backoff.RetryBudget
}

// Observe counts e. It is a [backoff.Observer].
func (m *Metrics) Observe(_ context.Context, e backoff.Event) { m.observe(&e) }

func (m *Metrics) observe(e *backoff.Event) {
	if e.Kind == backoff.EventSuccess && e.Attempt == 1 && e.Slept == 0 {
		m.operation(e.Name).first.Add()
		return
	}
	m.observeRest(e)
}

func (m *Metrics) operation(name string) *operation {
	if known := m.operations.met(name); known != nil {
		return &known.value
	}
	m.history.begin(m)
	return &m.operations.find(name, m.MaxNames).value
}

func (m *Metrics) observeRest(e *backoff.Event) {
	if e.Kind == backoff.EventTransition || e.Kind == backoff.EventRefused && e.Reason != backoff.ReasonBudget {
		m.breakers.find(e.Name, m.MaxNames).value.count(e)
	} else {
		m.operation(e.Name).count(e)
	}
	m.history.keep(m)
}

// WatchBudget shows the state of b under a name, which is read when somebody looks. A
// budget of the same name is replaced; a nil b shows nothing any more.
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

type watched struct {
	name  string
	stats backoff.RetryBudgetStats
}

// watchedBudgets reads the budgets, by name.
func (m *Metrics) watchedBudgets() []watched {
	m.mu.Lock()
	all := make([]watched, 0, len(m.budgets))
	for name, b := range m.budgets {
		all = append(all, watched{name, b.Stats()})
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b watched) int { return strings.Compare(a.name, b.name) })
	return all
}
