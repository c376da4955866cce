package bench

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	eapache "github.com/eapache/go-resiliency/breaker"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// counted is the minimal breaker: it loads one word, and adds to another.
type counted struct {
	open atomic.Bool
	good atomic.Int64
}

var errOpen = errors.New("open")

//go:noinline
func (c *counted) do(ctx context.Context, op operation) error {
	if c.open.Load() {
		return errOpen
	}
	err := op(ctx)
	if err == nil {
		c.good.Add(1)
	}
	return err
}

// doGuarded is do that checks the context, and counts a panic.
//
//go:noinline
func (c *counted) doGuarded(ctx context.Context, op operation) error {
	if c.open.Load() {
		return errOpen
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	over := false
	defer func() {
		if !over {
			c.open.Store(true)
		}
	}()
	err := op(ctx)
	over = true
	if err == nil {
		c.good.Add(1)
	}
	return err
}

// The peers' nearest to a breaker that opens at half of at least 20 calls in 10 s.

func gobreakerWindow() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: 10 * time.Second, BucketPeriod: time.Second, Timeout: time.Hour,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.Requests >= 20 && 2*c.TotalFailures >= c.Requests },
	})
}

func failsafeBreaker() circuitbreaker.CircuitBreaker[any] {
	return circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.5, 20, 10*time.Second).WithDelay(time.Hour).Build()
}

// eapacheBreaker counts failures, and has no window.
func eapacheBreaker() *eapache.Breaker { return eapache.New(20, 2, time.Hour) }

// Goroutines share a breaker, and each prepares calls of its own operation.
type prepared func(operation) (call func() error)

// What guards operations in another library.
type guarding struct {
	name string
	make func(context.Context) prepared
}

// compareGuards measures successes through guards.
func compareGuards(b *testing.B, guards []guarding) {
	for _, g := range guards {
		b.Run(g.name, func(b *testing.B) {
			call := g.make(start(b))(succeed)
			for b.Loop() {
				must(b, call())
			}
			expect(b, calls, 1)
		})
	}
}

// compareSharedGuards measures successes on all processors at once.
func compareSharedGuards(b *testing.B, guards []guarding) {
	for _, g := range guards {
		b.Run(g.name, func(b *testing.B) { together(b, g.make(b.Context())) })
	}
}

// breakers are those of other libraries. failsafe-permit asks for a permit and reports the result.
var breakers = []guarding{
	{"gobreaker", func(ctx context.Context) prepared { return throughGobreaker(ctx, gobreakerWindow()) }},
	{"failsafe", func(ctx context.Context) prepared {
		executor := failsafe.With(failsafeBreaker())
		return func(op operation) func() error {
			one := func() error { return op(ctx) }
			return func() error { return executor.Run(one) }
		}
	}},
	{"failsafe-permit", func(ctx context.Context) prepared {
		breaker := failsafeBreaker()
		return func(op operation) func() error {
			return func() error {
				if !breaker.TryAcquirePermit() {
					return errOpen
				}
				err := op(ctx)
				breaker.RecordError(err)
				return err
			}
		}
	}},
	{"eapache", func(ctx context.Context) prepared {
		breaker := eapacheBreaker()
		return func(op operation) func() error {
			one := func() error { return op(ctx) }
			return func() error { return breaker.Run(one) }
		}
	}},
}

func throughGobreaker(ctx context.Context, breaker *gobreaker.CircuitBreaker[struct{}]) prepared {
	return func(op operation) func() error {
		one := func() (struct{}, error) { return struct{}{}, op(ctx) }
		return func() error {
			_, err := breaker.Execute(one)
			return err
		}
	}
}

func minimalBreaker(b *testing.B) {
	ctx := start(b)
	var c counted
	for b.Loop() {
		must(b, c.do(ctx, succeed))
	}
	expect(b, calls, 1)
}

func backoffBreaker(b *testing.B) {
	ctx := start(b)
	var breaker backoff.Breaker
	for b.Loop() {
		must(b, breaker.Do(ctx, succeed))
	}
	expect(b, calls, 1)
}

// BenchmarkBreakerClosed is a success through a closed breaker. minimal-guarded also checks the
// context, and counts a panic as a failure.
func BenchmarkBreakerClosed(b *testing.B) {
	b.Run("minimal", minimalBreaker)
	b.Run("minimal-guarded", func(b *testing.B) {
		ctx := start(b)
		var c counted
		for b.Loop() {
			must(b, c.doGuarded(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", backoffBreaker)
	compareGuards(b, breakers)
}

// BenchmarkBreakerClosedParallel is the same on all processors at once. Every goroutine counts the
// calls of its operation, and minimal adds to a counter of its processor.
func BenchmarkBreakerClosedParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		l := newLocal()
		var open atomic.Bool
		together(b, func(op operation) func() error {
			return func() error {
				if open.Load() {
					return errOpen
				}
				err := op(b.Context())
				if err == nil {
					l.add()
				}
				return err
			}
		})
	})
	b.Run("backoff", func(b *testing.B) {
		var breaker backoff.Breaker
		together(b, func(op operation) func() error {
			return func() error { return breaker.Do(b.Context(), op) }
		})
	})
	compareSharedGuards(b, breakers)
}

// BenchmarkBreakerOpen is a refusal.
func BenchmarkBreakerOpen(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		var c counted
		c.open.Store(true)
		for b.Loop() {
			mustNot(b, c.do(ctx, succeed))
		}
		expect(b, calls, 0)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		breaker := &backoff.Breaker{OpenFor: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}
		breaker.Trip()
		for b.Loop() {
			mustNot(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 0)
	})
	for _, p := range breakers {
		b.Run(p.name, func(b *testing.B) {
			breaker := p.make(start(b))
			for call := breaker(down); calls < 20; {
				mustNot(b, call())
			}
			calls = 0
			call := breaker(succeed)
			for b.Loop() {
				mustNot(b, call())
			}
			expect(b, calls, 0)
		})
	}
}

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
func ownGuards() *guard.Client {
	s := &guard.Service{Budget: &backoff.RetryBudget{}}
	return s.With(backoff.Policy{})
}

// ownService makes calls that capture a variable.
func ownService(b *testing.B) {
	ctx, s, n := start(b), ownGuards(), 0
	for b.Loop() {
		must(b, s.Do(ctx, func(context.Context) error { n++; return nil }))
	}
	expect(b, n, 1)
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
	b.Run("backoff", ownService)
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
		s := ownGuards()
		together(b, func(op operation) func() error {
			return func() error { return s.Do(b.Context(), op) }
		})
	})
	compareSharedGuards(b, guarded)
}
