package bench

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// all are the minimal guards: a breaker that counts, a check of the context, a budget that looks at
// its tokens.
type all struct {
	breaker counted
	tokens  atomic.Int64
}

//go:noinline
func (a *all) do(ctx context.Context, op operation) error {
	if a.breaker.open.Load() {
		return errOpen
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		a.breaker.good.Add(1)
		if a.tokens.Load() < 0 {
			a.tokens.Add(1)
		}
	}
	return err
}

// doGuarded is do that counts a panic, and a success for the budget as well as for the breaker.
//
//go:noinline
func (a *all) doGuarded(ctx context.Context, op operation) error {
	err := a.breaker.doGuarded(ctx, op)
	if err == nil {
		a.tokens.Add(1)
	}
	return err
}

// guarded are the guards of other libraries. What has no budget gets the bucket of the AWS SDK.
var guarded = []guarding{
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

func minimalGuards(b *testing.B) {
	ctx := start(b)
	var a all
	for b.Loop() {
		must(b, a.do(ctx, succeed))
	}
	expect(b, calls, 1)
}

// breakerAndPolicy is a breaker around a policy, for a program that has no Service.
func breakerAndPolicy(b *testing.B) {
	ctx, breaker := start(b), &backoff.Breaker{}
	attempts := (&backoff.Policy{Budget: &backoff.RetryBudget{}}).Wrap(succeed)
	for b.Loop() {
		must(b, breaker.Do(ctx, attempts))
	}
	expect(b, calls, 1)
}

// twoWords are guards of one word each: a circuit, which is closed, and the successes.
type twoWords struct {
	open      atomic.Bool
	successes atomic.Int64
}

//go:noinline
func (w *twoWords) do(ctx context.Context, op operation) error {
	if !w.open.CompareAndSwap(false, false) {
		return errOpen
	}
	err := op(ctx)
	if err == nil {
		w.successes.Add(1)
	}
	return err
}

func guardsOfTwoWords(b *testing.B) {
	ctx, n := start(b), 0
	var w twoWords
	for b.Loop() {
		must(b, w.do(ctx, func(context.Context) error { n++; return nil }))
	}
	expect(b, n, 1)
}

// ownGuards are the breaker and the budget that calls without a pacer have.
func ownGuards(patient bool) *guard.Client {
	s := &guard.Service{Budget: &backoff.RetryBudget{}, Patient: patient}
	return s.With(backoff.Policy{})
}

// ownService makes calls that capture a variable.
func ownService(patient bool) func(*testing.B) {
	return func(b *testing.B) {
		ctx, s, n := start(b), ownGuards(patient), 0
		for b.Loop() {
			must(b, s.Do(ctx, func(context.Context) error { n++; return nil }))
		}
		expect(b, n, 1)
	}
}

// BenchmarkService is a success through breaker, budget and policy. minimal-guarded counts a panic
// as a failure, and a success for both breaker and budget.
func BenchmarkService(b *testing.B) {
	b.Run("minimal", minimalGuards)
	b.Run("minimal-guarded", func(b *testing.B) {
		ctx := start(b)
		var a all
		for b.Loop() {
			must(b, a.doGuarded(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("minimal-two-words", guardsOfTwoWords)
	b.Run("backoff", ownService(false))
	b.Run("backoff-patient", ownService(true))
	b.Run("backoff-breaker-policy", breakerAndPolicy)
	compareGuards(b, guarded)
}

// BenchmarkServiceParallel is the same on all processors at once.
func BenchmarkServiceParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		var a all
		together(b, func(op operation) func() error {
			return func() error { return a.do(b.Context(), op) }
		})
	})
	b.Run("backoff", func(b *testing.B) {
		s := ownGuards(false)
		together(b, func(op operation) func() error {
			return func() error { return s.Do(b.Context(), op) }
		})
	})
	compareSharedGuards(b, guarded)
}
