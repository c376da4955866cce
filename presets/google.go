package presets

import (
	"cmp"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/shape"
)

// IoTCore waits min(2^n s + k ms, maximum), n from 0, where k is an integer
// from 0 to 1000 that is drawn for every wait. maximum is 32 s, which 0 means,
// or 64 s; it must not be below 1 s.
//
// The maximum bounds the sum, so no jitter is left when 2^n s reaches it: from
// the 6th retry on (32 s), or from the 7th on (64 s), every client waits
// exactly the maximum, and clients that failed together stay together. New
// designs should use the zero backoff.Policy.
//
// The document wants a maximum number of retries and names none. For more than
// the library's 4 attempts set MaxAttempts; -1 retries at the maximum forever.
//
// Source: Google Cloud IoT Core, "Implementing exponential backoff".
func IoTCore(maximum time.Duration) backoff.Policy {
	maximum = cmp.Or(maximum, 32*time.Second)
	jitter := added(time.Second, time.Millisecond)
	return capped(maximum, exponential(0, time.Second, maximum, doubling, jitter))
}

// GCloud is gcloud storage with its four properties: min(baseRetryDelay *
// exponentialSleepMultiplier^n + U(0, 1 s), maxRetryDelay), n from 0. As in
// [IoTCore], the cap bounds the sum and leaves no jitter: by default from the
// 6th retry on.
//
// 0 means the default of each: 1 s, 2, 32, 32 s. A negative maxRetries or
// maxRetryDelay means no limit. Validate refuses a maxRetryDelay below
// baseRetryDelay. For no retries at all, set MaxAttempts to 1. Several named
// configurations are several policies.
//
// Source: Cloud Storage, "Retry strategy", which gives 32 as the number of
// retries. The code of the Google Cloud SDK has 23 retries, and 32 s as the
// longest delay: that is GCloud(0, 0, 23, 0). Its max_wait, not set by default,
// is MaxElapsed.
func GCloud(baseRetryDelay time.Duration, exponentialSleepMultiplier float64, maxRetries int, maxRetryDelay time.Duration) backoff.Policy {
	most, requests := cmp.Or(maxRetryDelay, 32*time.Second), attempts(cmp.Or(maxRetries, 32))
	return capped(most, exponential(requests, cmp.Or(baseRetryDelay, time.Second), most,
		exponentialSleepMultiplier, shape.Added(time.Second)))
}
