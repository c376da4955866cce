package presets

import (
	"cmp"
	"time"

	"github.com/gobackoff/backoff"
)

// Azcore is the Azure SDK for Go: min((2^n - 1) * 800 ms * U[0.8, 1.3), 60 s),
// n from 1, and 3 retries. The cap comes after the draw: from the 7th retry on
// every wait is exactly 60 s. If a server asks for a wait of more than 60 s the
// call ends, which is MaxRetryAfter here.
//
// Source: azcore, runtime/policy_retry.go. Its comment says random(0.8, 1.2);
// the code draws up to 1.3.
func Azcore() backoff.Policy {
	const most = time.Minute
	return backoff.Policy{
		MaxAttempts:   4,
		Schedule:      powersLessOne(2, 2, 800*time.Millisecond),
		Jitter:        backoff.UniformJitter(0.8, 1.3),
		MaxDelay:      most,
		MaxRetryAfter: most,
	}
}

// RetryableHTTP is DefaultBackoff of hashicorp/go-retryablehttp: min(30 s, 1 s
// * 2^n), n from 0, without jitter, and so exactly 30 s at the cap; 4 retries.
//
// Source: go-retryablehttp, client.go; measured with v0.7.8.
func RetryableHTTP() backoff.Policy {
	return exponential(5, time.Second, 30*time.Second, doubling, backoff.NoJitter)
}

// KubernetesDefault is retry.DefaultBackoff of client-go: 10 ms, times 5 with
// every retry, and 0 to 10 % more at random. Its Steps: 4 are attempts, so
// there are 3 waits. The delay stops growing after as many steps, at 6.25 s, to
// which the 10 % are added.
//
// Source: client-go, util/retry, and apimachinery, util/wait; measured with
// v0.37.2.
func KubernetesDefault() backoff.Policy {
	return exponential(4, 10*time.Millisecond, 6250*time.Millisecond, 5, backoff.UniformJitter(1, 1.1))
}

// Etcd is the retry interceptor of etcd's client v3: up to 100 attempts. It
// waits 25 ms +-10 % each time it has tried another quorum of the endpoints,
// n/2+1 of them, and does not wait in between. So it waits before every retry
// with one endpoint, which 0 means too, and before every second one with two or
// three. Nothing grows, so there is no cap.
//
// Source: etcd, client/v3, retry_interceptor.go.
func Etcd(endpoints int) backoff.Policy {
	quorum := max(endpoints, 0)/2 + 1
	return backoff.Policy{
		MaxAttempts: 100,
		Schedule: backoff.ScheduleFunc(func(retry int) time.Duration {
			if retry%quorum != 0 {
				return 0
			}
			return 25 * time.Millisecond
		}),
		Jitter: backoff.UniformJitter(0.9, 1.1),
	}
}

// Urllib3 is Retry(backoff_factor) of Python's urllib3: the first retry at
// once, then min(120 s, factor * 2^n), n from 1, without jitter; 10 retries. 0
// means 100 ms, as in the example of its documentation; urllib3's own default
// of 0 does not wait at all.
//
// backoff_jitter, off by default, is backoff.AddedJitter with a MaxDelay of 120
// s, since urllib3 caps the sum.
//
// Source: urllib3, util/retry.py.
func Urllib3(factor time.Duration) backoff.Policy {
	grown := backoff.Exponential{Initial: 2 * cmp.Or(factor, 100*time.Millisecond), Max: 120 * time.Second}
	return backoff.Policy{
		MaxAttempts: 11,
		Schedule:    backoff.ScheduleFunc(func(retry int) time.Duration { return grown.Delay(retry - 1) }),
		Jitter:      backoff.NoJitter,
	}
}

// Stripe is stripe-go: it waits 75 to 100 % of min(5 s, 500 ms * (1 + n^2)), n
// from 0, but not less than 500 ms; 2 retries. So the first wait is exactly 500
// ms, and at the cap the wait is 3.75 to 5 s.
//
// Source: stripe-go, BackendImplementation.sleepTime.
func Stripe() backoff.Policy {
	const least = 500 * time.Millisecond
	return backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Sequence(least, 2*least, 5*least, 10*least),
		Jitter: func(delay, prev time.Duration, u float64) time.Duration {
			return max(least, delay-backoff.FullJitter(delay/4, prev, u))
		},
	}
}
