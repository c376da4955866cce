package bench

import (
	"context"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	cenkalti "github.com/cenkalti/backoff/v7"
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/googleapis/gax-go/v2"
	sethvargo "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"
)

type operation = func(context.Context) error

// A loop says how a peer retries.
type loop struct {
	attempts int
	pause    time.Duration // the same before each retry; exponential: 100 ms, doubled up to 30 s, with jitter
	final    bool          // whether errors of the operation are permanent
}

const exponential = time.Duration(-1)

func (l loop) retryable(error) bool { return !l.final }

// peers are the loops of other libraries. gax has no limit of attempts, and k8s drops the
// operation's error.
var peers = []struct {
	name    string
	prepare func(context.Context, loop, operation) (call func() error)
}{
	{"cenkalti", byCenkalti},
	{"avast", byAvast},
	{"avast-ctx", byAvastWithContext},
	{"sethvargo", bySethvargo},
	{"eapache", byEapache},
	{"failsafe", byFailsafe},
	{"gax", byGax},
	{"k8s", byK8s},
	{"aws", byAWS},
}

// comparePeers measures a loop around op, which is called each times in a call.
func comparePeers(b *testing.B, l loop, op operation, each int, see func(*testing.B, error), without ...string) {
	for _, p := range peers {
		if len(without) > 0 && (p.name == without[0] || p.name == without[len(without)-1]) {
			continue
		}
		b.Run(p.name, func(b *testing.B) {
			call := p.prepare(start(b), l, op)
			for b.Loop() {
				see(b, call())
			}
			expect(b, calls, each)
		})
	}
}

func byCenkalti(ctx context.Context, l loop, op operation) func() error {
	options := []cenkalti.RetryOption{cenkalti.WithMaxTries(uint(l.attempts)), cenkalti.WithMaxElapsedTime(0)}
	if l.pause != exponential {
		options = append(options, cenkalti.WithBackOff(cenkalti.NewConstantBackOff(l.pause)))
	}
	permanent := cenkalti.Permanent(errDown)
	one := func() (struct{}, error) {
		err := op(ctx)
		if err != nil && l.final {
			err = permanent
		}
		return struct{}{}, err
	}
	return func() error {
		_, err := cenkalti.Retry(ctx, one, options...)
		return err
	}
}

func avastOptions(ctx context.Context, l loop) []avast.Option {
	options := []avast.Option{avast.Context(ctx), avast.Attempts(uint(l.attempts)), avast.RetryIf(l.retryable), avast.LastErrorOnly(true)}
	if l.pause == exponential {
		return append(options, avast.Delay(initial), avast.MaxDelay(limit), avast.DelayType(avast.FullJitterBackoffDelay))
	}
	return append(options, avast.Delay(l.pause), avast.DelayType(avast.FixedDelay))
}

func byAvast(ctx context.Context, l loop, op operation) func() error {
	r := avast.New(avastOptions(ctx, l)...)
	one := func() error { return op(ctx) }
	return func() error { return r.Do(one) }
}

func byAvastWithContext(ctx context.Context, l loop, op operation) func() error {
	one := func() error { return op(ctx) }
	return func() error { return avast.New(avastOptions(ctx, l)...).Do(one) }
}

// bySethvargo makes a Backoff for each call, because it counts.
func bySethvargo(ctx context.Context, l loop, op operation) func() error {
	down := sethvargo.RetryableError(errDown)
	one := func(ctx context.Context) error {
		err := op(ctx)
		if err != nil && !l.final {
			err = down
		}
		return err
	}
	return func() error {
		next := sethvargo.Backoff(sethvargo.BackoffFunc(func() (time.Duration, bool) { return l.pause, false }))
		if l.pause == exponential {
			next = sethvargo.WithFullJitter(sethvargo.WithCappedDuration(limit, sethvargo.NewExponential(initial)))
		}
		return sethvargo.Do(ctx, sethvargo.WithMaxRetries(uint64(l.attempts-1), next), one)
	}
}

func eapacheRetrier(l loop) *eapache.Retrier {
	pauses := eapache.ConstantBackoff(l.attempts-1, l.pause)
	if l.pause == exponential {
		pauses = eapache.LimitedExponentialBackoff(l.attempts-1, initial, limit)
	}
	var classify eapache.Classifier
	if l.final {
		classify = eapache.BlacklistClassifier{errDown}
	}
	r := eapache.New(pauses, classify)
	if l.pause == exponential {
		r.SetJitter(0.5)
	}
	return r
}

func byEapache(ctx context.Context, l loop, op operation) func() error {
	r := eapacheRetrier(l)
	return func() error { return r.RunCtx(ctx, op) }
}

func failsafePolicy[T any](l loop) retrypolicy.Builder[T] {
	builder := retrypolicy.NewBuilder[T]().WithMaxAttempts(l.attempts)
	if l.final {
		builder = builder.AbortOnErrors(errDown)
	}
	if l.pause == exponential {
		return builder.WithBackoff(initial, limit).WithJitterFactor(0.5)
	}
	return builder.WithDelay(l.pause)
}

func byFailsafe(ctx context.Context, l loop, op operation) func() error {
	executor := failsafe.With(failsafePolicy[any](l).Build()).WithContext(ctx)
	one := func() error { return op(ctx) }
	return func() error { return executor.Run(one) }
}

// pauseless is a gax.Retryer that always waits the same, which gax.Backoff cannot.
type pauseless time.Duration

func (p pauseless) Retry(error) (time.Duration, bool) { return time.Duration(p), true }

func byGax(ctx context.Context, l loop, op operation) func() error {
	option := gax.WithRetry(func() gax.Retryer {
		if l.pause == exponential {
			return gax.OnErrorFunc(gax.Backoff{Initial: initial, Max: limit}, l.retryable)
		}
		return pauseless(l.pause)
	})
	one := func(ctx context.Context, _ gax.CallSettings) error { return op(ctx) }
	return func() error { return gax.Invoke(ctx, one, option) }
}

var k8sBackoff = wait.Backoff{Duration: initial, Factor: 2, Jitter: 1, Steps: attempts, Cap: limit}

func byK8s(ctx context.Context, l loop, op operation) func() error {
	pauses := wait.Backoff{Duration: l.pause, Steps: l.attempts}
	if l.pause == exponential {
		pauses = k8sBackoff
	}
	one := func(ctx context.Context) (bool, error) {
		err := op(ctx)
		if l.final {
			return err == nil, err
		}
		return err == nil, nil
	}
	return func() error { return wait.ExponentialBackoffWithContext(ctx, pauses, one) }
}

// byAWS is the loop of the AWS SDK's clients, without its quota, and without its search for wrong
// clocks. Its first delays are up to 1, 2 and 4 s.
func byAWS(ctx context.Context, l loop, op operation) func() error {
	standard := awsretry.NewStandard(func(o *awsretry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff, o.RateLimiter = l.attempts, limit, ratelimit.None
		o.Retryables = []awsretry.IsErrorRetryable{awsretry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			return aws.BoolTernary(l.retryable(err))
		})}
		if l.pause != exponential {
			o.Backoff = awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return l.pause, nil })
		}
	})
	same := func(request any) any { return request }
	attempt := awsretry.NewAttemptMiddleware(standard, same, func(a *awsretry.Attempt) { a.DisableClockSkewCorrection = true })
	one := middleware.FinalizeHandlerFunc(func(ctx context.Context, _ middleware.FinalizeInput) (out middleware.FinalizeOutput, data middleware.Metadata, err error) {
		return out, data, op(ctx)
	})
	return func() error {
		_, _, err := attempt.HandleFinalize(ctx, middleware.FinalizeInput{}, one)
		return err
	}
}
