package backoffmetrics

import (
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// breaker is what a breaker's events say of it. It counts as closed until one
// of them says otherwise.
type breaker struct {
	last        atomic.Pointer[backoff.Transition] // nil: none so far
	refused     atomic.Uint64                      // calls, as the breaker itself told
	ended       atomic.Uint64                      // calls, as clients told whose breaker it is
	transitions [states][states][triggers]atomic.Uint64
}

// count counts an event.
func (b *breaker) count(e *backoff.Event) {
	if e.Kind == backoff.EventRefused {
		b.refused.Add(1)
		return
	}
	t := e.Transition
	if t == nil || int(t.From) >= states || int(t.To) >= states || int(t.Trigger) >= triggers {
		return // unknown to this version
	}
	b.transitions[t.From][t.To][t.Trigger].Add(1)
	// The error is left out, since it may be large.
	b.last.Store(&backoff.Transition{To: t.To, Trigger: t.Trigger, At: t.At, RetryAfter: t.RetryAfter})
}

// countEnded counts a call of a client that has a breaker for each host. Its
// breaker does not tell of the calls that it refuses, since the client does.
func (m *Metrics) countEnded(k key, e *backoff.Event) {
	if e.Kind != backoff.EventGiveUp || e.Reason != backoff.ReasonOpen || k.to == nil || k.to.Breakers == nil {
		return
	}
	if open, ok := errtree.As[*backoff.OpenError](e.Err); ok && open.Name != "" {
		m.breakers.at(key{name: open.Name}, m.MaxNames).value.ended.Add(1)
	}
}

// refusals returns how many calls the breaker refused. Of a breaker that tells
// as well, both counts are the same calls.
func (b *breaker) refusals() uint64 { return max(b.refused.Load(), b.ended.Load()) }

// state returns the state that the breaker is in.
func (b *breaker) state() backoff.State {
	if last := b.last.Load(); last != nil {
		return last.To
	}
	return backoff.StateClosed
}

// breakerTotals is what a breaker has done up to a moment.
type breakerTotals struct{ opened, refused uint64 }

// totals reads what the breaker has done.
func (b *breaker) totals() breakerTotals {
	t := breakerTotals{refused: b.refusals()}
	for from := range b.transitions {
		t.opened += sum(b.transitions[from][backoff.StateOpen][:])
	}
	return t
}

// minus returns what was done since old.
func (t breakerTotals) minus(old breakerTotals) breakerTotals {
	return breakerTotals{t.opened - old.opened, t.refused - old.refused}
}
