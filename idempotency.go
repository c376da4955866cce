package backoff

import (
	"context"
	mathrand "math/rand/v2"

	"github.com/gobackoff/backoff/internal/idemkey"
)

// An Idempotency says whether an operation may be sent again. It is asked with
// the context of the call, and only for a [Class] that may be retried. It must
// be safe for concurrent use. The ready-made ones are [Idempotent],
// [NonIdempotent] and [Keyed]. To [Policy.Do] nil means Idempotent.
//
// An Idempotency may have a method MadeKey() string, which returns a key that
// was made for one call. Then no policy repeats the operation under another
// key.
type Idempotency interface {
	Repeatable(ctx context.Context, c Class) bool
}

// The ready-made Idempotencies. A program must not assign to them.
var (
	// Idempotent operations may be sent twice: that has the effect of once (RFC
	// 9110, 9.2.2), or the caller prefers a doubled effect to a lost one.
	Idempotent Idempotency = idempotent
	// NonIdempotent operations are sent again only if the last attempt provably
	// never reached the server (ClassNotSent). A key in the context does not
	// change that.
	NonIdempotent Idempotency = nonIdempotent
	// Keyed operations send the key of their context (see [IdempotencyKey]), by
	// which the server recognizes a repetition. The policy makes one key per call,
	// unless the caller made one ([WithIdempotencyKey]).
	Keyed Idempotency = keyed
)

// idempotency is the type of the ready-made ones.
type idempotency uint8

const (
	idempotent idempotency = iota
	nonIdempotent
	keyed
)

// Repeatable implements [Idempotency].
func (i idempotency) Repeatable(_ context.Context, c Class) bool {
	return i != nonIdempotent || c == ClassNotSent
}

// String returns the name of the variable.
func (i idempotency) String() string {
	return [...]string{"Idempotent", "NonIdempotent", "Keyed"}[i]
}

// WithIdempotencyKey returns a context that carries key, for the one operation
// that sends it. An empty key is replaced by a new one of 130 random bits. A
// [Keyed] policy gives the key in its context to every attempt. The operation
// sends the key where its server looks for it:
//
//	req.Header.Set("Idempotency-Key", backoff.IdempotencyKey(ctx))
//
// A key belongs to one request and its repetitions. A Transport of package
// backoffhttp sends the key with Keyed requests only. After one such request succeeds, it
// refuses another to the same address in that attempt. Neither it nor a policy around it
// repeats a POST that is not Keyed and may have arrived.
//
// A new key is unique, but no secret. If a server does not keep its clients' keys apart,
// pass the result of crypto/rand.Text.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	if key == "" {
		key = newKey()
	}
	return idemkey.With(ctx, &idemkey.Key{Text: key})
}

func newKey() string {
	key := make([]byte, 26)
	for i := range key {
		key[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[mathrand.IntN(32)]
	}
	return string(key)
}

// keyFor returns the key that a call must be given, or "" if it needs none.
func keyFor(ctx context.Context, i Idempotency) string {
	if i != keyed || IdempotencyKey(ctx) != "" {
		return ""
	}
	return newKey()
}

// madeKey returns the key that an Idempotency was made for, or "".
func madeKey(i Idempotency) string {
	if k, ok := i.(interface{ MadeKey() string }); ok {
		return k.MadeKey()
	}
	return ""
}

// IdempotencyKey returns the key that ctx carries, or "". All attempts of a
// call have the same key.
func IdempotencyKey(ctx context.Context) string {
	return idemkey.Text(ctx)
}

// repeatable reports whether the operation may be sent again after a failure of
// class c.
func (p *Policy) repeatable(ctx context.Context, c Class) bool {
	return p.Idempotency == nil || p.Idempotency.Repeatable(ctx, c)
}

// mustNotRepeat reports whether the operation of a call that failed must not be made again by
// another call under ctx: it sends a key that only this call knows, or it may not be
// repeated. ask says that the Idempotency was not asked yet about the last failure.
func (p *Policy) mustNotRepeat(ctx context.Context, key string, c Class, ask bool) bool {
	if key == "" {
		key = madeKey(p.Idempotency)
	}
	return key != "" && key != IdempotencyKey(ctx) || ask && c.Retryable() && !p.repeatable(ctx, c)
}
