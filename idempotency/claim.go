package idempotency

import "context"

// A Claim is the right to execute an operation until the lease of the claim
// ends. A handler inside [Middleware] gets its claim from [ClaimFrom].
type Claim struct {
	// Key is the key in the store: hashes of the caller's name and its key.
	Key string
	// Token belongs to this claim only.
	Token string
	// Run counts the runs under the key, from 1. If it is above 1, an earlier
	// run ended without a record: it crashed, panicked, took longer than its
	// lease, or responded with a status that is not kept. Whether that run
	// took effect is not known.
	Run int
}

// claimKey is the key of the claim in a context.
type claimKey struct{}

// ClaimFrom returns the claim of the handler whose request has the context ctx.
// It returns false outside of [Middleware].
func ClaimFrom(ctx context.Context) (Claim, bool) {
	c, ok := ctx.Value(claimKey{}).(Claim)
	return c, ok
}

// DeriveKey returns an idempotency key for a request that a handler inside
// [Middleware] sends to another service. The key is the same in every run of
// one request, and different for each name of an operation. Outside of
// Middleware DeriveKey returns "".
//
//	req.Header.Set("Idempotency-Key", idempotency.DeriveKey(ctx, "charge card"))
//
// Do not pass on the key that the caller sent: if the handler calls the other
// service twice, that service takes the second operation for a repetition of
// the first.
func DeriveKey(ctx context.Context, operation string) string {
	c, ok := ClaimFrom(ctx)
	if !ok {
		return ""
	}
	return digest(c.Key, operation)[:32]
}
