package backoffhttp

import (
	"context"
	"sync/atomic"

	"github.com/gobackoff/backoff"
)

// overrides is true once WithRetry was called. Looking a value up in a deep
// context takes time.
var overrides atomic.Bool

// overrideKey is the key of a context for a function that makes all changes.
type overrideKey struct{}

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
	all := change
	if outer, ok := ctx.Value(overrideKey{}).(func(*backoff.Policy)); ok {
		all = func(p *backoff.Policy) {
			outer(p)
			change(p)
		}
	}
	return context.WithValue(ctx, overrideKey{}, all)
}
