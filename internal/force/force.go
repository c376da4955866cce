// Package force has the hooks by which a test makes calls take their retry paths.
package force

import (
	"context"
	"sync/atomic"
	"time"
)

// Installed is nil, except in tests that force retries.
var Installed atomic.Pointer[Hooks]

// Hooks are what such a test does in a call. They are called on its goroutine.
type Hooks struct {
	Call    func(ctx context.Context, limit int, elapsed time.Duration) context.Context // before the first attempt
	Attempt func(context.Context) (context.Context, error)                              // before each; with an error it is not made
	Result  func(context.Context, error) error                                          // of an operation
	End     func(context.Context, error)                                                // of a call that failed
	Breaker func(ctx context.Context, breaker any) context.Context                      // before its operation
}

// On reports whether retries are forced.
func On() bool { return Installed.Load() != nil }

// Call returns the context of a call that makes at most limit attempts, or any number if
// limit is negative, within elapsed, if that is positive.
func Call(ctx context.Context, limit int, elapsed time.Duration) context.Context {
	if h := Installed.Load(); h != nil {
		return h.Call(ctx, limit, elapsed)
	}
	return ctx
}

// Attempt returns the context of an attempt, or the error with which it fails.
func Attempt(ctx context.Context) (context.Context, error) {
	if h := Installed.Load(); h != nil {
		return h.Attempt(ctx)
	}
	return ctx, nil
}

// Result returns the error of an operation that ended with err.
func Result(ctx context.Context, err error) error {
	if h := Installed.Load(); h != nil {
		return h.Result(ctx, err)
	}
	return err
}

// End takes note that a call failed with err.
func End(ctx context.Context, err error) {
	if h := Installed.Load(); h != nil {
		h.End(ctx, err)
	}
}

// Breaker returns the context of a call that a breaker lets pass.
func Breaker(ctx context.Context, breaker any) context.Context {
	if h := Installed.Load(); h != nil {
		return h.Breaker(ctx, breaker)
	}
	return ctx
}
