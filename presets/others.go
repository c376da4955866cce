package presets

import (
	"time"

	"github.com/gobackoff/backoff"
)

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
