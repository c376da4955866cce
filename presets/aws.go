package presets

import (
	"time"

	"github.com/gobackoff/backoff"
)

// awsCap is the longest wait of the AWS SDKs.
const awsCap = 20 * time.Second

// AWSGoV2Legacy is the standard retryer of the AWS SDK for Go v2 in its default
// mode: 3 attempts, U(0, 2^n s), n from 1, and from the fifth retry on exactly
// 20 s, without jitter.
//
// The documentation ("aws-sdk-standard-doc" of [All]) starts at up to 1 s; the
// SDK counts from 1 and starts at up to 2 s. At the cap the documentation draws and then
// cuts; the SDK does not draw.
//
// Source: aws-sdk-go-v2, aws/retry; measured with v1.47.6.
func AWSGoV2Legacy() backoff.Policy {
	return exponential(3, 2*time.Second, awsCap, doubling, fullBelowCap)
}

// fullBelowCap is full jitter below the cap, and no jitter at the cap.
func fullBelowCap(delay, prev time.Duration, u float64) time.Duration {
	if delay >= awsCap {
		return delay
	}
	return backoff.FullJitter(delay, prev, u)
}

// AWS2026 is the retry behavior that AWS_NEW_RETRIES_2026=true chooses: 3
// attempts, U(0, min(20 s, 50 ms * 2^n)) after a transient error, and U(0,
// min(20 s, 1 s * 2^n)) after a throttling error, n from 0. Both keep their
// spread at the cap. n is the number of the retry in the call, for any earlier
// errors.
//
// The SDK also limits what x-amz-retry-after asks for to 5 s above its own wait;
// the library takes at most 4.5 s of it, and adds up to a tenth.
//
// Source: aws-sdk-go-v2; measured with v1.47.6, where it is opt-in.
func AWS2026() backoff.Policy { return aws2026(3, 50*time.Millisecond) }

func aws2026(attempts int, base time.Duration) backoff.Policy {
	p := exponential(attempts, base, awsCap, doubling, backoff.FullJitter)
	p.ByClass = map[backoff.Class]backoff.ClassLimits{
		backoff.ClassThrottled: {Schedule: backoff.Exponential{Initial: time.Second, Max: awsCap}},
	}
	return p
}
