package guard

import (
	"context"

	"github.com/gobackoff/backoff"
)

// underKey is the Idempotency of a call for which a service made this key.
type underKey string

// Repeatable implements [backoff.Idempotency].
func (underKey) Repeatable(context.Context, backoff.Class) bool { return true }

// MadeKey returns the key.
func (k underKey) MadeKey() string { return string(k) }

// withKey returns ctx with the key of a call that has one, so that it is the same each
// time that the call is made, and whether it was put there.
func withKey(ctx context.Context, i backoff.Idempotency) (keyed context.Context, made bool) {
	own, ok := i.(interface{ MadeKey() string })
	switch {
	case i == nil, backoff.IdempotencyKey(ctx) != "":
	case ok:
		return backoff.WithIdempotencyKey(ctx, own.MadeKey()), true
	case i == backoff.Keyed:
		return backoff.WithIdempotencyKey(ctx, ""), true
	}
	return ctx, false
}

// ofKey returns the error of a call for which the service made a key. To policies
// around, another call would have another key.
func ofKey(ctx context.Context, p *backoff.Policy, key string, err error) error {
	gave, ok := err.(*backoff.Error)
	if !ok || !gave.Repeatable() || gave.Reason == backoff.ReasonOpen {
		return err
	}
	own := *p
	own.Idempotency = underKey(key)
	return own.GiveUp(ctx, *gave)
}
