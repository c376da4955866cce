package bench

import (
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/failsafe-go/failsafe-go/budget"

	"github.com/gobackoff/backoff"
)

// tokens is more than a bucket ever has; where successes fill one, it is full.
const tokens = 500

var (
	moment     = time.Now()
	firstTry   = backoff.Attempt{Number: 1, Now: moment}
	secondTry  = backoff.Attempt{Number: 2, Kind: backoff.AttemptRetry, Now: moment}
	paidSingle = avast.FixedTokenBucketThrottleConfig{MaxCapacity: tokens, ThrottleCost: 1}
	paidDouble = avast.FixedTokenBucketThrottleConfig{MaxCapacity: tokens, ThrottleCost: 1, FirstSuccessReleaseCost: 2}
)

// failsafeBudget is a budget of failsafe as its policies see it. Its interface
// has only Rate.
type failsafeBudget interface {
	RecordExecution()
	ReleaseExecution()
	TryAcquirePermit() bool
	ReleasePermit()
}

func newFailsafeBudget() failsafeBudget { return budget.New().(failsafeBudget) }

// BenchmarkBudgetSuccess is what a success costs its budget: minimal adds to a
// counter of the processor's own. The buckets of the peers fill up at once, and
// are full from then on.
func BenchmarkBudgetSuccess(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		b.ReportAllocs()
		l := newLocal()
		for b.Loop() {
			l.add()
		}
		expect(b, l.total(), 1)
	})
	b.Run("backoff", func(b *testing.B) {
		b.ReportAllocs()
		var budget backoff.RetryBudget
		for b.Loop() {
			t, _, _ := budget.Reserve(firstTry)
			budget.Done(t, backoff.Result{})
		}
		heard(b, &budget)
	})
	b.Run("avast", func(b *testing.B) {
		b.ReportAllocs()
		t := avast.NewFixedTokenBucketThrottle(paidSingle)
		paid := drain(b, func() bool { return t.AllowRetry(1, errDown) })
		for b.Loop() {
			t.OnSuccess(0)
		}
		paid()
	})
	b.Run("failsafe", func(b *testing.B) {
		b.ReportAllocs()
		f := newFailsafeBudget()
		for b.Loop() {
			f.RecordExecution()
			f.ReleaseExecution()
		}
		balanced(b, f)
	})
	b.Run("aws", func(b *testing.B) {
		b.ReportAllocs()
		ctx, t := b.Context(), ratelimit.NewTokenRateLimit(tokens)
		paid := drain(b, func() bool { _, err := t.GetToken(ctx, 1); return err == nil })
		for b.Loop() {
			must(b, t.AddTokens(1))
		}
		paid()
	})
}

// heard fails the benchmark if budget has heard of no success, or of too many.
func heard(b *testing.B, budget *backoff.RetryBudget) {
	b.Helper()
	if got := budget.Stats().Successes; got == 0 || got > uint64(b.N) {
		b.Fatalf("%d successes in %d iterations", got, b.N)
	}
}

// drain empties a bucket. The func it returns fails the benchmark unless each
// iteration has paid for one retry since, up to what the bucket holds.
func drain(b *testing.B, withdraw func() bool) (paid func()) {
	for withdraw() {
	}
	b.ResetTimer()
	return func() {
		b.Helper()
		b.StopTimer()
		for range min(b.N, tokens) {
			if !withdraw() {
				b.Fatal("a success has not paid")
			}
		}
		if withdraw() {
			b.Fatal("the bucket has more than was paid")
		}
	}
}

// balanced fails the benchmark unless all calls that began have ended.
func balanced(b *testing.B, f failsafeBudget) {
	b.Helper()
	if !f.TryAcquirePermit() || f.(budget.Budget).Rate() != 1 {
		b.Fatal("calls are still under way")
	}
}

// BenchmarkBudgetSuccessParallel is the same on all processors at once.
func BenchmarkBudgetSuccessParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		b.ReportAllocs()
		l := newLocal()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l.add()
			}
		})
		expect(b, l.total(), 1)
	})
	b.Run("backoff", func(b *testing.B) {
		b.ReportAllocs()
		var budget backoff.RetryBudget
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				t, _, _ := budget.Reserve(firstTry)
				budget.Done(t, backoff.Result{})
			}
		})
		heard(b, &budget)
	})
	b.Run("avast", func(b *testing.B) {
		b.ReportAllocs()
		t := avast.NewFixedTokenBucketThrottle(paidSingle)
		paid := drain(b, func() bool { return t.AllowRetry(1, errDown) })
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				t.OnSuccess(0)
			}
		})
		paid()
	})
	b.Run("failsafe", func(b *testing.B) {
		b.ReportAllocs()
		f := newFailsafeBudget()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				f.RecordExecution()
				f.ReleaseExecution()
			}
		})
		balanced(b, f)
	})
	b.Run("aws", func(b *testing.B) {
		b.ReportAllocs()
		ctx, t := b.Context(), ratelimit.NewTokenRateLimit(tokens)
		paid := drain(b, func() bool { _, err := t.GetToken(ctx, 1); return err == nil })
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = t.AddTokens(1)
			}
		})
		paid()
	})
}
