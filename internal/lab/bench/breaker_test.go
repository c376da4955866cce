package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afex/hystrix-go/hystrix"
	eapache "github.com/eapache/go-resiliency/breaker"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"github.com/gobackoff/backoff"
)

// counted is the minimal breaker: a word to look at, and one to add to.
type counted struct {
	open atomic.Bool
	good atomic.Int64
}

var errOpen = errors.New("open")

//go:noinline
func (c *counted) do(ctx context.Context, op func(context.Context) error) error {
	if c.open.Load() {
		return errOpen
	}
	err := op(ctx)
	if err == nil {
		c.good.Add(1)
	}
	return err
}

// doGuarded is do that looks at the context, and counts a panic.
//
//go:noinline
func (c *counted) doGuarded(ctx context.Context, op func(context.Context) error) error {
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

// The peers' nearest to a breaker that opens at half of at least 20 calls in 10
// s.

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

// BenchmarkBreakerClosed is a success through a closed breaker. minimal-guarded
// looks at the context as well, and counts a panic as a failure. gobreaker has
// its defaults, and counts since it was made; gobreaker-window has a window.
// failsafe-permit is asked and told by the caller, without an executor.
func BenchmarkBreakerClosed(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		var c counted
		for b.Loop() {
			must(b, c.do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("minimal-guarded", func(b *testing.B) {
		ctx := start(b)
		var c counted
		for b.Loop() {
			must(b, c.doGuarded(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		var breaker backoff.Breaker
		for b.Loop() {
			must(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	closedByGobreaker(b, "gobreaker", gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{}))
	closedByGobreaker(b, "gobreaker-window", gobreakerWindow())
	closedByPeers(b)
}

func closedByGobreaker(b *testing.B, name string, breaker *gobreaker.CircuitBreaker[struct{}]) {
	b.Run(name, func(b *testing.B) {
		ctx := start(b)
		for b.Loop() {
			_, err := breaker.Execute(func() (struct{}, error) { return struct{}{}, succeed(ctx) })
			must(b, err)
		}
		expect(b, calls, 1)
	})
}

func closedByPeers(b *testing.B) {
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		executor := failsafe.With(failsafeBreaker())
		for b.Loop() {
			must(b, executor.Run(func() error { return succeed(ctx) }))
		}
		expect(b, calls, 1)
	})
	b.Run("failsafe-permit", func(b *testing.B) {
		ctx := start(b)
		breaker := failsafeBreaker()
		for b.Loop() {
			if !breaker.TryAcquirePermit() {
				b.Fatal("refused")
			}
			must(b, succeed(ctx))
			breaker.RecordSuccess()
		}
		expect(b, calls, 1)
	})
	b.Run("eapache", func(b *testing.B) {
		ctx := start(b)
		breaker := eapacheBreaker()
		for b.Loop() {
			must(b, breaker.Run(func() error { return succeed(ctx) }))
		}
		expect(b, calls, 1)
	})
	b.Run("hystrix", func(b *testing.B) {
		ctx := start(b)
		// It returns before it has given its ticket back: with few tickets,
		// calls are refused.
		hystrix.ConfigureCommand(b.Name(), hystrix.CommandConfig{MaxConcurrentRequests: 100_000})
		for b.Loop() {
			must(b, hystrix.DoC(ctx, b.Name(), succeed, nil))
		}
		expect(b, calls, 1)
	})
}

// BenchmarkBreakerClosedParallel is the same on all processors at once. Every
// goroutine counts the calls of its operation for itself; minimal adds to a
// counter of the processor's own.
func BenchmarkBreakerClosedParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		l := newLocal()
		var open atomic.Bool
		together(b, func(pb *testing.PB, own *own) {
			for pb.Next() {
				if !open.Load() && own.succeed() == nil {
					l.add()
				}
			}
		})
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := b.Context()
		var breaker backoff.Breaker
		together(b, func(pb *testing.PB, own *own) {
			for pb.Next() {
				if breaker.Do(ctx, func(context.Context) error { return own.succeed() }) != nil {
					b.Error("refused")
				}
			}
		})
	})
	closedParallelByPeers(b)
}

func closedParallelByPeers(b *testing.B) {
	b.Run("gobreaker-window", func(b *testing.B) {
		breaker := gobreakerWindow()
		together(b, func(pb *testing.PB, own *own) {
			for pb.Next() {
				if _, err := breaker.Execute(func() (struct{}, error) { return struct{}{}, own.succeed() }); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("failsafe", func(b *testing.B) {
		executor := failsafe.With(failsafeBreaker())
		together(b, func(pb *testing.PB, own *own) {
			for pb.Next() {
				if err := executor.Run(own.succeed); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("failsafe-permit", func(b *testing.B) {
		breaker := failsafeBreaker()
		together(b, func(pb *testing.PB, own *own) {
			for pb.Next() {
				if !breaker.TryAcquirePermit() || own.succeed() != nil {
					b.Error("refused")
				}
				breaker.RecordSuccess()
			}
		})
	})
	b.Run("eapache", func(b *testing.B) {
		breaker := eapacheBreaker()
		together(b, func(pb *testing.PB, own *own) {
			for pb.Next() {
				if err := breaker.Run(own.succeed); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
