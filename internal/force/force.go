// Package force has the hooks by which a test makes calls take their retry paths.
package force

import (
	"context"
	"sync/atomic"
	"time"
)

// On is true while a test forces retries, and never in other programs.
var On atomic.Bool

// What such a test does in a call, on its goroutine. They are set before On is first true,
// and then never again.
var (
	// OnStart is called before a call of at most limit attempts, or any number if limit is
	// negative, within elapsed, if that is positive. The call may or may not be repeatable
	// after an attempt that was sent. OnStart returns its context.
	OnStart func(ctx context.Context, limit int, elapsed time.Duration, repeatable bool) context.Context

	// OnAttempt is called before an attempt, and returns its context. With an error
	// the attempt fails without being made.
	OnAttempt func(context.Context) (context.Context, error)

	// OnResult is called after an operation, with the context of its attempt, and returns
	// the error of the attempt.
	OnResult func(context.Context, error) error

	// OnBreaker is called before what a breaker lets pass, and returns its context.
	OnBreaker func(ctx context.Context, breaker any) context.Context
)

// Attempt is OnAttempt, if On is true.
func Attempt(ctx context.Context) (context.Context, error) {
	if On.Load() {
		return OnAttempt(ctx)
	}
	return ctx, nil
}

// Result is OnResult, if On is true.
func Result(ctx context.Context, err error) error {
	if On.Load() {
		return OnResult(ctx, err)
	}
	return err
}

// Breaker is OnBreaker, if On is true.
func Breaker(ctx context.Context, breaker any) context.Context {
	if On.Load() {
		return OnBreaker(ctx, breaker)
	}
	return ctx
}
