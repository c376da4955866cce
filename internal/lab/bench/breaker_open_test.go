package bench

import (
	"testing"
	"time"

	eapache "github.com/eapache/go-resiliency/breaker"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"github.com/gobackoff/backoff"
)

// Breakers that will be open for an hour.

func openMinimal() *counted {
	var c counted
	c.open.Store(true)
	return &c
}

func openBreaker() *backoff.Breaker {
	b := &backoff.Breaker{OpenFor: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}
	b.Trip()
	return b
}

func openGobreaker() *gobreaker.CircuitBreaker[struct{}] {
	breaker := gobreakerWindow()
	for range 20 {
		_, _ = breaker.Execute(func() (struct{}, error) { return struct{}{}, errDown })
	}
	return breaker
}

func openFailsafe() circuitbreaker.CircuitBreaker[any] {
	breaker := failsafeBreaker()
	breaker.Open()
	return breaker
}

func openEapache() *eapache.Breaker {
	breaker := eapacheBreaker()
	for range 20 {
		_ = breaker.Run(func() error { return errDown })
	}
	return breaker
}

// BenchmarkBreakerOpen is a refusal.
func BenchmarkBreakerOpen(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx, c := start(b), openMinimal()
		for b.Loop() {
			mustNot(b, c.do(ctx, succeed))
		}
		expect(b, calls, 0)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx, breaker := start(b), openBreaker()
		for b.Loop() {
			mustNot(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 0)
	})
	b.Run("gobreaker", func(b *testing.B) {
		ctx, breaker := start(b), openGobreaker()
		for b.Loop() {
			_, err := breaker.Execute(func() (struct{}, error) { return struct{}{}, succeed(ctx) })
			mustNot(b, err)
		}
		expect(b, calls, 0)
	})
	b.Run("failsafe", func(b *testing.B) {
		ctx, executor := start(b), failsafe.With(openFailsafe())
		for b.Loop() {
			mustNot(b, executor.Run(func() error { return succeed(ctx) }))
		}
		expect(b, calls, 0)
	})
	b.Run("failsafe-permit", func(b *testing.B) {
		b.ReportAllocs()
		breaker := openFailsafe()
		for b.Loop() {
			if breaker.TryAcquirePermit() {
				b.Fatal("admitted")
			}
		}
	})
	b.Run("eapache", func(b *testing.B) {
		ctx, breaker := start(b), openEapache()
		for b.Loop() {
			mustNot(b, breaker.Run(func() error { return succeed(ctx) }))
		}
		expect(b, calls, 0)
	})
}

// BenchmarkBreakerOpenParallel is the same on all processors at once.
func BenchmarkBreakerOpenParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx, c := start(b), openMinimal()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if c.do(ctx, succeed) == nil {
					b.Error("admitted")
				}
			}
		})
		expect(b, calls, 0)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx, breaker := start(b), openBreaker()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if breaker.Do(ctx, succeed) == nil {
					b.Error("admitted")
				}
			}
		})
		expect(b, calls, 0)
	})
	b.Run("gobreaker", func(b *testing.B) {
		ctx, breaker := start(b), openGobreaker()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := breaker.Execute(func() (struct{}, error) { return struct{}{}, succeed(ctx) }); err == nil {
					b.Error("admitted")
				}
			}
		})
		expect(b, calls, 0)
	})
	b.Run("failsafe", func(b *testing.B) {
		ctx, executor := start(b), failsafe.With(openFailsafe())
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if executor.Run(func() error { return succeed(ctx) }) == nil {
					b.Error("admitted")
				}
			}
		})
		expect(b, calls, 0)
	})
	b.Run("eapache", func(b *testing.B) {
		ctx, breaker := start(b), openEapache()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if breaker.Run(func() error { return succeed(ctx) }) == nil {
					b.Error("admitted")
				}
			}
		})
		expect(b, calls, 0)
	})
}
