package bench

import (
	"context"
	"io"
	"log/slog"
	"testing"

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
