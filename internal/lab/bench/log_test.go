package bench

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
)

// BenchmarkObservedLog is a call that succeeds at once under a logger that is
// not interested. The floor asks the logger after the call. Of the other
// candidates, unobserved has no Observer, and silent one that does nothing:
// what remains is backoffslog's.
func BenchmarkObservedLog(b *testing.B) {
	logger := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo}))
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		for b.Loop() {
			must(b, standard.do(ctx, succeed))
			if logger.Enabled(ctx, slog.LevelDebug) {
				b.Fatal("the logger is interested")
			}
		}
		expect(b, calls, 1)
	})
	for _, c := range []struct {
		name     string
		observer backoff.Observer
	}{
		{"backoff", backoffslog.New(logger, nil)},
		{"backoff-silent", func(context.Context, backoff.Event) {}},
		{"backoff-unobserved", nil},
		{"backoff-chosen", backoffslog.New(logger, &backoffslog.Options{Level: backoffslog.DefaultLevel})},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx := start(b)
			p := backoff.Policy{Observer: c.observer}
			for b.Loop() {
				must(b, p.Do(ctx, succeed))
			}
			expect(b, calls, 1)
		})
	}
}

// BenchmarkRecord is a retry that is written to nowhere; the floor is the same
// record by slog alone, with the text as it is.
func BenchmarkRecord(b *testing.B) {
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	failure := errors.New(`Get "https://example.com/orders?key=abc": dial tcp 127.0.0.1:80: connect: connection refused`)
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		for b.Loop() {
			logger.LogAttrs(ctx, slog.LevelInfo, "retry", slog.String("operation", "fetch"), slog.Int("attempt", 1), slog.Int("max_attempts", 4),
				slog.String("class", "unknown"), slog.String("error", failure.Error()), slog.String("error_type", "*errors.errorString"),
				slog.Duration("delay", time.Second), slog.Duration("wait", time.Second), slog.Duration("slept", 0), slog.Duration("elapsed", 0))
		}
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		observe := backoffslog.New(logger, &backoffslog.Options{PerSecond: -1})
		for b.Loop() {
			observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1, MaxAttempts: 4, Err: failure, Delay: time.Second, Wait: time.Second})
		}
	})
	b.Run("backoff-suppressed", func(b *testing.B) {
		ctx := start(b)
		observe := backoffslog.New(logger, nil)
		for b.Loop() {
			observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1, MaxAttempts: 4, Err: failure, Delay: time.Second, Wait: time.Second})
		}
	})
}
