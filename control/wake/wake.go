// Package wake ends waits early, when the program learns that what they wait for may be
// back: the network is up again, the laptop was opened, the operator has restarted the
// service.
//
//	var network wake.Signal
//
//	ctx = network.Context(ctx) // once, where the program begins
//	...
//	network.Wake() // from anywhere
package wake

import (
	"context"

	"github.com/gobackoff/backoff/internal/waker"
)

// A Signal ends the waits under its contexts. The zero value is ready to use. It is safe
// for concurrent use, and must not be copied after first use. To calls that do not wait
// it costs nothing.
type Signal struct {
	_ [0]func() // no unkeyed literals, no ==

	signal waker.Signal
}

// Context returns a context whose waits the signal ends: those between the attempts of
// a policy, of a poll and of a [backoff.Supervisor], those of calls through a
// guard.Service, and those for a circuit to close. Inside another Signal's context both
// count. It returns ctx for a nil Signal.
func (s *Signal) Context(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return s.signal.With(ctx)
}

// Wake ends the waits that are under way.
//
//   - Between two attempts a call waits no longer than its Schedule says before a first
//     retry, nor than a second. When exactly it goes is random, so that many calls do
//     not go at once. Its Schedule begins anew; its limits do not.
//   - What a server asked for by Retry-After it waits for, and what a Budget asked for:
//     the budget is asked as without a Wake.
//   - Of the calls that wait in the line of a guard.Service, one goes now. If it is
//     answered, the others follow as they always do.
//   - A circuit that opened before lets the next call under the signal probe. It does not
//     if it was opened by hand, by the fleet, or because a server asked to be left alone.
//
// Wake does not block. While nobody waits it does nothing: no later wait is shorter for
// it. Call it when something has changed, and not again and again: each time the
// schedules begin anew.
func (s *Signal) Wake() {
	if s != nil {
		s.signal.Wake()
	}
}
