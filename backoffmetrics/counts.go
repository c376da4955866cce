package backoffmetrics

import (
	"sync/atomic"

	"github.com/gobackoff/backoff/internal/snapshot"
)

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
