package presets

import (
	"time"

	"github.com/gobackoff/backoff"
)

// awsFullJitter waits U(0, min(30 s, 100 ms * 2^n)), n from 0. At the cap it
// keeps its whole spread. It is one of the three jitters that the analysis
// compares, with [AWSEqualJitter] and [AWSDecorrelated]. Some of its waits are
// close to 0.
//
// Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
// 2015.
func awsFullJitter() backoff.Policy {
	return backoff.Policy{Schedule: canonical(2), Jitter: backoff.FullJitter}
}

// AWSEqualJitter waits between half of min(30 s, 100 ms * 2^n) and all of it,
// so [15 s, 30 s] at the cap.
//
// Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
// 2015.
func AWSEqualJitter() backoff.Policy {
	return backoff.Policy{Schedule: canonical(2), Jitter: backoff.EqualJitter}
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
	return backoff.Policy{
		Schedule: backoff.Constant(base),
		Jitter:   backoff.DecorrelatedJitter(base, most),
	}
}

// awsSimulator waits min(2 s, 5 ms * 2^n) without jitter, n from 1: it
// increments the count before it uses it, so the first wait is 10 ms. The
// simulated clients try until they succeed. The simulator's other strategies
// differ in the Jitter.
//
// Source: aws-arch-backoff-simulator, the program behind the figures of
// [AWSEqualJitter]'s source.
func awsSimulator() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: 10 * time.Millisecond, Max: 2 * time.Second},
		Jitter:      backoff.NoJitter,
	}
}

// awsStandardDocs is the standard retry mode of the AWS SDKs as documented
// before 2026: 3 attempts, min(20 s, U(0, 1) * 2^n s), n from 0.
//
// The cap comes after the draw. From the sixth retry on, a share of 1 - 20/2^n
// of the waits is exactly 20 s: 37.5 % at n = 5, 69 % at n = 6. Three attempts
// never get there, but a copy with more attempts does. The SDK's quota of
// retries belongs in Budget: see [NewAWSQuota].
//
// Source: AWS SDKs and Tools Reference Guide, "Retry behavior". The SDK for Go
// waits otherwise: [AWSGoV2Legacy], [AWS2026].
func awsStandardDocs() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Exponential{Initial: time.Second, Max: -1},
		Jitter:      backoff.FullJitter,
		MaxDelay:    awsCap,
	}
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
	return backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Exponential{Initial: 2 * time.Second, Max: awsCap},
		Jitter:      fullBelowCap,
	}
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
// the library obeys up to MaxRetryAfter.
//
// Source: aws-sdk-go-v2; measured with v1.47.6, where it is opt-in.
func AWS2026() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Exponential{Initial: 50 * time.Millisecond, Max: awsCap},
		ByClass: map[backoff.Class]backoff.ClassLimits{
			backoff.ClassThrottled: {Schedule: backoff.Exponential{Initial: time.Second, Max: awsCap}},
		},
		Jitter: backoff.FullJitter,
	}
}

// aws2026Throttling is AWS2026 for a call that is throttled every time, for
// tools that show one schedule.
func aws2026Throttling() backoff.Policy {
	p := AWS2026()
	p.Schedule, p.ByClass = p.ByClass[backoff.ClassThrottled].Schedule, nil
	return p
}
