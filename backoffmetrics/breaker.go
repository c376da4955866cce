package backoffmetrics

import (
	"sync/atomic"

	"github.com/gobackoff/backoff"
)

const (
	states   = int(backoff.StateHalfOpen) + 1
	triggers = int(backoff.TriggerManual) + 1
)

// breaker is what is known of a breaker by its events. It is closed until one says
// otherwise.
type breaker struct {
	last        atomic.Pointer[backoff.Transition] // nil if there was none
	refused     atomic.Uint64
	transitions [states][states][triggers]atomic.Uint64
}

func (b *breaker) count(e *backoff.Event) {
	if e.Kind == backoff.EventRefused {
		b.refused.Add(1)
		return
	}
	t := e.Transition
	if t == nil || int(t.From) >= states || int(t.To) >= states || int(t.Trigger) >= triggers {
		return // made by hand, or of a later version
	}
	b.transitions[t.From][t.To][t.Trigger].Add(1)
	// Without what it says of the error, which may be large.
	b.last.Store(&backoff.Transition{To: t.To, Trigger: t.Trigger, At: t.At, RetryAfter: t.RetryAfter})
}

func (b *breaker) state() backoff.State {
	if last := b.last.Load(); last != nil {
		return last.To
	}
	return backoff.StateClosed
}
