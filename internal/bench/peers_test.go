package bench

import (
	"context"

	avast "github.com/avast/retry-go/v5"
	eapache "github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/googleapis/gax-go/v2"
	sethvargo "github.com/sethvargo/go-retry"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The peers' nearest to 4 attempts with delays of 100 ms, doubled up to 30 s, under
// full jitter.

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
