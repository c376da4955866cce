package bench

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/failsafe-go/failsafe-go/budget"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
)

// tokens is what the buckets of the peers hold.
const tokens = 500

var (
	moment    = time.Now()
	firstTry  = backoff.Attempt{Number: 1, Now: moment}
	secondTry = backoff.Attempt{Number: 2, Now: moment}
)

// A side is one of the two that a budget has.
type side struct {
	succeed func()
	retry   func() (granted bool)
}

// budgets are ours, one written by hand, and those of other libraries. minimal is a bucket under
// a lock. rate is golang.org/x/time/rate: time pays it, and so success costs nothing. aws is the
// quota of the SDK's clients, aws-bucket the bucket in it.
var budgets = []struct {
	name string
	make func() side
}{
	{"minimal", func() side {
		var mu sync.Mutex
		n := 0
		return side{
			func() { mu.Lock(); n = min(n+2, 1000); mu.Unlock() },
			func() bool {
				mu.Lock()
				defer mu.Unlock()
				n--
				return n >= 0
			},
		}
	}},
	{"backoff", func() side {
		own := &backoff.RetryBudget{Ratio: 2}
		return side{
			func() { t, _, _ := own.Reserve(firstTry); own.Done(t, backoff.Result{}) },
			func() bool { _, _, ok := own.Reserve(secondTry); return ok },
		}
	}},
	{"avast", func() side {
		t := avast.NewFixedTokenBucketThrottle(avast.FixedTokenBucketThrottleConfig{MaxCapacity: tokens, ThrottleCost: 1, FirstSuccessReleaseCost: 2})
		return side{func() { t.OnSuccess(0) }, func() bool { return t.AllowRetry(1, errDown) }}
	}},
	{"failsafe", func() side {
		f := budget.New().(interface { // as its policies see it
			RecordExecution()
			ReleaseExecution()
			TryAcquirePermit() bool
			ReleasePermit()
		})
		return side{
			func() { f.RecordExecution(); f.ReleaseExecution() },
			func() bool {
				f.RecordExecution()
				ok := f.TryAcquirePermit()
				f.ReleasePermit()
				f.ReleaseExecution()
				return ok
			},
		}
	}},
	{"aws", func() side {
		t := ratelimit.NewTokenRateLimit(tokens)
		return side{func() { _ = t.AddTokens(2) }, func() bool { _, err := t.GetToken(context.Background(), 1); return err == nil }}
	}},
	{"aws-bucket", func() side {
		t := ratelimit.NewTokenBucket(tokens)
		return side{func() { t.Refund(2) }, func() bool { _, ok := t.Retrieve(1); return ok }}
	}},
	{"rate", func() side {
		r := rate.NewLimiter(1, math.MaxInt)
		return side{func() {}, func() bool { return r.AllowN(moment, 1) }}
	}},
}

// BenchmarkBudgetSuccess is what a success costs its budget.
func BenchmarkBudgetSuccess(b *testing.B) {
	for _, c := range budgets {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			s := c.make()
			for b.Loop() {
				s.succeed()
			}
			if !s.retry() {
				b.Fatal("a success has not paid")
			}
		})
	}
}

// BenchmarkBudgetRetry is a success and a retry that it pays for, and which must be granted. The
// caller has read the clock.
func BenchmarkBudgetRetry(b *testing.B) {
	for _, c := range budgets {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			s := c.make()
			for b.Loop() {
				s.succeed()
				if !s.retry() {
					b.Fatal("refused")
				}
			}
		})
	}
}

// grantByHand takes a token of a bucket for a retry, whose success gives one back.
func grantByHand(b *testing.B) {
	b.ReportAllocs()
	var bucket atomic.Int64
	bucket.Store(tokens)
	for b.Loop() {
		n := bucket.Load()
		if n < 1 || !bucket.CompareAndSwap(n, n-1) {
			b.Fatal("refused")
		}
		bucket.Add(1)
	}
}

// grant is a retry that a budget grants, and whose success pays for the next.
func grant(b *testing.B) {
	b.ReportAllocs()
	own := &backoff.RetryBudget{Ratio: 2}
	for b.Loop() {
		t, _, ok := own.Reserve(secondTry)
		if !ok {
			b.Fatal("refused")
		}
		own.Done(t, backoff.Result{})
	}
}
