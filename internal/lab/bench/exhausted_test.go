package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	cenkalti "github.com/cenkalti/backoff/v7"
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/gobackoff/backoff"
)

// BenchmarkExhausted is a call that fails at both of two attempts, with no
// delay in between, for the price of the error that says so. matched: and of
// asking that error, by errors.Is, for the operation's own. gax has no limit,
// k8s drops the operation's error, sethvargo and eapache return it as it is.
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
	exhaustedByRetriers(b, see)
}

func exhaustedByRetriers(b *testing.B, see func(*testing.B, error)) {
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
	b.Run("eapache", func(b *testing.B) {
		ctx := start(b)
		n := 0
		r := eapache.New(eapache.ConstantBackoff(1, 0), nil)
		for b.Loop() {
			see(b, r.RunCtx(ctx, func(context.Context) error { n++; return errDown }))
		}
		expect(b, n, 2)
	})
	exhaustedByKits(b, see)
}

func exhaustedByKits(b *testing.B, see func(*testing.B, error)) {
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		n := 0
		e := failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(2).Build()).WithContext(ctx)
		for b.Loop() {
			see(b, e.Run(func() error { n++; return errDown }))
		}
		expect(b, n, 2)
	})
	b.Run("aws", func(b *testing.B) {
		ctx := start(b)
		n := 0
		m := awsRetry(func(o *awsretry.StandardOptions) { o.MaxAttempts, o.Backoff = 2, awsPause(0) })
		for b.Loop() {
			_, _, err := m.HandleFinalize(ctx, awsInput{}, awsOperation(func(context.Context, awsInput) (out awsOutput, data awsMetadata, err error) {
				n++
				return out, data, errDown
			}))
			see(b, err)
		}
		expect(b, n, 2)
	})
}
