// Package idemkey is what a context knows of its idempotency key. Package backoffhttp
// hides a key that a request does not carry, and notes which request had success.
package idemkey

import (
	"context"
	"sync/atomic"
)

// A Key is the idempotency key of a context.
type Key struct {
	_ [0]func() // no ==, which every program would have the code of

	Text string
	used atomic.Uint64
}

// in is the key by which a context finds its Key.
type in struct{}

// With returns a context with k; nil hides that of ctx.
func With(ctx context.Context, k *Key) context.Context { return context.WithValue(ctx, in{}, k) }

// Of returns the Key of a context, or nil.
func Of(ctx context.Context) *Key {
	k, _ := ctx.Value(in{}).(*Key)
	return k
}

// Text returns the text of the key of a context, or "".
func Text(ctx context.Context) string {
	if k := Of(ctx); k != nil {
		return k.Text
	}
	return ""
}

// Use notes that a request has succeeded under the key. The first one stays. A request is a
// number that is not 0; the upper half says where it is sent.
func (k *Key) Use(request uint64) { k.used.CompareAndSwap(0, request) }

// Fits reports whether no other request to the same place has succeeded under the key.
func (k *Key) Fits(request uint64) bool {
	used := k.used.Load()
	return used == 0 || used == request || used>>32 != request>>32
}
