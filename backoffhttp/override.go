package backoffhttp

import (
	"context"
	"sync/atomic"

	"github.com/gobackoff/backoff"
)

// overrides tells whether there ever was one: contexts may be deep.
var overrides atomic.Bool

type overrideKey struct{}

type override struct {
	outer  *override
	change func(*backoff.Policy)
}

// WithRetry returns a context whose requests are carried by a changed copy of the
// [Transport]'s policy. What change leaves alone stays as it is, and contexts within
// one another change in turn, the outermost first: a client has its defaults, a part of
// the program its own, a call its own.
//
//	ctx = backoffhttp.WithRetry(ctx, func(p *backoff.Policy) {
//		p.MaxAttempts = 10
//		p.Idempotency = backoff.AlwaysRetry
//	})
//
// Idempotency is where a single request is stated to be repeatable, or not:
// [backoff.Idempotent], [backoff.NonIdempotent], [backoff.Keyed], [backoff.NeverRetry].
// It overrules method, header and table. Reset to nil, these tell again.
//
// change is called once for every request, on its goroutine, and must neither keep the
// policy nor write to what it points to.
func WithRetry(ctx context.Context, change func(*backoff.Policy)) context.Context {
	overrides.Store(true)
	outer, _ := ctx.Value(overrideKey{}).(*override)
	return context.WithValue(ctx, overrideKey{}, &override{outer, change})
}

// apply returns a copy of the policy as the contexts change it.
func (o *override) apply(p backoff.Policy) backoff.Policy {
	if o.outer != nil {
		p = o.outer.apply(p)
	}
	o.change(&p)
	return p
}
