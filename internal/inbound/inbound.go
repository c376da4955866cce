// Package inbound marks the contexts of requests whose client has chosen their
// deadline. Such a client is a stranger: what fails because it left too little
// time says nothing about a service.
package inbound

import (
	"context"
	"sync/atomic"
	"time"
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

// Mark says of the deadline of ctx, if it has one, that a client has chosen it.
func Mark(ctx context.Context) context.Context {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx
	}
	used.Store(true)
	return context.WithValue(ctx, deadlineKey{}, deadline)
}

// Limits reports whether the deadline of ctx is one that a client has chosen,
// and not an earlier one of this process.
func Limits(ctx context.Context) bool { return used.Load() && limits(ctx) }

func limits(ctx context.Context) bool {
	chosen, ok := ctx.Value(deadlineKey{}).(time.Time)
	deadline, _ := ctx.Deadline()
	return ok && deadline.Equal(chosen)
}
