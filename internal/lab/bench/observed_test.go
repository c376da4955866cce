package bench

import (
	"context"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
)

// BenchmarkObserved is a call that succeeds at once, and is counted. The floor
// adds one to a counter of the processor's own. Of the other candidates,
// unobserved has no Observer, and silent one that does nothing: the difference
// between these two is what an event costs, that between silent and backoff
// what backoffmetrics does with it.
func BenchmarkObserved(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		l := newLocal()
		for b.Loop() {
			must(b, standard.do(ctx, succeed))
			l.add()
		}
		expect(b, calls, 1)
		expect(b, l.total(), 1)
	})
	for _, c := range observed() {
		b.Run(c.name, func(b *testing.B) {
			ctx := start(b)
			for b.Loop() {
				must(b, c.policy.Do(ctx, succeed))
			}
			expect(b, calls, 1)
		})
	}
}

// BenchmarkObservedParallel is the same on all processors, for one operation.
func BenchmarkObservedParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := b.Context()
		l := newLocal()
		together(b, func(pb *testing.PB, own *own) {
			for pb.Next() {
				must(b, standard.do(ctx, func(context.Context) error { return own.succeed() }))
				l.add()
			}
		})
		expect(b, l.total(), 1)
	})
	for _, c := range observed() {
		b.Run(c.name, func(b *testing.B) {
			ctx := b.Context()
			together(b, func(pb *testing.PB, own *own) {
				for pb.Next() {
					must(b, c.policy.Do(ctx, func(context.Context) error { return own.succeed() }))
				}
			})
		})
	}
}

type observedPolicy struct {
	name   string
	policy *backoff.Policy
}

func observed() []observedPolicy {
	var metrics backoffmetrics.Metrics
	return []observedPolicy{
		{"backoff", &backoff.Policy{Name: "fetch", Observer: metrics.Observe}},
		{"backoff-silent", &backoff.Policy{Name: "fetch", Observer: func(context.Context, backoff.Event) {}}},
		{"backoff-unobserved", &backoff.Policy{Name: "fetch"}},
	}
}
