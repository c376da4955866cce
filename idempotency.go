package backoff

import (
	"context"
	mathrand "math/rand/v2"

	"github.com/gobackoff/backoff/internal/idemkey"
)

// An Idempotency says whether an operation may be sent again. It decides
// together with the [Class] of the failure: it is asked only for classes that
// may be retried, with the context of the call. It must be safe for concurrent
// use.
//
// The ready-made ones are [Idempotent], which nil means to [Policy.Do] as well,
// [NonIdempotent] and [Keyed]. To retry nothing, set MaxAttempts to 1 instead.
//
// Who makes a key for a call, and an Idempotency for it, gives that the method
// MadeKey() string. Then no other call makes the operation again under another key.
type Idempotency interface {
	Repeatable(ctx context.Context, c Class) bool
}

// The ready-made Idempotencies. A program must not assign to them.
var (
	// Idempotent operations may be sent twice with the effect of once (RFC
	// 9110, 9.2.2), or their caller prefers a doubled effect to a lost one. To
	// call Do on a function states it by default.
	Idempotent Idempotency = idempotent
	// NonIdempotent operations are sent again only if the last attempt provably
	// never reached the server (ClassNotSent). A key in the context does not
	// change that, because nobody says that the operation sends it.
	NonIdempotent Idempotency = nonIdempotent
	// Keyed operations send the idempotency key of their context, which
	// [IdempotencyKey] reads. The key lets the server recognize a repetition. The
	// policy makes one key per call, unless the caller made one
	// ([WithIdempotencyKey]), and gives it to every attempt.
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
// [Keyed] policy gives the key that it finds in the context of the call to every
// attempt.
//
// To carry a key is not to send it. The operation reads it ([IdempotencyKey]) and
// puts it where its server looks: into a column, or into the header of a request.
//
//	req.Header.Set("Idempotency-Key", backoff.IdempotencyKey(ctx))
//
// A Transport of package backoffhttp does so by itself only for requests that it is
// told are Keyed. Any other POST under the context goes out without the key. If it
// may have arrived, it is not repeated, and its failure ends the calls of the
// policies around it. Other clients send no key, and end no calls.
//
// A key that this package makes is unique, but it is no secret. The bits come
// from math/rand/v2, because crypto/rand would add 172 KiB to every program
// that imports this package. A server keeps the keys of its clients apart. For
// one that does not, pass the Text of crypto/rand as the key.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	if key == "" {
		key = newKey()
	}
	return context.WithValue(ctx, idemkey.In{}, key)
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

// IdempotencyKey returns the key that ctx carries, the same for all attempts of
// a call, or "" if there is none.
func IdempotencyKey(ctx context.Context) string {
	key, _ := ctx.Value(idemkey.In{}).(string)
	return key
}
