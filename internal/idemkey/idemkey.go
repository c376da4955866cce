// Package idemkey lets package backoffhttp hide an idempotency key that a request
// does not carry.
package idemkey

// In is the key by which a context finds its idempotency key.
type In struct{}
