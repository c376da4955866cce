package bench

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"

	"github.com/gobackoff/backoff"
)

// all is the minimal stack: a breaker that counts, a check of the context, a budget that looks at
// its tokens.
type all struct {
	breaker counted
	tokens  atomic.Int64
}

//go:noinline
func (s *all) do(ctx context.Context, op operation) error {
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

// doGuarded is do that counts a panic, and a success for the budget as well as for the breaker.
//
//go:noinline
func (s *all) doGuarded(ctx context.Context, op operation) error {
	err := s.breaker.doGuarded(ctx, op)
	if err == nil {
		s.tokens.Add(1)
	}
	return err
}

// stacks are those of other libraries. What has no budget gets the bucket of the AWS SDK.
var stacks = []guard{
	{"eapache+aws", func(ctx context.Context) prepared {
		breaker, quota := eapacheBreaker(), ratelimit.NewTokenBucket(tokens)
		return func(op operation) func() error {
			retries := byEapache(ctx, usual, op)
			return func() error {
				err := breaker.Run(retries)
				if err == nil {
					quota.Refund(1)
				}
				return err
			}
		}
	}},
	{"gobreaker+cenkalti+aws", func(ctx context.Context) prepared {
		breaker, quota := gobreakerWindow(), ratelimit.NewTokenBucket(tokens)
		return func(op operation) func() error {
			retries := byCenkalti(ctx, usual, op)
			call := throughGobreaker(ctx, breaker)(func(context.Context) error { return retries() })
			return func() error {
				err := call()
				if err == nil {
					quota.Refund(1)
				}
				return err
			}
		}
	}},
	{"failsafe", func(ctx context.Context) prepared {
		executor := failsafe.With[any](failsafeBreaker(), failsafePolicy[any](usual).WithBudget(budget.New()).Build())
		return func(op operation) func() error {
			one := func() error { return op(ctx) }
			return func() error { return executor.Run(one) }
		}
	}},
}

func minimalStack(b *testing.B) {
	ctx := start(b)
	var s all
	for b.Loop() {
		must(b, s.do(ctx, succeed))
	}
	expect(b, calls, 1)
}

func ownStack() backoff.Doer {
	return backoff.Stack(&backoff.Breaker{}, backoff.Policy{Budget: &backoff.RetryBudget{}})
}

func backoffStack(b *testing.B) {
	ctx, s := start(b), ownStack()
	for b.Loop() {
		must(b, s.Do(ctx, succeed))
	}
	expect(b, calls, 1)
}

// BenchmarkStack is a success through breaker, budget and policy. minimal-guarded counts a panic
// as a failure, and a success for both breaker and budget.
func BenchmarkStack(b *testing.B) {
	b.Run("minimal", minimalStack)
	b.Run("minimal-guarded", func(b *testing.B) {
		ctx := start(b)
		var s all
		for b.Loop() {
			must(b, s.doGuarded(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", backoffStack)
	compareGuards(b, stacks)
}

// BenchmarkStackParallel is the same on all processors at once.
func BenchmarkStackParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		var s all
		together(b, func(op operation) func() error {
			return func() error { return s.do(b.Context(), op) }
		})
	})
	b.Run("backoff", func(b *testing.B) {
		s := ownStack()
		together(b, func(op operation) func() error {
			return func() error { return s.Do(b.Context(), op) }
		})
	})
	compareSharedGuards(b, stacks)
}
