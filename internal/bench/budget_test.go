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
	secondTry  = backoff.Attempt{Number: 2, Kind: backoff.KindRetry, Now: moment}
	paidDouble = avast.FixedTokenBucketThrottleConfig{MaxCapacity: tokens, ThrottleCost: 1, FirstSuccessReleaseCost: 2}
)

// failsafeBudget is a budget of failsafe as its policies see it. Its interface has only Rate.
type failsafeBudget interface {
	RecordExecution()
	ReleaseExecution()
	TryAcquirePermit() bool
	ReleasePermit()
}

func newFailsafeBudget() failsafeBudget { return budget.New().(failsafeBudget) }

// BenchmarkBudgetSuccess is what a success costs its budget: minimal adds to a counter
// of the processor's own. The buckets of the peers are full.
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
			budget.Done(t, backoff.OutcomeSuccess)
		}
		heard(b, &budget)
	})
	b.Run("avast", func(b *testing.B) {
		b.ReportAllocs()
		t := avast.NewFixedTokenBucketThrottle(paidDouble)
		for b.Loop() {
			t.OnSuccess(0)
		}
	})
	b.Run("failsafe", func(b *testing.B) {
		b.ReportAllocs()
		f := newFailsafeBudget()
		for b.Loop() {
			f.RecordExecution()
			f.ReleaseExecution()
		}
	})
	b.Run("aws", func(b *testing.B) {
		b.ReportAllocs()
		t := ratelimit.NewTokenRateLimit(tokens)
		for b.Loop() {
			must(b, t.AddTokens(1))
		}
	})
}

// heard fails the benchmark if budget has heard of no success, or of too many.
func heard(b *testing.B, budget *backoff.RetryBudget) {
	b.Helper()
	if got := budget.Stats().Successes; got == 0 || got > uint64(b.N) {
		b.Fatalf("%d successes in %d iterations", got, b.N)
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
				budget.Done(t, backoff.OutcomeSuccess)
			}
		})
		heard(b, &budget)
	})
	b.Run("avast", func(b *testing.B) {
		b.ReportAllocs()
		t := avast.NewFixedTokenBucketThrottle(paidDouble)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				t.OnSuccess(0)
			}
		})
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
	})
	b.Run("aws", func(b *testing.B) {
		b.ReportAllocs()
		t := ratelimit.NewTokenRateLimit(tokens)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = t.AddTokens(1)
			}
		})
	})
}
