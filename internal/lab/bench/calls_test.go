package bench

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/control"
)

// usual is the peers' nearest to the defaults.
var usual = loop{attempts: attempts, pause: exponential}

func minimalSuccess(b *testing.B) {
	ctx := start(b)
	for b.Loop() {
		must(b, standard.do(ctx, succeed))
	}
	expect(b, calls, 1)
}

func backoffSuccess(b *testing.B) {
	ctx := start(b)
	var p backoff.Policy
	for b.Loop() {
		must(b, p.Do(ctx, succeed))
	}
	expect(b, calls, 1)
}

// BenchmarkSuccess is a call that succeeds at once, under the defaults: 4 attempts, 100 ms
// doubled up to 30 s, with jitter. backoff-handle is a policy that can change at run time.
func BenchmarkSuccess(b *testing.B) {
	b.Run("minimal", minimalSuccess)
	b.Run("backoff", backoffSuccess)
	b.Run("backoff-handle", func(b *testing.B) {
		ctx, handle := start(b), new(control.Panel).Policy(backoff.Policy{Name: "search"})
		for b.Loop() {
			must(b, handle.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	comparePeers(b, usual, succeed, 1, must)
}

func minimalOfValue(b *testing.B) {
	ctx := start(b)
	n := 0
	for b.Loop() {
		v, err := minimalValue(ctx, &standard, func(context.Context) (int, error) { n++; return n, nil })
		must(b, err)
		calls += v - n + 1
	}
	expect(b, n, 1)
	expect(b, calls, 1)
}

func backoffOfValue(b *testing.B) {
	ctx := start(b)
	n := 0
	var p backoff.Policy
	for b.Loop() {
		v, err := backoff.DoValue(ctx, &p, func(context.Context) (int, error) { n++; return n, nil })
		must(b, err)
		calls += v - n + 1
	}
	expect(b, n, 1)
	expect(b, calls, 1)
}

// BenchmarkValue is a success of an operation that returns a value.
func BenchmarkValue(b *testing.B) {
	b.Run("minimal", minimalOfValue)
	b.Run("backoff", backoffOfValue)
	n := 0
	one := func() (int, error) { n++; return n, nil }
	for _, c := range []struct {
		name    string
		prepare func(context.Context) func() (int, error)
	}{
		{"cenkalti", func(ctx context.Context) func() (int, error) {
			options := []cenkalti.RetryOption{cenkalti.WithMaxTries(attempts)}
			return func() (int, error) { return cenkalti.Retry(ctx, one, options...) }
		}},
		{"avast", func(ctx context.Context) func() (int, error) {
			r := avast.NewWithData[int](avastOptions(ctx, usual)...)
			return func() (int, error) { return r.Do(one) }
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			call := c.prepare(start(b))
			n = 0
			for b.Loop() {
				v, err := call()
				must(b, err)
				calls += v - n + 1
			}
			expect(b, calls, 1)
		})
	}
}

func minimalLoop(b *testing.B) {
	ctx := start(b)
	n := 0
	for b.Loop() {
		must(b, writtenOut(ctx, &standard, &n))
	}
	expect(b, n, 1)
}

func backoffLoop(b *testing.B) {
	ctx := start(b)
	n := 0
	var p backoff.Policy
	for b.Loop() {
		must(b, ranged(ctx, &p, &n))
	}
	expect(b, n, 1)
}

// BenchmarkLoop is the range loop, left at the first attempt, beside the same loop written out.
func BenchmarkLoop(b *testing.B) {
	b.Run("minimal", minimalLoop)
	b.Run("backoff", backoffLoop)
}

//go:noinline
func writtenOut(ctx context.Context, m *minimal, n *int) error {
	var err error
	for try := 1; try <= m.attempts; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err = count(ctx, n); err == nil {
			return nil
		}
		if d := m.delay(try); d > 0 && try < m.attempts && !sleep(ctx, d) {
			return ctx.Err()
		}
	}
	return err
}

//go:noinline
func ranged(ctx context.Context, p *backoff.Policy, n *int) error {
	r := p.Start(ctx)
	for ctx := range r.Attempts() {
		err := count(ctx, n)
		if err == nil {
			return nil
		}
		r.Fail(err)
	}
	return r.Err()
}

//go:noinline
func count(_ context.Context, n *int) error { *n++; return nil }

// fourth fails three times and then succeeds.
func fourth(context.Context) error {
	if calls++; calls%4 != 0 {
		return errDown
	}
	return nil
}

func down(context.Context) error { calls++; return errDown }

func minimalFailures(delay time.Duration) func(*testing.B) {
	return func(b *testing.B) {
		ctx := start(b)
		flat := minimal{attempts: attempts, initial: delay, flat: true}
		for b.Loop() {
			must(b, flat.do(ctx, fourth))
		}
		expect(b, calls, 4)
	}
}

func backoffFailures(delay time.Duration) func(*testing.B) {
	return func(b *testing.B) {
		ctx := start(b)
		p := backoff.Policy{Schedule: backoff.Constant(delay), Jitter: backoff.NoJitter}
		for b.Loop() {
			must(b, p.Do(ctx, fourth))
		}
		expect(b, calls, 4)
	}
}

// BenchmarkFailures is a call that fails three times, without a delay in between or with delays
// of 1 ns, which arm timers, and then succeeds. minimal takes every error as transient;
// minimal-marked looks for a marker first. Every peer uses a timer also for a delay of zero.
func BenchmarkFailures(b *testing.B) {
	for name, delay := range map[string]time.Duration{"at-once": 0, "with-timers": 1} {
		b.Run(name, func(b *testing.B) {
			b.Run("minimal", minimalFailures(delay))
			b.Run("minimal-marked", func(b *testing.B) {
				ctx := start(b)
				flat := minimal{attempts: attempts, initial: delay, flat: true}
				for b.Loop() {
					must(b, flat.doMarked(ctx, fourth))
				}
				expect(b, calls, 4)
			})
			b.Run("backoff", backoffFailures(delay))
			comparePeers(b, loop{attempts: attempts, pause: delay}, fourth, 4, must)
		})
	}
}

// BenchmarkExhausted is a call that fails at both of two attempts, without a delay in between, and
// whose error is asked, by errors.Is, for that of the operation.
func BenchmarkExhausted(b *testing.B) {
	matches := func(b *testing.B, err error) {
		if !errors.Is(err, errDown) {
			b.Fatal(err)
		}
	}
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		m := minimal{attempts: 2, flat: true}
		for b.Loop() {
			matches(b, m.doExhausted(ctx, down))
		}
		expect(b, calls, 2)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)}
		for b.Loop() {
			matches(b, p.Do(ctx, down))
		}
		expect(b, calls, 2)
	})
	comparePeers(b, loop{attempts: 2}, down, 2, matches, "gax", "k8s")
}

// BenchmarkPermanent is a call that fails for good at once. backoff marks the error where it is
// declared, and backoff-new in each call. Some peers know errors by their identity and need no
// mark.
func BenchmarkPermanent(b *testing.B) {
	for name, op := range map[string]operation{
		"minimal":     marked(&mark{errDown}),
		"minimal-new": func(context.Context) error { calls++; return &mark{errDown} },
	} {
		b.Run(name, func(b *testing.B) {
			ctx := start(b)
			for b.Loop() {
				mustNot(b, standard.doMarked(ctx, op))
			}
			expect(b, calls, 1)
		})
	}
	for name, op := range map[string]operation{
		"backoff":     marked(backoff.Permanent(errDown)),
		"backoff-new": func(context.Context) error { calls++; return backoff.Permanent(errDown) },
	} {
		b.Run(name, func(b *testing.B) {
			ctx := start(b)
			var p backoff.Policy
			for b.Loop() {
				mustNot(b, p.Do(ctx, op))
			}
			expect(b, calls, 1)
		})
	}
	comparePeers(b, loop{attempts: attempts, pause: exponential, final: true}, down, 1, mustNot)
}

func marked(err error) operation { return func(context.Context) error { calls++; return err } }

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
