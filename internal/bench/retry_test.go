package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/gobackoff/backoff"
	"github.com/googleapis/gax-go/v2"
	sethvargo "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"
)

// BenchmarkFail3Zero is a call that fails three times, with no delay in between, and
// then succeeds. minimal takes every failure for transient; minimal-marked looks for
// a marker first, as all but eapache and k8s do.
func BenchmarkFail3Zero(b *testing.B) { benchmarkFail3(b, 0) }

// BenchmarkFail3 is BenchmarkFail3Zero with delays of 1 ns, so that it arms three
// timers.
func BenchmarkFail3(b *testing.B) { benchmarkFail3(b, 1) }

// pauseless is a gax.Retryer that waits always the same, which gax.Backoff cannot.
type pauseless time.Duration

func (p pauseless) Retry(error) (time.Duration, bool) { return time.Duration(p), true }

// A third says how the n-th call of an operation ends: every fourth succeeds.
func third(n int) error {
	if n%4 != 0 {
		return errDown
	}
	return nil
}

func benchmarkFail3(b *testing.B, delay time.Duration) {
	flat := minimal{attempts: attempts, initial: delay, flat: true}
	policy := backoff.Policy{Schedule: backoff.Constant(delay)}
	if delay > 0 {
		policy.Jitter = backoff.NoJitter // full jitter of 1 ns is 0
	}
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			must(b, flat.do(ctx, func(context.Context) error { n++; return third(n) }))
		}
		expect(b, n, 4)
	})
	b.Run("minimal-marked", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			must(b, flat.doMarked(ctx, func(context.Context) error { n++; return third(n) }))
		}
		expect(b, n, 4)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		n := 0
		p := policy
		for b.Loop() {
			must(b, p.Do(ctx, func(context.Context) error { n++; return third(n) }))
		}
		expect(b, n, 4)
	})
	b.Run("backoff-range", func(b *testing.B) {
		ctx := start(b)
		n := 0
		p := policy
		for b.Loop() {
			r := p.Start(ctx)
			for range r.Attempts() {
				n++
				if err := third(n); err != nil {
					r.Fail(err)
					continue
				}
				break
			}
			must(b, r.Err())
		}
		expect(b, n, 4)
	})
	b.Run("cenkalti", func(b *testing.B) {
		ctx := start(b)
		n := 0
		opts := []cenkalti.RetryOption{cenkalti.WithMaxTries(attempts), cenkalti.WithBackOff(cenkalti.NewConstantBackOff(delay))}
		for b.Loop() {
			_, err := cenkalti.Retry(ctx, func() (struct{}, error) { n++; return struct{}{}, third(n) }, opts...)
			must(b, err)
		}
		expect(b, n, 4)
	})
	b.Run("avast", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := avast.New(avast.Context(ctx), avast.Attempts(attempts), avast.Delay(delay),
			avast.DelayType(avast.FixedDelay), avast.LastErrorOnly(true))
		for b.Loop() {
			must(b, r.Do(func() error { n++; return third(n) }))
		}
		expect(b, n, 4)
	})
	b.Run("sethvargo", func(b *testing.B) {
		ctx := start(b)
		n := 0
		constant := sethvargo.BackoffFunc(func() (time.Duration, bool) { return delay, false })
		down := sethvargo.RetryableError(errDown)
		for b.Loop() {
			must(b, sethvargo.Do(ctx, sethvargo.WithMaxRetries(attempts-1, constant), func(context.Context) error {
				n++
				if third(n) != nil {
					return down
				}
				return nil
			}))
		}
		expect(b, n, 4)
	})
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		n := 0
		f := retrypolicy.NewBuilder[any]().WithMaxAttempts(attempts).WithDelay(delay).Build()
		e := failsafe.With(f).WithContext(ctx)
		for b.Loop() {
			must(b, e.Run(func() error { n++; return third(n) }))
		}
		expect(b, n, 4)
	})
	b.Run("eapache", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := eapache.New(eapache.ConstantBackoff(attempts-1, delay), nil)
		for b.Loop() {
			must(b, r.RunCtx(ctx, func(context.Context) error { n++; return third(n) }))
		}
		expect(b, n, 4)
	})
	b.Run("gax", func(b *testing.B) {
		ctx := start(b)
		n := 0
		opt := gax.WithRetry(func() gax.Retryer { return pauseless(delay) })
		for b.Loop() {
			must(b, gax.Invoke(ctx, func(context.Context, gax.CallSettings) error { n++; return third(n) }, opt))
		}
		expect(b, n, 4)
	})
	b.Run("k8s", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			must(b, wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: delay, Steps: attempts}, func(context.Context) (bool, error) {
				n++
				return third(n) == nil, nil
			}))
		}
		expect(b, n, 4)
	})
}

// BenchmarkPermanent is a call that fails for good at once: with an error marked
// anew each time, and with a sentinel marked where it was declared or, for the peers
// that know errors by their identity, not marked at all.
func BenchmarkPermanent(b *testing.B) {
	b.Run("new", benchmarkPermanentNew)
	b.Run("sentinel", benchmarkPermanentSentinel)
}

func benchmarkPermanentNew(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			mustNot(b, standard.doMarked(ctx, func(context.Context) error { n++; return &mark{errDown} }))
		}
		expect(b, n, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		n := 0
		var p backoff.Policy
		for b.Loop() {
			mustNot(b, p.Do(ctx, func(context.Context) error { n++; return backoff.Permanent(errDown) }))
		}
		expect(b, n, 1)
	})
	b.Run("cenkalti", func(b *testing.B) {
		ctx := start(b)
		n := 0
		opts := []cenkalti.RetryOption{cenkalti.WithMaxTries(attempts)}
		for b.Loop() {
			_, err := cenkalti.Retry(ctx, func() (struct{}, error) { n++; return struct{}{}, cenkalti.Permanent(errDown) }, opts...)
			mustNot(b, err)
		}
		expect(b, n, 1)
	})
	b.Run("avast", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := avast.New(avastOptions(ctx)...)
		for b.Loop() {
			mustNot(b, r.Do(func() error { n++; return avast.Unrecoverable(errDown) }))
		}
		expect(b, n, 1)
	})
}

func benchmarkPermanentSentinel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		n := 0
		down := error(&mark{errDown})
		for b.Loop() {
			mustNot(b, standard.doMarked(ctx, func(context.Context) error { n++; return down }))
		}
		expect(b, n, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		n := 0
		down := backoff.Permanent(errDown)
		var p backoff.Policy
		for b.Loop() {
			mustNot(b, p.Do(ctx, func(context.Context) error { n++; return down }))
		}
		expect(b, n, 1)
	})
	b.Run("backoff-classifier", func(b *testing.B) {
		ctx := start(b)
		n := 0
		p := backoff.Policy{Classify: backoff.RetryIf(func(err error) bool { return err != errDown })}
		for b.Loop() {
			mustNot(b, p.Do(ctx, func(context.Context) error { n++; return errDown }))
		}
		expect(b, n, 1)
	})
	b.Run("cenkalti", func(b *testing.B) {
		ctx := start(b)
		n := 0
		opts := []cenkalti.RetryOption{cenkalti.WithMaxTries(attempts)}
		down := cenkalti.Permanent(errDown)
		for b.Loop() {
			_, err := cenkalti.Retry(ctx, func() (struct{}, error) { n++; return struct{}{}, down }, opts...)
			mustNot(b, err)
		}
		expect(b, n, 1)
	})
	b.Run("avast", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := avast.New(avastOptions(ctx)...)
		down := avast.Unrecoverable(errDown)
		for b.Loop() {
			mustNot(b, r.Do(func() error { n++; return down }))
		}
		expect(b, n, 1)
	})
	b.Run("sethvargo", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			mustNot(b, sethvargo.Do(ctx, sethvargoBackoff(), func(context.Context) error { n++; return errDown }))
		}
		expect(b, n, 1)
	})
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		n := 0
		policy := retrypolicy.NewBuilder[any]().WithMaxAttempts(attempts).WithBackoff(initial, limit).AbortOnErrors(errDown).Build()
		e := failsafe.With(policy).WithContext(ctx)
		for b.Loop() {
			mustNot(b, e.Run(func() error { n++; return errDown }))
		}
		expect(b, n, 1)
	})
	b.Run("eapache", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := eapache.New(eapache.LimitedExponentialBackoff(attempts-1, initial, limit), eapache.BlacklistClassifier{errDown})
		for b.Loop() {
			mustNot(b, r.RunCtx(ctx, func(context.Context) error { n++; return errDown }))
		}
		expect(b, n, 1)
	})
	b.Run("gax", func(b *testing.B) {
		ctx := start(b)
		n := 0
		opt := gax.WithRetry(func() gax.Retryer {
			return gax.OnErrorFunc(gax.Backoff{Initial: initial, Max: limit}, func(err error) bool { return err != errDown })
		})
		for b.Loop() {
			mustNot(b, gax.Invoke(ctx, func(context.Context, gax.CallSettings) error { n++; return errDown }, opt))
		}
		expect(b, n, 1)
	})
	b.Run("k8s", func(b *testing.B) {
		ctx := start(b)
		n := 0
		for b.Loop() {
			mustNot(b, wait.ExponentialBackoffWithContext(ctx, k8sBackoff, func(context.Context) (bool, error) { n++; return false, errDown }))
		}
		expect(b, n, 1)
	})
}

// BenchmarkExhausted is a call that fails at both of two attempts, with no delay in
// between, for the price of the error that says so. matched: and of asking that error,
// by errors.Is, for the operation's own. gax has no limit, k8s drops the
// operation's error, sethvargo and eapache return it as it is.
func BenchmarkExhausted(b *testing.B) {
	b.Run("made", func(b *testing.B) { benchmarkExhausted(b, mustNot) })
	b.Run("matched", func(b *testing.B) {
		benchmarkExhausted(b, func(b *testing.B, err error) {
			if !errors.Is(err, errDown) {
				b.Fatal(err)
			}
		})
	})
}

func benchmarkExhausted(b *testing.B, see func(*testing.B, error)) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		n := 0
		m := minimal{attempts: 2, flat: true}
		for b.Loop() {
			see(b, m.doExhausted(ctx, func(context.Context) error { n++; return errDown }))
		}
		expect(b, n, 2)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		n := 0
		p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)}
		for b.Loop() {
			see(b, p.Do(ctx, func(context.Context) error { n++; return errDown }))
		}
		expect(b, n, 2)
	})
	b.Run("cenkalti", func(b *testing.B) {
		ctx := start(b)
		n := 0
		opts := []cenkalti.RetryOption{cenkalti.WithMaxTries(2), cenkalti.WithBackOff(cenkalti.NewConstantBackOff(0))}
		for b.Loop() {
			_, err := cenkalti.Retry(ctx, func() (struct{}, error) { n++; return struct{}{}, errDown }, opts...)
			see(b, err)
		}
		expect(b, n, 2)
	})
	b.Run("avast", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := avast.New(avast.Context(ctx), avast.Attempts(2), avast.Delay(0), avast.DelayType(avast.FixedDelay))
		for b.Loop() {
			see(b, r.Do(func() error { n++; return errDown }))
		}
		expect(b, n, 2)
	})
	b.Run("sethvargo", func(b *testing.B) {
		ctx := start(b)
		n := 0
		constant := sethvargo.BackoffFunc(func() (time.Duration, bool) { return 0, false })
		down := sethvargo.RetryableError(errDown)
		for b.Loop() {
			see(b, sethvargo.Do(ctx, sethvargo.WithMaxRetries(1, constant), func(context.Context) error { n++; return down }))
		}
		expect(b, n, 2)
	})
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		n := 0
		e := failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(2).Build()).WithContext(ctx)
		for b.Loop() {
			see(b, e.Run(func() error { n++; return errDown }))
		}
		expect(b, n, 2)
	})
	b.Run("eapache", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := eapache.New(eapache.ConstantBackoff(1, 0), nil)
		for b.Loop() {
			see(b, r.RunCtx(ctx, func(context.Context) error { n++; return errDown }))
		}
		expect(b, n, 2)
	})
}
