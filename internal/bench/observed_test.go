package bench

import (
	"context"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
)

// BenchmarkObserved is a call that succeeds at once, and what it costs to be told of it:
// plain is unobserved, noop has an Observer that does nothing, metrics counts. The
// difference between the first two is the price of the event, between the last two that
// of counting.
func BenchmarkObserved(b *testing.B) {
	for name, policy := range observed() {
		b.Run(name, func(b *testing.B) {
			ctx := start(b)
			for b.Loop() {
				must(b, policy.Do(ctx, succeed))
			}
			expect(b, calls, 1)
		})
	}
}

// BenchmarkObservedParallel is the same on all processors, for one operation.
func BenchmarkObservedParallel(b *testing.B) {
	for name, policy := range observed() {
		b.Run(name, func(b *testing.B) {
			ctx := start(b)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					must(b, policy.Do(ctx, succeedAlone))
				}
			})
		})
	}
}

func succeedAlone(context.Context) error { return nil }

func observed() map[string]*backoff.Policy {
	var metrics backoffmetrics.Metrics
	return map[string]*backoff.Policy{
		"plain":   {Name: "fetch"},
		"noop":    {Name: "fetch", Observer: func(context.Context, backoff.Event) {}},
		"metrics": {Name: "fetch", Observer: metrics.Observe},
	}
}
