package bench

import (
	"context"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/gobackoff/backoff"
	"github.com/googleapis/gax-go/v2"
	lestrrat "github.com/lestrrat-go/backoff/v2"
	sethvargo "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"
)

// BenchmarkDoSuccess is a call that succeeds at once, under the defaults: 4
// attempts, 100 ms doubled up to 30 s, jittered.
//
// func: the operation captures nothing. closure: it captures three variables,
// one of which it writes. configured: that closure, under a policy with a
// schedule and a jitter of its own; backoff-budget has a RetryBudget instead.
func BenchmarkDoSuccess(b *testing.B) {
	b.Run("func", benchmarkFunc)
	b.Run("closure", benchmarkClosure)
	b.Run("configured", benchmarkConfigured)
}

func benchmarkFunc(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		for b.Loop() {
			must(b, standard.do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		var p backoff.Policy
		for b.Loop() {
			must(b, p.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	funcByRetriers(b)
}

func funcByRetriers(b *testing.B) {
	b.Run("cenkalti", func(b *testing.B) {
		ctx := start(b)
		opts := []cenkalti.RetryOption{cenkalti.WithMaxTries(attempts)}
		op := func() (struct{}, error) { calls++; return struct{}{}, nil }
		for b.Loop() {
			_, err := cenkalti.Retry(ctx, op, opts...)
			must(b, err)
		}
		expect(b, calls, 1)
	})
	b.Run("avast", func(b *testing.B) {
		ctx := start(b)
		r := avast.New(avastOptions(ctx)...)
		op := func() error { calls++; return nil }
		for b.Loop() {
			must(b, r.Do(op))
		}
		expect(b, calls, 1)
	})
	b.Run("avast-ctx", func(b *testing.B) {
		ctx := start(b)
		op := func() error { calls++; return nil }
		for b.Loop() {
			must(b, avast.New(avastOptions(ctx)...).Do(op))
		}
		expect(b, calls, 1)
	})
	b.Run("sethvargo", func(b *testing.B) {
		ctx := start(b)
		for b.Loop() {
			must(b, sethvargo.Do(ctx, sethvargoBackoff(), succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("eapache", func(b *testing.B) {
		ctx := start(b)
		r := eapacheRetrier()
		for b.Loop() {
			must(b, r.RunCtx(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("lestrrat", func(b *testing.B) {
		ctx := start(b)
		policy := lestrratPolicy()
		for b.Loop() {
			ctx, cancel := context.WithCancel(ctx) // the goroutine of the call ends with it
			for c := policy.Start(ctx); lestrrat.Continue(c); {
				if succeed(ctx) == nil {
					break
				}
			}
			cancel()
		}
		expect(b, calls, 1)
	})
	funcByKits(b)
}

func funcByKits(b *testing.B) {
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		e := failsafe.With(failsafePolicy[any]()).WithContext(ctx)
		op := func() error { calls++; return nil }
		for b.Loop() {
			must(b, e.Run(op))
		}
		expect(b, calls, 1)
	})
	b.Run("gax", func(b *testing.B) {
		ctx := start(b)
		opt := gaxOption()
		op := func(context.Context, gax.CallSettings) error { calls++; return nil }
		for b.Loop() {
			must(b, gax.Invoke(ctx, op, opt))
		}
		expect(b, calls, 1)
	})
	b.Run("k8s", func(b *testing.B) {
		ctx := start(b)
		op := func(context.Context) (bool, error) { calls++; return true, nil }
		for b.Loop() {
			must(b, wait.ExponentialBackoffWithContext(ctx, k8sBackoff, op))
		}
		expect(b, calls, 1)
	})
	b.Run("aws", func(b *testing.B) {
		ctx := start(b)
		m := awsRetry()
		op := awsOperation(func(_ context.Context, _ awsInput) (out awsOutput, data awsMetadata, err error) {
			calls++
			return out, data, nil
		})
		for b.Loop() {
			_, _, err := m.HandleFinalize(ctx, awsInput{}, op)
			must(b, err)
		}
		expect(b, calls, 1)
	})
}

func benchmarkClosure(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		for b.Loop() {
			must(b, standard.do(ctx, func(context.Context) error { n++; out = n + in; return nil }))
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		var p backoff.Policy
		for b.Loop() {
			must(b, p.Do(ctx, func(context.Context) error { n++; out = n + in; return nil }))
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	closureByRetriers(b)
}

func closureByRetriers(b *testing.B) {
	b.Run("cenkalti", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		opts := []cenkalti.RetryOption{cenkalti.WithMaxTries(attempts)}
		for b.Loop() {
			_, err := cenkalti.Retry(ctx, func() (struct{}, error) { n++; out = n + in; return struct{}{}, nil }, opts...)
			must(b, err)
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	b.Run("avast", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		r := avast.New(avastOptions(ctx)...)
		for b.Loop() {
			must(b, r.Do(func() error { n++; out = n + in; return nil }))
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	b.Run("sethvargo", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		for b.Loop() {
			must(b, sethvargo.Do(ctx, sethvargoBackoff(), func(context.Context) error { n++; out = n + in; return nil }))
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	b.Run("eapache", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		r := eapacheRetrier()
		for b.Loop() {
			must(b, r.RunCtx(ctx, func(context.Context) error { n++; out = n + in; return nil }))
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	closureByKits(b)
}

func closureByKits(b *testing.B) {
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		e := failsafe.With(failsafePolicy[any]()).WithContext(ctx)
		for b.Loop() {
			must(b, e.Run(func() error { n++; out = n + in; return nil }))
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	b.Run("gax", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		opt := gaxOption()
		for b.Loop() {
			must(b, gax.Invoke(ctx, func(context.Context, gax.CallSettings) error { n++; out = n + in; return nil }, opt))
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	b.Run("k8s", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		for b.Loop() {
			must(b, wait.ExponentialBackoffWithContext(ctx, k8sBackoff, func(context.Context) (bool, error) {
				n++
				out = n + in
				return true, nil
			}))
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	b.Run("aws", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		m := awsRetry()
		for b.Loop() {
			_, _, err := m.HandleFinalize(ctx, awsInput{}, awsOperation(func(_ context.Context, _ awsInput) (o awsOutput, d awsMetadata, err error) {
				n++
				out = n + in
				return o, d, nil
			}))
			must(b, err)
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
}

func benchmarkConfigured(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		n, in, out := 0, 1, 0
		m := minimal{attempts: attempts, initial: time.Second, limit: time.Minute}
		for b.Loop() {
			must(b, m.do(ctx, func(context.Context) error { n++; out = n + in; return nil }))
		}
		expect(b, n, 1)
		expect(b, out-1, 1)
	})
	for _, c := range []struct {
		name   string
		policy backoff.Policy
	}{
		{"backoff", backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second, Max: time.Minute}, Jitter: backoff.FullJitter}},
		{"backoff-equal", backoff.Policy{Schedule: backoff.Exponential{Multiplier: 1.5}, Jitter: backoff.EqualJitter}},
		{"backoff-uniform", backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.UniformJitter(0.8, 1.2)}},
		{"backoff-sequence", backoff.Policy{Schedule: backoff.Sequence(time.Second, 2*time.Second, 5*time.Second)}},
		{"backoff-decorrelated", backoff.Policy{Jitter: backoff.DecorrelatedJitter(time.Second, time.Minute)}},
		{"backoff-func", backoff.Policy{Schedule: backoff.ScheduleFunc(func(int) time.Duration { return time.Second })}},
		{"backoff-budget", backoff.Policy{Budget: &backoff.RetryBudget{}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx := start(b)
			n, in, out := 0, 1, 0
			p := c.policy
			for b.Loop() {
				must(b, p.Do(ctx, func(context.Context) error { n++; out = n + in; return nil }))
			}
			expect(b, n, 1)
			expect(b, out-1, 1)
		})
	}
}

// BenchmarkDoValueSuccess is BenchmarkDoSuccess/closure for an operation that
// returns a value. eapache, gax and k8s have nothing of the kind; aws has a
// field of type any.
func BenchmarkDoValueSuccess(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			v, err := minimalValue(ctx, &standard, func(context.Context) (int, error) { n++; return n, nil })
			must(b, err)
			calls += v - n + 1
		}
		expect(b, n, 1)
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
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
	})
	valueByRetriers(b)
}

func valueByRetriers(b *testing.B) {
	b.Run("cenkalti", func(b *testing.B) {
		ctx := start(b)
		n := 0
		opts := []cenkalti.RetryOption{cenkalti.WithMaxTries(attempts)}
		for b.Loop() {
			v, err := cenkalti.Retry(ctx, func() (int, error) { n++; return n, nil }, opts...)
			must(b, err)
			calls += v - n + 1
		}
		expect(b, n, 1)
		expect(b, calls, 1)
	})
	b.Run("avast", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := avast.NewWithData[int](avastOptions(ctx)...)
		for b.Loop() {
			v, err := r.Do(func() (int, error) { n++; return n, nil })
			must(b, err)
			calls += v - n + 1
		}
		expect(b, n, 1)
		expect(b, calls, 1)
	})
	b.Run("avast-ctx", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			v, err := avast.NewWithData[int](avastOptions(ctx)...).Do(func() (int, error) { n++; return n, nil })
			must(b, err)
			calls += v - n + 1
		}
		expect(b, n, 1)
		expect(b, calls, 1)
	})
	b.Run("sethvargo", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			v, err := sethvargo.DoValue(ctx, sethvargoBackoff(), func(context.Context) (int, error) { n++; return n, nil })
			must(b, err)
			calls += v - n + 1
		}
		expect(b, n, 1)
		expect(b, calls, 1)
	})
	valueByKits(b)
}

func valueByKits(b *testing.B) {
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		n := 0
		e := failsafe.With(failsafePolicy[int]()).WithContext(ctx)
		for b.Loop() {
			v, err := e.Get(func() (int, error) { n++; return n, nil })
			must(b, err)
			calls += v - n + 1
		}
		expect(b, n, 1)
		expect(b, calls, 1)
	})
	b.Run("aws", func(b *testing.B) {
		ctx := start(b)
		n := 0
		m := awsRetry()
		for b.Loop() {
			out, _, err := m.HandleFinalize(ctx, awsInput{}, awsOperation(func(context.Context, awsInput) (o awsOutput, d awsMetadata, err error) {
				n++
				return awsOutput{Result: n}, d, nil
			}))
			must(b, err)
			calls += out.Result.(int) - n + 1
		}
		expect(b, n, 1)
		expect(b, calls, 1)
	})
}

// BenchmarkLoopSuccess is the range loop, left at the first attempt; the floor
// is the same loop written out. No peer has one.
func BenchmarkLoopSuccess(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			must(b, writtenOut(ctx, &standard, &n))
		}
		expect(b, n, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		n := 0
		var p backoff.Policy
		for b.Loop() {
			must(b, ranged(ctx, &p, &n))
		}
		expect(b, n, 1)
	})
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
	for range r.Attempts() {
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
