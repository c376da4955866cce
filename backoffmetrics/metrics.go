package backoffmetrics

import (
	"context"
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// Metrics counts events. Its Observe is the Observer of any number of policies,
// hedges and breakers.
//
// The zero value is ready for use. A Metrics must not be copied, nor its field
// changed, after first use. All methods are safe for concurrent use. It starts
// no goroutine. A call that succeeds at its first attempt costs a lookup of its
// name and one addition, and takes no lock. Other events take a lock for a new
// name. A transition of a breaker allocates; all other events allocate only for
// a new name. Package page adds a little to events of calls in trouble.
type Metrics struct {
	_ [0]func() // no unkeyed literals, no ==

	// MaxNames bounds the number of operations that are counted separately,
	// and that of breakers, since names may come from untrusted clients. Later
	// names are counted together under the name "other", and so are names of
	// more than 200 bytes. Bytes that are not UTF-8 are replaced, and an empty
	// name is shown as "unnamed". An operation takes about 1 kB. 0 means 100,
	// and a negative number means no limit.
	MaxNames int

	operations names[operation]
	breakers   names[breaker]
	endpoints  endpoints

	page    atomic.Pointer[snapshot.Page] // nil without one
	watched struct {
		breaker  watched[*backoff.Breaker]
		budget   watched[*guard.Service] // with this budget
		services watched[*guard.Services]
		families watched[*func() Family]
	}
}

// Observe counts e. It is a [backoff.Observer].
func (m *Metrics) Observe(ctx context.Context, e backoff.Event) {
	k := key{e.Name, endpoint.Of(ctx)}
	if e.Kind == backoff.EventSuccess && e.Attempt == 1 && e.Slept == 0 { // the most frequent event
		m.operation(k).value.first.Add()
		return
	}
	m.observeRest(k, &e)
}

// operation returns the counters of a key.
func (m *Metrics) operation(k key) *named[operation] {
	if known := m.operations.lookup(k); known != nil {
		return known
	}
	m.endpoints.add(k.to, m.MaxNames)
	return m.operations.get(k, m.MaxNames)
}

// observeRest counts all other events.
func (m *Metrics) observeRest(k key, e *backoff.Event) {
	page := m.page.Load()
	if page != nil {
		(*page).Record()
	}
	switch {
	case e.Kind == backoff.EventRefused && e.Reason == backoff.ReasonOpen && e.Wait > 0:
		// of a policy that waits: the breaker has an event of its own
	case e.Kind == backoff.EventTransition || e.Kind == backoff.EventRefused && e.Reason != backoff.ReasonBudget:
		m.breakers.at(key{name: e.Name}, m.MaxNames).value.count(e)
	default:
		o := m.operation(k)
		o.value.count(e)
		m.countEnded(k, e)
		if page != nil && snapshot.AttemptFailed(e) {
			(*page).Fail(o.Labels, *e)
		}
	}
}
