package bench

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/eapache/go-resiliency/breaker"
	"github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/sony/gobreaker/v2"

	"github.com/gobackoff/backoff"
)

// all is the minimal stack: a breaker that counts, a look at the context, a
// budget that has a look at itself.
type all struct {
	breaker counted
	tokens  atomic.Int64
}

//go:noinline
func (s *all) do(ctx context.Context, op func(context.Context) error) error {
	if s.breaker.open.Load() {
		return errOpen
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		s.breaker.good.Add(1)
		if s.tokens.Load() < 0 {
			s.tokens.Add(1)
		}
	}
	return err
}

// doGuarded is do that counts a panic, and a success for the budget as well as
// for the breaker.
//
//go:noinline
func (s *all) doGuarded(ctx context.Context, op func(context.Context) error) error {
	err := s.breaker.doGuarded(ctx, op)
	if err == nil {
		s.tokens.Add(1)
	}
	return err
}

// allLocal is all for many processors: its breaker counts for each by itself.
type allLocal struct {
	open   atomic.Bool
	good   *local
	tokens atomic.Int64
}

//go:noinline
func (s *allLocal) do(ctx context.Context, op func(context.Context) error) error {
	if s.open.Load() {
		return errOpen
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		s.good.add()
		if s.tokens.Load() < 0 {
			s.tokens.Add(1)
		}
	}
	return err
}

// What has no budget gets one that others have, and no stack composes itself by
// hand but for the closures that its parts ask for.

type eapacheAWS struct {
	breaker *breaker.Breaker
	retrier *retrier.Retrier
	quota   *ratelimit.TokenBucket
}

func newEapacheAWS() *eapacheAWS {
	return &eapacheAWS{eapacheBreaker(), eapacheRetrier(), ratelimit.NewTokenBucket(tokens)}
}

func (s *eapacheAWS) do(ctx context.Context, op func(context.Context) error) error {
	err := s.breaker.Run(func() error { return s.retrier.RunCtx(ctx, op) })
	if err == nil {
		s.quota.Refund(1)
	}
	return err
}

type gobreakerCenkaltiAWS struct {
	breaker *gobreaker.CircuitBreaker[struct{}]
	options []cenkalti.RetryOption
	quota   *ratelimit.TokenBucket
}

func newGobreakerCenkaltiAWS() *gobreakerCenkaltiAWS {
	options := []cenkalti.RetryOption{cenkalti.WithMaxTries(attempts)}
	return &gobreakerCenkaltiAWS{gobreakerWindow(), options, ratelimit.NewTokenBucket(tokens)}
}

func (s *gobreakerCenkaltiAWS) do(ctx context.Context, op func(context.Context) error) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		return cenkalti.Retry(ctx, func() (struct{}, error) { return struct{}{}, op(ctx) }, s.options...)
	})
	if err == nil {
		s.quota.Refund(1)
	}
	return err
}

func failsafeStack() failsafe.Executor[any] {
	policy := retrypolicy.NewBuilder[any]().WithMaxAttempts(attempts).WithBackoff(initial, limit).WithJitterFactor(0.5).
		WithBudget(budget.New()).Build()
	return failsafe.With[any](failsafeBreaker(), policy)
}

func ownStack() backoff.Doer {
	return backoff.Stack(&backoff.Breaker{}, &backoff.Policy{Budget: &backoff.RetryBudget{}})
}

// BenchmarkStack is a success through breaker, budget and policy.
// minimal-guarded counts a panic as a failure, and a success for both breaker
// and budget.
func BenchmarkStack(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		var s all
		for b.Loop() {
			must(b, s.do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("minimal-guarded", func(b *testing.B) {
		ctx := start(b)
		var s all
		for b.Loop() {
			must(b, s.doGuarded(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx, s := start(b), ownStack()
		for b.Loop() {
			must(b, s.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("eapache+aws", func(b *testing.B) {
		ctx, s := start(b), newEapacheAWS()
		for b.Loop() {
			must(b, s.do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("gobreaker+cenkalti+aws", func(b *testing.B) {
		ctx, s := start(b), newGobreakerCenkaltiAWS()
		for b.Loop() {
			must(b, s.do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("failsafe", func(b *testing.B) {
		ctx, e := start(b), failsafeStack()
		for b.Loop() {
			must(b, e.Run(func() error { return succeed(ctx) }))
		}
		expect(b, calls, 1)
	})
}

// BenchmarkStackParallel is the same on all processors at once; minimal counts
// for each of them by itself.
func BenchmarkStackParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx, s := b.Context(), &allLocal{good: newLocal()}
		together(b, func(pb *testing.PB, own *own) {
			for pb.Next() {
				if s.do(ctx, func(context.Context) error { return own.succeed() }) != nil {
					b.Error("refused")
				}
			}
		})
	})
	b.Run("backoff", func(b *testing.B) {
		ctx, s := b.Context(), ownStack()
		together(b, func(pb *testing.PB, own *own) {
			op := func(context.Context) error { return own.succeed() } // which escapes in a Doer
			for pb.Next() {
				if s.Do(ctx, op) != nil {
					b.Error("refused")
				}
			}
		})
	})
	b.Run("eapache+aws", func(b *testing.B) {
		ctx, s := b.Context(), newEapacheAWS()
		together(b, func(pb *testing.PB, own *own) {
			op := func(context.Context) error { return own.succeed() }
			for pb.Next() {
				if s.do(ctx, op) != nil {
					b.Error("refused")
				}
			}
		})
	})
	b.Run("gobreaker+cenkalti+aws", func(b *testing.B) {
		ctx, s := b.Context(), newGobreakerCenkaltiAWS()
		together(b, func(pb *testing.PB, own *own) {
			op := func(context.Context) error { return own.succeed() }
			for pb.Next() {
				if s.do(ctx, op) != nil {
					b.Error("refused")
				}
			}
		})
	})
	b.Run("failsafe", func(b *testing.B) {
		e := failsafeStack()
		together(b, func(pb *testing.PB, own *own) {
			op := own.succeed
			for pb.Next() {
				if e.Run(op) != nil {
					b.Error("refused")
				}
			}
		})
	})
}
