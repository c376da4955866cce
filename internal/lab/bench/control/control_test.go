// Package control measures what a call costs that a panel can change, beside
// one that none can. Its figures are not those of a scenario: nobody would write
// this by hand, and no peer has it.
package control

import (
	"context"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
)

// calls counts the calls of the operations. It is written by one goroutine.
var calls int

func succeed(context.Context) error { calls++; return nil }

func succeedValue(context.Context) (int, error) { calls++; return calls, nil }

// check fails the benchmark unless the operation was called once in each
// iteration.
func check(b *testing.B) {
	if calls != b.N {
		b.Fatalf("the operation was called %d times in %d iterations", calls, b.N)
	}
}

// BenchmarkDo is a success. Its loops are written out, because a loop that gets
// the call as a function would measure that, too.
func BenchmarkDo(b *testing.B) {
	policy := &backoff.Policy{Name: "search"}
	b.Run("policy", func(b *testing.B) {
		b.ReportAllocs()
		ctx := b.Context()
		calls = 0
		for b.Loop() {
			if err := policy.Do(ctx, succeed); err != nil {
				b.Fatal(err)
			}
		}
		check(b)
	})
	handle := new(control.Panel).Policy(*policy)
	b.Run("handle", func(b *testing.B) {
		b.ReportAllocs()
		ctx := b.Context()
		calls = 0
		for b.Loop() {
			if err := handle.Do(ctx, succeed); err != nil {
				b.Fatal(err)
			}
		}
		check(b)
	})
}

// BenchmarkDoValue is a success of an operation that returns a value.
func BenchmarkDoValue(b *testing.B) {
	policy := &backoff.Policy{Name: "search"}
	b.Run("policy", func(b *testing.B) {
		b.ReportAllocs()
		ctx := b.Context()
		calls = 0
		for b.Loop() {
			if _, err := backoff.DoValue(ctx, policy, succeedValue); err != nil {
				b.Fatal(err)
			}
		}
		check(b)
	})
	handle := new(control.Panel).Policy(*policy)
	b.Run("handle", func(b *testing.B) {
		b.ReportAllocs()
		ctx := b.Context()
		calls = 0
		for b.Loop() {
			if _, err := backoff.DoValue(ctx, handle.Policy(), succeedValue); err != nil {
				b.Fatal(err)
			}
		}
		check(b)
	})
}

// BenchmarkHedge is a fast call that sends no hedge.
func BenchmarkHedge(b *testing.B) {
	registered := &backoff.Hedge{Name: "search", Delay: time.Hour}
	new(control.Panel).Hedge(registered)
	for _, c := range []struct {
		name  string
		hedge *backoff.Hedge
	}{{"plain", &backoff.Hedge{Name: "search", Delay: time.Hour}}, {"registered", registered}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := b.Context()
			calls = 0
			for b.Loop() {
				if _, err := backoff.HedgeValue(ctx, c.hedge, succeedValue, nil); err != nil {
					b.Fatal(err)
				}
			}
			check(b)
		})
	}
}
