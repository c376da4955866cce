package bench

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffslog"
)

// BenchmarkObserved is a call that succeeds at once: counted, under a logger that is not
// interested, under an Observer that does nothing, and without one. minimal adds one to a counter
// of its processor.
func BenchmarkObserved(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		l := newLocal()
		for b.Loop() {
			must(b, standard.do(ctx, succeed))
			l.add()
		}
		expect(b, calls, 1)
	})
	logger := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo}))
	for _, c := range []struct {
		name     string
		observer backoff.Observer
	}{
		{"backoff", new(backoffmetrics.Metrics).Observe},
		{"backoff-log", backoffslog.New(logger, nil)},
		{"backoff-silent", func(context.Context, backoff.Event) {}},
		{"backoff-unobserved", nil},
	} {
		p := backoff.Policy{Name: "fetch", Observer: c.observer}
		b.Run(c.name, func(b *testing.B) {
			ctx := start(b)
			for b.Loop() {
				must(b, p.Do(ctx, succeed))
			}
			expect(b, calls, 1)
		})
		b.Run(c.name+"-parallel", func(b *testing.B) {
			together(b, func(op operation) func() error {
				return func() error { return p.Do(b.Context(), op) }
			})
		})
	}
}

// BenchmarkRecord is a retry that is logged to nowhere. minimal is the same record by slog alone,
// with the text as it is, and backoff-suppressed one beyond the limit per second.
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
	for name, options := range map[string]*backoffslog.Options{"backoff": {PerSecond: -1}, "backoff-suppressed": nil} {
		b.Run(name, func(b *testing.B) {
			ctx := start(b)
			observe := backoffslog.New(logger, options)
			for b.Loop() {
				observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1, MaxAttempts: 4, Err: failure, Delay: time.Second, Wait: time.Second})
			}
		})
	}
}
