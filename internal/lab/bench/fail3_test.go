package bench

import (
	"context"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	cenkalti "github.com/cenkalti/backoff/v7"
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/googleapis/gax-go/v2"
	sethvargo "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gobackoff/backoff"
)

// BenchmarkFail3Zero is a call that fails three times, with no delay in
// between, and then succeeds. minimal takes every failure for transient;
// minimal-marked looks for a marker first, as all but eapache and k8s do.
func BenchmarkFail3Zero(b *testing.B) { benchmarkFail3(b, 0) }

// BenchmarkFail3 is BenchmarkFail3Zero with delays of 1 ns, so that it arms
// three timers.
func BenchmarkFail3(b *testing.B) { benchmarkFail3(b, 1) }

// pauseless is a gax.Retryer that waits always the same, which gax.Backoff
// cannot.
type pauseless time.Duration

func (p pauseless) Retry(error) (time.Duration, bool) { return time.Duration(p), true }

func awsPause(d time.Duration) awsretry.BackoffDelayer {
	return awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return d, nil })
}

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
	b.Run("backoff-byclass", func(b *testing.B) {
		ctx := start(b)
		n := 0
		p := policy
		p.ByClass = map[backoff.Class]backoff.ClassLimits{
			backoff.ClassUnknown: {Schedule: p.Schedule, MaxAttempts: attempts}, backoff.ClassThrottled: {MaxAttempts: 10},
		}
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
	fail3ByRetriers(b, delay)
}

func fail3ByRetriers(b *testing.B, delay time.Duration) {
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
	b.Run("eapache", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := eapache.New(eapache.ConstantBackoff(attempts-1, delay), nil)
		for b.Loop() {
			must(b, r.RunCtx(ctx, func(context.Context) error { n++; return third(n) }))
		}
		expect(b, n, 4)
	})
	fail3ByKits(b, delay)
}

func fail3ByKits(b *testing.B, delay time.Duration) {
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
	b.Run("aws", func(b *testing.B) {
		ctx := start(b)
		n := 0
		m := awsRetry(func(o *awsretry.StandardOptions) { o.Backoff = awsPause(delay) })
		for b.Loop() {
			_, _, err := m.HandleFinalize(ctx, awsInput{}, awsOperation(func(context.Context, awsInput) (out awsOutput, data awsMetadata, err error) {
				n++
				return out, data, third(n)
			}))
			must(b, err)
		}
		expect(b, n, 4)
	})
}
