package bench

import (
	"context"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"

	"github.com/gobackoff/backoff/hedge"
)

// BenchmarkHedge is a fast call that is not hedged.
func BenchmarkHedge(b *testing.B) {
	value := func(ctx context.Context) (int, error) { return 1, succeed(ctx) }
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		for b.Loop() {
			_, err := hedgeByHand(ctx, value)
			must(b, err)
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		hedged := &hedge.Hedge{Delay: time.Second}
		for b.Loop() {
			_, err := hedge.Value(ctx, hedged, value, nil)
			must(b, err)
		}
		expect(b, calls, 1)
	})
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		executor := failsafe.With(hedgepolicy.NewWithDelay[int](time.Second))
		for b.Loop() {
			_, err := executor.GetWithExecution(func(failsafe.Execution[int]) (int, error) { return value(ctx) })
			must(b, err)
		}
		expect(b, calls, 1)
	})
}

// hedgeByHand makes the first attempt on the caller's goroutine, and arms a
// timer that would start another one.
func hedgeByHand(ctx context.Context, op func(context.Context) (int, error)) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make(chan int, 1)
	timer := time.AfterFunc(time.Second, func() {
		if v, err := op(ctx); err == nil {
			results <- v
			cancel(errDown)
		}
	})
	v, err := op(ctx)
	if timer.Stop() || err == nil {
		return v, err
	}
	return <-results, nil
}
