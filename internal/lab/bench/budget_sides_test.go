package bench

import (
	"math"
	"sync"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
)

// twoSided is a budget with a lock per side, and a window of one bucket.
type twoSided struct {
	mu     sync.Mutex
	tokens int
}

func (s *twoSided) deposit() {
	s.mu.Lock()
	s.tokens = min(s.tokens+2, 1000)
	s.mu.Unlock()
}

func (s *twoSided) withdraw(time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

// BenchmarkBudgetBothSides is a success and a retry that it pays for, and which
// must be granted. The caller has read the clock. rate is
// golang.org/x/time/rate, which is paid by time, and so has one side only. aws
// is the quota of the SDK's clients, aws-bucket the bucket in it.
func BenchmarkBudgetBothSides(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		b.ReportAllocs()
		var s twoSided
		for b.Loop() {
			s.deposit()
			if !s.withdraw(moment) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("backoff", func(b *testing.B) {
		b.ReportAllocs()
		budget := &backoff.RetryBudget{Ratio: 2}
		for b.Loop() {
			budget.Done(backoff.Ticket{}, backoff.Result{})
			if _, _, ok := budget.Reserve(secondTry); !ok {
				b.Fatal("refused")
			}
		}
	})
	bothSidesByPeers(b)
}

func bothSidesByPeers(b *testing.B) {
	b.Run("avast", func(b *testing.B) {
		b.ReportAllocs()
		t := avast.NewFixedTokenBucketThrottle(paidDouble)
		for b.Loop() {
			t.OnSuccess(0)
			if !t.AllowRetry(1, errDown) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("failsafe", func(b *testing.B) {
		b.ReportAllocs()
		f := newFailsafeBudget()
		for b.Loop() {
			f.RecordExecution()
			if !f.TryAcquirePermit() {
				b.Fatal("refused")
			}
			f.ReleasePermit()
			f.ReleaseExecution()
		}
	})
	b.Run("aws", func(b *testing.B) {
		b.ReportAllocs()
		ctx, t := b.Context(), ratelimit.NewTokenRateLimit(tokens)
		for b.Loop() {
			_ = t.AddTokens(2)
			if _, err := t.GetToken(ctx, 1); err != nil {
				b.Fatal("refused")
			}
		}
	})
	b.Run("aws-bucket", func(b *testing.B) {
		b.ReportAllocs()
		t := ratelimit.NewTokenBucket(tokens)
		for b.Loop() {
			t.Refund(2)
			if _, ok := t.Retrieve(1); !ok {
				b.Fatal("refused")
			}
		}
	})
	b.Run("rate", func(b *testing.B) {
		b.ReportAllocs()
		r := rate.NewLimiter(1, math.MaxInt)
		for b.Loop() {
			if !r.AllowN(moment, 1) {
				b.Fatal("refused")
			}
		}
	})
}

// BenchmarkBudgetBothSidesParallel is the same on all processors at once.
func BenchmarkBudgetBothSidesParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		b.ReportAllocs()
		var s twoSided
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				s.deposit()
				if !s.withdraw(moment) {
					b.Error("refused")
				}
			}
		})
	})
	b.Run("backoff", func(b *testing.B) {
		b.ReportAllocs()
		budget := &backoff.RetryBudget{Ratio: 2}
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				budget.Done(backoff.Ticket{}, backoff.Result{})
				if _, _, ok := budget.Reserve(secondTry); !ok {
					b.Error("refused")
				}
			}
		})
	})
	bothSidesParallelByPeers(b)
}

func bothSidesParallelByPeers(b *testing.B) {
	b.Run("avast", func(b *testing.B) {
		b.ReportAllocs()
		t := avast.NewFixedTokenBucketThrottle(paidDouble)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				t.OnSuccess(0)
				if !t.AllowRetry(1, errDown) {
					b.Error("refused")
				}
			}
		})
	})
	b.Run("failsafe", func(b *testing.B) {
		b.ReportAllocs()
		f := newFailsafeBudget()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				f.RecordExecution()
				if !f.TryAcquirePermit() {
					b.Error("refused")
				}
				f.ReleasePermit()
				f.ReleaseExecution()
			}
		})
	})
	b.Run("aws", func(b *testing.B) {
		b.ReportAllocs()
		ctx, t := b.Context(), ratelimit.NewTokenRateLimit(tokens)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = t.AddTokens(2)
				if _, err := t.GetToken(ctx, 1); err != nil {
					b.Error("refused")
				}
			}
		})
	})
	bothSidesParallelByBuckets(b)
}

func bothSidesParallelByBuckets(b *testing.B) {
	b.Run("aws-bucket", func(b *testing.B) {
		b.ReportAllocs()
		t := ratelimit.NewTokenBucket(tokens)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				t.Refund(2)
				if _, ok := t.Retrieve(1); !ok {
					b.Error("refused")
				}
			}
		})
	})
	b.Run("rate", func(b *testing.B) {
		b.ReportAllocs()
		r := rate.NewLimiter(1, math.MaxInt)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if !r.AllowN(moment, 1) {
					b.Error("refused")
				}
			}
		})
	})
}
