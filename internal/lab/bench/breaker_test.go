package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	eapache "github.com/eapache/go-resiliency/breaker"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"github.com/gobackoff/backoff"
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
