package backoffhttp

import (
	"context"
	"sync/atomic"

	"github.com/gobackoff/backoff"
)

// overrides is true once WithRetry was called. Looking a value up in a deep
// context takes time.
var overrides atomic.Bool

// overrideKey is the key of the override in a context.
type overrideKey struct{}

// override is a change to the policy, after those of the outer contexts.
type override struct {
	outer  *override
	change func(*backoff.Policy)
}

// WithRetry returns a context whose requests use a changed copy of the policy
// of the [Transport]. Fields that change does not set stay as they are. If
// WithRetry is applied several times, the first change is made first: a client
// can have its defaults, a part of the program its own, and a call its own.
//
//	ctx = backoffhttp.WithRetry(ctx, func(p *backoff.Policy) {
//		p.MaxAttempts = 10
//		p.Idempotency = backoff.Idempotent
//	})
//
// Set Idempotency to say whether a single request may be sent again:
// [backoff.Idempotent], [backoff.NonIdempotent] or [backoff.Keyed]. It takes
// the place of Transport.Idempotency, as in [Transport.RoundTrip]; nil brings
// that back. If change sets Budget to nil, the budget of the host's Service
// counts, or else that of Transport.Policy.
//
// change is called once for every request, on the goroutine of the request. It
// must not keep the policy, nor change what the policy points to.
func WithRetry(ctx context.Context, change func(*backoff.Policy)) context.Context {
	overrides.Store(true)
	outer, _ := ctx.Value(overrideKey{}).(*override)
	return context.WithValue(ctx, overrideKey{}, &override{outer, change})
}

// apply returns a copy of the policy with all changes.
func (o *override) apply(p backoff.Policy) backoff.Policy {
	if o.outer != nil {
		p = o.outer.apply(p)
	}
	o.change(&p)
	return p
}
