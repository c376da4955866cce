package backoffmetrics

import (
	"context"
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/endpoint"
)

// Metrics counts events. Its Observe is the Observer of any number of policies,
// hedges and breakers.
//
// The zero value is ready for use. A Metrics must not be copied, nor its field
// changed, after first use. All methods are safe for concurrent use. It starts
// no goroutine. A call that succeeds at its first attempt costs a lookup of its
// name and one addition, and takes no lock. Other events take a lock for a new
// name, and every 5 seconds for the history of the page. An attempt that fails
// costs up to 0.5 us and two small allocations, to find the kind of its error. A
// transition of a breaker allocates; all other events allocate only then.
type Metrics struct {
	_ [0]func() // no unkeyed literals, no ==

	// MaxNames bounds the number of operations that are counted separately,
	// and that of breakers, since names may come from untrusted clients. Later
	// names are counted together under the name "other", and so are names of
	// more than 200 bytes. Bytes that are not UTF-8 are replaced, and an empty
	// name is shown as "unnamed". An operation takes about 1 kB, and 14 kB more
	// for the history of the page; an endpoint takes 6 kB. 0 means 100, and a
	// negative number means no limit.
	MaxNames int

	operations names[operation]
	breakers   names[breaker]
	reported   names[atomic.Uint64] // calls that breakers refused: see refusals
	endpoints  endpoints
	history    history

	watched struct {
		breaker  watched[*backoff.Breaker]
		breakers watched[*backoff.Breakers]
		budget   watched[*backoff.RetryBudget]
		budgets  watched[*backoff.Budgets]
		panels   watched[*control.Panel]
	}
}

// Observe counts e. It is a [backoff.Observer].
func (m *Metrics) Observe(ctx context.Context, e backoff.Event) {
	m.observe(key{e.Name, endpoint.Of(ctx)}, &e)
}

// observe counts the most frequent event itself.
func (m *Metrics) observe(k key, e *backoff.Event) {
	if e.Kind == backoff.EventSuccess && e.Attempt == 1 && e.Slept == 0 {
		m.operation(k).first.Add()
		return
	}
	m.observeRest(k, e)
}

// operation returns the counters of a key.
func (m *Metrics) operation(k key) *operation {
	if known := m.operations.lookup(k); known != nil {
		return &known.value
	}
	m.history.recordFirst(m)
	m.endpoints.add(k.to, m.MaxNames)
	return &m.operations.get(k, m.MaxNames).value
}

// observeRest counts all other events.
func (m *Metrics) observeRest(k key, e *backoff.Event) {
	m.history.record(m) // before the event is counted
	switch {
	case e.Kind == backoff.EventRefused && e.Reason == backoff.ReasonOpen && e.Wait > 0:
		m.operation(k).countOpen(e) // of a policy that waits: the breaker has an event of its own
	case e.Kind == backoff.EventTransition || e.Kind == backoff.EventRefused && e.Reason != backoff.ReasonBudget:
		m.breakers.at(key{name: e.Name}, m.MaxNames).value.count(e)
		if e.Kind == backoff.EventRefused && e.Reason == backoff.ReasonOpen {
			m.reported.at(k, m.MaxNames).value.Add(1)
		}
	default:
		m.operation(k).count(e)
		m.countEnded(k, e)
	}
}
