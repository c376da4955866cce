package bench

import (
	"context"
	"math/rand/v2"

	avast "github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/googleapis/gax-go/v2"
	lestrrat "github.com/lestrrat-go/backoff/v2"
	sethvargo "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The peers' nearest to 4 attempts with delays of 100 ms, doubled up to 30 s,
// under full jitter.

func avastOptions(ctx context.Context) []avast.Option {
	return []avast.Option{avast.Context(ctx), avast.Attempts(attempts), avast.Delay(initial),
		avast.MaxDelay(limit), avast.DelayType(avast.FullJitterBackoffDelay), avast.LastErrorOnly(true)}
}

// sethvargoBackoff counts, so each call needs its own.
func sethvargoBackoff() sethvargo.Backoff {
	return sethvargo.WithMaxRetries(attempts-1, sethvargo.WithFullJitter(
		sethvargo.WithCappedDuration(limit, sethvargo.NewExponential(initial))))
}

func failsafePolicy[T any]() retrypolicy.RetryPolicy[T] {
	return retrypolicy.NewBuilder[T]().WithMaxAttempts(attempts).WithBackoff(initial, limit).WithJitterFactor(0.5).Build()
}

func eapacheRetrier() *eapache.Retrier {
	r := eapache.New(eapache.LimitedExponentialBackoff(attempts-1, initial, limit), nil)
	r.SetJitter(0.5)
	return r
}

// gaxOption has no limit of attempts: gax has none.
func gaxOption() gax.CallOption {
	return gax.WithRetry(func() gax.Retryer {
		return gax.OnErrorFunc(gax.Backoff{Initial: initial, Max: limit}, func(error) bool { return true })
	})
}

var k8sBackoff = wait.Backoff{Duration: initial, Factor: 2, Jitter: 1, Steps: attempts, Cap: limit}

type (
	awsInput     = middleware.FinalizeInput
	awsOutput    = middleware.FinalizeOutput
	awsMetadata  = middleware.Metadata
	awsOperation = middleware.FinalizeHandlerFunc
)

// awsRetry is the loop of the AWS SDK's clients, without its quota, and without
// its search for clocks that are wrong. Its first delays are up to 1, 2 and 4
// s.
func awsRetry(options ...func(*awsretry.StandardOptions)) *awsretry.Attempt {
	ours := func(o *awsretry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff, o.RateLimiter = attempts, limit, ratelimit.None
		o.Retryables = awsRetryIf(func(error) bool { return true })
	}
	standard := awsretry.NewStandard(append([]func(*awsretry.StandardOptions){ours}, options...)...)
	same := func(request any) any { return request }
	return awsretry.NewAttemptMiddleware(standard, same, func(a *awsretry.Attempt) { a.DisableClockSkewCorrection = true })
}

func awsRetryIf(retryable func(error) bool) []awsretry.IsErrorRetryable {
	return []awsretry.IsErrorRetryable{awsretry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		return aws.BoolTernary(retryable(err))
	})}
}

func lestrratPolicy() *lestrrat.ExponentialPolicy {
	return lestrrat.NewExponentialPolicy(lestrratOptions(globalRand{})...)
}

func lestrratOptions(r lestrrat.Random) []lestrrat.ExponentialOption {
	return []lestrrat.ExponentialOption{lestrrat.WithMinInterval(initial), lestrrat.WithMaxInterval(limit),
		lestrrat.WithMultiplier(2), lestrrat.WithJitterFactor(0.5), lestrrat.WithRNG(r)}
}

// globalRand spares lestrrat to seed a generator for each call.
type globalRand struct{}

func (globalRand) Float64() float64 { return rand.Float64() }
