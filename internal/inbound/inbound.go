// Package inbound marks contexts whose deadline a client has chosen. Clients are
// not trusted: a failure of a call that they left too little time says nothing
// about a service.
package inbound

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// used is true once WithDeadline was called. Looking a value up in a deep
// context takes time.
var used atomic.Bool

// deadlineKey is the key of the client's deadline in a context.
type deadlineKey struct{}

// WithDeadline is [context.WithDeadline] for a deadline that a client has
// chosen.
func WithDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	earlier, ok := ctx.Deadline()
	ctx, cancel := context.WithDeadline(ctx, deadline)
	if !ok || deadline.Before(earlier) {
		ctx = Mark(ctx)
	}
	return ctx, cancel
}

// Mark marks the deadline of ctx, if it has one, as chosen by a client.
func Mark(ctx context.Context) context.Context {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx
	}
	used.Store(true)
	return context.WithValue(ctx, deadlineKey{}, deadline)
}

// Limits reports whether a client chose the deadline of ctx, and this process has
// no earlier one.
func Limits(ctx context.Context) bool { return used.Load() && limits(ctx) }

// Over reports whether the deadline of ctx is over. The context may not know it yet.
func Over(ctx context.Context) bool {
	deadline, _ := ctx.Deadline()
	return !clock.Now().Before(deadline)
}

func limits(ctx context.Context) bool {
	chosen, ok := ctx.Value(deadlineKey{}).(time.Time)
	deadline, _ := ctx.Deadline()
	return ok && deadline.Equal(chosen)
}
