package backoffmetrics

import (
	"slices"
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// breaker counts the events of a breaker. It counts as closed until an event
// says otherwise.
type breaker struct {
	last        atomic.Pointer[backoff.BreakerTransition] // nil: none so far
	refused     atomic.Uint64                             // calls, by the events of the breaker
	ended       atomic.Uint64                             // calls, by the events of clients that have the breaker
	transitions [snapshot.States][snapshot.States][len(snapshot.Triggers)]atomic.Uint64
}

// count counts an event.
func (b *breaker) count(e *backoff.Event) {
	if e.Kind == backoff.EventRefused {
		b.refused.Add(1)
		return
	}
	t := e.Transition
	if t == nil || int(t.From) >= snapshot.States || int(t.To) >= snapshot.States {
		return // unknown to this version
	}
	trigger := slices.Index(snapshot.Triggers[:], t.Trigger)
	if trigger < 0 {
		return
	}
	b.transitions[t.From][t.To][trigger].Add(1)
	// The error is left out, since it may be large.
	b.last.Store(&backoff.BreakerTransition{To: t.To, Trigger: t.Trigger, At: t.At, RetryAfter: t.RetryAfter})
}

// countEnded counts a call of a client that has a breaker for each host. Such a
// breaker has no events for the calls that it refuses: the client has them.
func (m *Metrics) countEnded(k key, e *backoff.Event) {
	if e.Kind != backoff.EventGiveUp || e.Reason != backoff.ReasonOpen || k.to == nil || k.to.Services == nil {
		return
	}
	if open, ok := errtree.As[*backoff.OpenError](e.Err); ok && open.Name != "" {
		m.breakers.at(key{name: open.Name}, m.MaxNames).value.ended.Add(1)
	}
}

// read reads the counters of a breaker. If both the breaker and its client count
// refusals, they are of the same calls.
func (b *breaker) read(name string) *snapshot.Breaker {
	to := &snapshot.Breaker{Name: name, Last: b.last.Load(), Refused: max(b.refused.Load(), b.ended.Load())}
	if to.Last != nil {
		to.State = to.Last.To
	}
	for from := range b.transitions {
		for state := range b.transitions[from] {
			load(to.Transitions[from][state][:], b.transitions[from][state][:])
		}
	}
	return to
}
