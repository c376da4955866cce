package bench

import (
	"context"
	"testing"

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

// BenchmarkPermanent is a call that fails for good at once: with an error
// marked anew each time, and with a sentinel marked where it was declared or,
// for the peers that know errors by their identity, not marked at all.
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
	sentinelByRetriers(b)
}

func sentinelByRetriers(b *testing.B) {
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
	b.Run("eapache", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := eapache.New(eapache.LimitedExponentialBackoff(attempts-1, initial, limit), eapache.BlacklistClassifier{errDown})
		for b.Loop() {
			mustNot(b, r.RunCtx(ctx, func(context.Context) error { n++; return errDown }))
		}
		expect(b, n, 1)
	})
	sentinelByKits(b)
}

func sentinelByKits(b *testing.B) {
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
	b.Run("aws", func(b *testing.B) {
		ctx := start(b)
		n := 0
		m := awsRetry(func(o *awsretry.StandardOptions) {
			o.Retryables = awsRetryIf(func(err error) bool { return err != errDown })
		})
		for b.Loop() {
			_, _, err := m.HandleFinalize(ctx, awsInput{}, awsOperation(func(context.Context, awsInput) (out awsOutput, data awsMetadata, err error) {
				n++
				return out, data, errDown
			}))
			mustNot(b, err)
		}
		expect(b, n, 1)
	})
}
