package presets

import (
	"time"

	"github.com/gobackoff/backoff"
)

// AWSEqualJitter waits between half of min(30 s, 100 ms * 2^n) and all of it,
// so [15 s, 30 s] at the cap.
//
// Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
// 2015.
func AWSEqualJitter() backoff.Policy {
	return exponential(0, 100*time.Millisecond, 30*time.Second, 2, backoff.EqualJitter)
}

// AWSDecorrelated waits min(30 s, U(100 ms, 3*previous)), where the first
// previous wait is 100 ms. The schedule is that constant base. The growth comes
// from the draws, and each call has its own.
//
// Near the cap the waits bunch: after a wait of 30 s, two thirds of the next
// waits are exactly 30 s. Full jitter, the library's default, does not bunch,
// and is the better choice for a fleet.
//
// Source: as [AWSEqualJitter].
func AWSDecorrelated() backoff.Policy {
	const base, most = 100 * time.Millisecond, 30 * time.Second
	return backoff.Policy{Schedule: backoff.Constant(base), Jitter: backoff.DecorrelatedJitter(base, most)}
}

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

// AWS2026DynamoDB is [AWS2026] for clients of DynamoDB: 4 attempts, and U(0,
// min(20 s, 25 ms * 2^n)) after a transient error.
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior".
func AWS2026DynamoDB() backoff.Policy { return aws2026(4, 25*time.Millisecond) }

func aws2026(attempts int, base time.Duration) backoff.Policy {
	p := exponential(attempts, base, awsCap, doubling, backoff.FullJitter)
	p.ByClass = map[backoff.Class]backoff.ClassLimits{
		backoff.ClassThrottled: {Schedule: backoff.Exponential{Initial: time.Second, Max: awsCap}},
	}
	return p
}

// Canonical waits min(30 s, 100 ms * factor^n), n from 0, and so exactly 30 s
// from some retry on. The article's factor is 2, which 0 means too, or 1.5
// where many clients share a resource. The article recommends 3 to 5 attempts;
// the library's default is 4.
//
// Source: "Exponential Backoff and Retry Strategy". Its text lets the fifth
// retry wait up to 3.2 s. Its table, which counts from 0, gives 1.6 s; 3.2 s is
// the sixth. This follows the table; Initial: 200 ms follows the text.
func Canonical(factor float64) backoff.Policy {
	return exponential(0, 100*time.Millisecond, 30*time.Second, factor, backoff.NoJitter)
}
