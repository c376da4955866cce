package bench

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/poll"
)

const pollLooks = 10

// BenchmarkPoll is a poll of ten looks, of which the last one is done, with
// waits that are over at once.
func BenchmarkPoll(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			must(b, pollByHand(ctx, func(context.Context) (bool, error) { n++; return n%pollLooks == 0, nil }))
		}
		expect(b, n, pollLooks)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		n := 0
		p := backoff.Policy{Schedule: backoff.Constant(1), Jitter: backoff.NoJitter, MaxElapsed: time.Hour}
		for b.Loop() {
			must(b, poll.Until(ctx, p, func(context.Context) (bool, error) { n++; return n%pollLooks == 0, nil }))
		}
		expect(b, n, pollLooks)
	})
	b.Run("k8s", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			must(b, wait.PollUntilContextTimeout(ctx, 1, time.Hour, true, func(context.Context) (bool, error) { n++; return n%pollLooks == 0, nil }))
		}
		expect(b, n, pollLooks)
	})
}

// pollByHand is the loop one writes by hand: one timer, which is set when a look
// has ended, and a limit of time.
func pollByHand(ctx context.Context, look func(context.Context) (bool, error)) error {
	end := time.Now().Add(time.Hour)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if done, err := look(ctx); done || err != nil {
			return err
		}
		wait := min(1, time.Until(end))
		if wait <= 0 {
			return context.DeadlineExceeded
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
