package bench

import (
	"context"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

// BenchmarkBreakerShared is a success through a closed breaker that has heard
// nothing bad of late from its fleet: minimal is the same without a fleet.
func BenchmarkBreakerShared(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		var breaker backoff.Breaker
		for b.Loop() {
			must(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		breaker := backoff.Breaker{Name: "db", Shared: &fleet.Client{Store: new(fleet.Memory)}}
		must(b, breaker.Do(ctx, func(context.Context) error { return nil }))
		for b.Loop() {
			must(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
}

// BenchmarkBreakerSharedOpen is a refusal of a circuit that others have opened:
// minimal is that of a breaker which has opened by itself.
func BenchmarkBreakerSharedOpen(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx, breaker := start(b), openBreaker()
		for b.Loop() {
			mustNot(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 0)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		store := new(fleet.Memory)
		for _, by := range []string{"x", "y"} {
			_, err := store.Trip(ctx, "db", fleet.Trip{By: by, Voter: by, Open: time.Hour, Quorum: 2})
			must(b, err)
		}
		breaker := backoff.Breaker{Name: "db", Shared: &fleet.Client{Store: store, Wait: time.Second, Trust: -1}, MaxRetryAfter: -1}
		mustNot(b, breaker.Do(ctx, succeed))
		for b.Loop() {
			mustNot(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 0)
	})
}
