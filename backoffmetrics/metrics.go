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

// ForPage is for package page, and of no use without it. The first call makes
// the part of the page that follows m, from a function that reads the counters.
// Later calls return the same part.
func (m *Metrics) ForPage(create func(snapshot.Reader) snapshot.Page) snapshot.Page {
	if m.page.Load() == nil {
		p := create(m.read)
		m.page.CompareAndSwap(nil, &p)
	}
	return *m.page.Load()
}

// read is a [snapshot.Reader].
func (m *Metrics) read(watched bool) snapshot.Snapshot {
	s := snapshot.Snapshot{Operations: m.readOperations(), Endpoints: m.readEndpoints()}
	all := make(map[string]*snapshot.Breaker)
	for _, b := range m.breakers.sorted() {
		all[b.Name] = b.value.read(b.Name)
	}
	if watched {
		s.Budgets, s.Keys = m.readWatched(all), m.readKeys()
	}
	s.Breakers = sortedByName(all)
	return s
}

// readOperations reads the counters of all operations.
func (m *Metrics) readOperations() []snapshot.Operation {
	all := m.operations.sorted()
	list := make([]snapshot.Operation, len(all))
	for i, o := range all {
		o.value.read(&list[i])
		list[i].Labels = o.Labels
	}
	return list
}

// read reads the counters of an operation. A counter never falls from one call to
// the next.
func (o *operation) read(to *snapshot.Operation) {
	to.First, to.Retried = o.first.Total(), o.retried.Load()
	to.Attempts = to.First + o.attempts.Load()
	to.Reconnects, to.Won, to.Lost = o.reconnects.Load(), o.won.Load(), o.lost.Load()
	load(to.Refused[:], o.refused[:])
	load(to.Retries[:], o.retries[:])
	load(to.FailedAttempts[:], o.failed[:])
	load(to.Failures[:], o.failures[:])
	for _, n := range to.Failures {
		to.Failed += n
	}
	to.PerCall = o.perCall.read(attemptBounds)
	to.PerCall.Counts[1] += to.First
	to.PerCall.Sum += float64(to.First)
	to.Delay, to.Wait, to.Slept = o.delay.read(delayBounds), o.wait.read(delayBounds), o.slept.read(delayBounds)
}

// load reads all counters of an array.
func load(to []uint64, from []atomic.Uint64) {
	for i := range from {
		to[i] = from[i].Load()
	}
}
