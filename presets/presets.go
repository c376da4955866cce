// Package presets holds the backoff of well-known systems as policies: of
// protocols, client libraries and service meshes, and of the formulas in
// well-known documents.
//
//	policy := presets.GCSJava()
//	err := policy.Do(ctx, upload)
//
// Every function returns a new [backoff.Policy] by value. Use it as it is, or
// change single fields. [All] yields the policies under the names by which
// tools know them. It also has the examples of the documents, such as
// "gcs-go-custom", and what a document says where the code does otherwise, such
// as "envoy-retry-docs".
//
// A preset follows its primary source: the standard, or the code that runs. If
// a popular document says otherwise, the comment names both. These rules hold
// for all presets:
//
//   - A limit that the source sets is set, and "forever" is MaxAttempts: -1. If
//     the source names no limit, the field stays 0: the library's 4 attempts.
//   - A total time is MaxElapsed. A wait that would pass it is not begun,
//     whether the original does the same, sleeps past it, or shortens the wait.
//   - A wait begins when the attempt has failed.
//   - Schedule, jitter and limits are the system's own. Classes of errors,
//     Retry-After and budgets keep the library's defaults, unless a comment
//     says otherwise.
//
// Where a function takes parameters, 0 means the value of the source and a
// negative number means no limit, as in the library.
package presets

import (
	"iter"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/shape"
)

// All yields every preset with its name, such as "iot-core-32s", grouped by
// subject. The order is always the same, and the policies are new ones. To get
// one of them by name:
//
//	policy, ok := maps.Collect(presets.All())[name]
func All() iter.Seq2[string, backoff.Policy] { return each(catalogue) }

// A named is a preset and its name.
type named[P any] struct {
	name   string
	preset P
}

// each yields what list returns, which it asks each time anew.
func each[P any](list func() []named[P]) iter.Seq2[string, P] {
	return func(yield func(string, P) bool) {
		for _, p := range list() {
			if !yield(p.name, p.preset) {
				return
			}
		}
	}
}

// catalogue returns new policies. Those without a function of their own are the
// examples of a document, or what a document says where the code does
// otherwise.
func catalogue() []named[backoff.Policy] {
	const ms = time.Millisecond
	return []named[backoff.Policy]{
		{"iot-core-32s", IoTCore(32 * time.Second)},
		{"iot-core-64s", IoTCore(64 * time.Second)},
		// It waits 2^n s + k ms without a cap, with k as in IoTCore, and gives up at
		// n == 5: 5 waits, 6 requests. Source: the generic guide of Google's APIs,
		// "Implementing Exponential Back-Off". The guide speaks of a total of 32 s; the
		// waits add up to 31 s, and the jitter adds 0 to 5 s.
		{"api-n5", capped(-1, exponential(6, time.Second, -1, doubling, added(time.Second, ms)))},

		// The table of strategies in "Exponential Backoff and Retry Strategy". It names
		// no cap, no jitter and no limit. The linear strategy is base*attempt, with the
		// attempt counted from 1; the exponential one is base*2^attempt, counted from 0.
		{"table-constant-1s", policy(0, backoff.Constant(time.Second), backoff.NoJitter)},
		{"table-linear-1s", policy(0, backoff.Linear{Initial: time.Second, Max: -1}, backoff.NoJitter)},
		{"table-exponential-1s", exponential(0, time.Second, -1, doubling, backoff.NoJitter)},
		// min(30 s, 100 ms * factor^n), n from 0, and so exactly 30 s from some retry on. The
		// article's factor is 2, or 1.5 where many clients share a resource. It recommends 3
		// to 5 attempts; the library's default is 4. Its text lets the fifth retry wait up to
		// 3.2 s; its table, which counts from 0, gives 1.6 s. This follows the table.
		{"canonical-capped-100ms-30s", exponential(0, 100*ms, 30*time.Second, 2, backoff.NoJitter)},
		{"canonical-capped-factor1.5", exponential(0, 100*ms, 30*time.Second, 1.5, backoff.NoJitter)},

		// The three jitters that the analysis compares. Full jitter, the library's default,
		// keeps its whole spread at the cap. Equal jitter waits [15 s, 30 s] there. With
		// decorrelated jitter the growth comes from the draws, and the waits bunch near the
		// cap: after a wait of 30 s, two thirds of the next waits are exactly 30 s. Source:
		// Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
		{"aws-full-jitter-100ms-30s", exponential(0, 100*ms, 30*time.Second, 2, backoff.FullJitter)},
		{"aws-equal-jitter-100ms-30s", exponential(0, 100*ms, 30*time.Second, 2, backoff.EqualJitter)},
		{"aws-decorrelated-100ms-30s", policy(0, backoff.Constant(100*ms), backoff.DecorrelatedJitter(100*ms, 30*time.Second))},

		// The article's TypeScript helper, retryWithBackoff, without options. They are
		// fields here: maxRetries is MaxAttempts-1; initialDelay, maxDelay and
		// backoffFactor are fields of the Schedule; jitterStrategy is Jitter;
		// isRetryableError is Classify with backoff.RetryIf; abortSignal is the context.
		// The default of maxRetries is not known, so the library's default applies.
		{"ts-helper-defaults", exponential(0, 100*ms, 30*time.Second, 2, backoff.FullJitter)},
		// The helper as the article's example calls it, with 4 retries.
		{"ts-example-200ms-5s-equal", exponential(5, 200*ms, 5*time.Second, doubling, backoff.EqualJitter)},
		// min(2 s, 5 ms * 2^n), n from 1: the simulator increments the count before it
		// uses it. Its clients try until they succeed. Source: aws-arch-backoff-simulator,
		// the program behind the figures of that analysis.
		{"aws-simulator-5-2000", exponential(-1, 10*ms, 2*time.Second, doubling, backoff.NoJitter)},

		{"ieee-802.3-truncated-beb", Ethernet(0)},
		{"ethernet-untruncated-beb", ExponentialSlots(0, 0)},
		{"csma-ca-ofdm", CSMACA(0, 0, 0)},
		{"sip-timer-a", SIPTimerA(0)},
		{"sip-timer-e", SIPTimerE(0, 0)},
		{"sip-timer-g", SIPTimerE(0, 0)},

		{"gcloud-cli", GCloud(0, 0, 0, 0)},
		{"gcs-cpp-default", GCSCpp(0, 0, 0, 0)},
		{"gcs-cpp-custom-3x", GCSCpp(time.Second, time.Minute, 3, 5*time.Minute)},
		{"gcs-go-default", GCSGo()},
		{"gcs-go-resumable-chunk", GCSGoResumableChunk()},
		// gax.Backoff{2 s, 60 s, 3}, RetryAlways, and a context of 500 s. The 500 s are
		// MaxElapsed here, so that the policy is complete by itself. A context also ends
		// a running attempt, which MaxElapsed does not: pass one too. In the original the
		// context ends a sleep halfway; this policy gives up before such a sleep.
		{"gcs-go-custom", always(within(500*time.Second, gax(2*time.Second, time.Minute, 3)))},
		{"gcs-java-default", GCSJava()},
		// 10 attempts, which the document explains as the initial one and 9 retries, and
		// getUniformStorageRetryStrategy, which retries all operations.
		{"gcs-java-custom", always(gcsJava(10, 3, 5*time.Minute))},
		// The document's table, which does not mention jitter. GCSNode is what runs.
		{"gcs-node-seed", within(600*time.Second, exponential(4, time.Second, 64*time.Second, doubling, backoff.NoJitter))},
		{"gcs-node-primary", GCSNode(0, 0, 0, 0)},
		// IdempotencyStrategy.RetryAlways.
		{"gcs-node-custom", always(GCSNode(5, 3, time.Minute, 500*time.Second))},
		{"gcs-python-default", GCSPython()},
		// The example passes it to a call that would otherwise be retried under
		// preconditions only.
		{"gcs-python-custom", always(within(500*time.Second, exponential(-1, 1500*ms, 45*time.Second, 1.2, backoff.FullJitter)))},
		{"gcs-ruby-default", GCSRuby()},
		{"gcs-ruby-custom", within(500*time.Second, exponential(6, 1500*ms, 45*time.Second, 1.2, backoff.UniformJitter(0.5, 1.5)))},
		{"gcs-php-default", GCSPHP()},
		{"gcs-csharp-default", GCSCSharp()},

		// A whole number of milliseconds below min((2^n - 1) * 25 ms, 250 ms), n from 1.
		// EnvoySource is what runs. Envoy's route timeout covers all attempts: use a
		// context with a deadline. Source: Envoy, router filter, x-envoy-max-retries. One
		// revision of the code did the same, but cut after the draw, so that exactly 250
		// ms was a frequent wait.
		{"envoy-retry-docs", policy(2, backoff.Sequence(25*ms, 75*ms, 175*ms, 250*ms), wholeMillis)},
		{"envoy-retry-source", EnvoySource()},
		{"istio-virtualservice-retry", Istio()},
		{"envoy-outlier-ejection", EnvoyOutlierEjection(0)},
		{"grpc-a6-current", GRPCRetry()},
		{"grpc-connection-backoff", GRPCConnection()},

		// The standard mode as documented before 2026: min(20 s, U(0, 1) * 2^n s), n from
		// 0. The cap comes after the draw: from the sixth retry on, a share of 1 - 20/2^n
		// of the waits is exactly 20 s, 37.5 % at n = 5, 69 % at n = 6. Three attempts
		// never get there, but a copy with more attempts does. The SDK's quota of retries
		// belongs in Budget: see NewAWSQuota. Source: AWS SDKs and Tools Reference Guide,
		// "Retry behavior". The SDK for Go waits otherwise: AWSGoV2Legacy, AWS2026.
		{"aws-sdk-standard-doc", capped(awsCap, exponential(3, time.Second, -1, doubling, backoff.FullJitter))},
		{"aws-sdk-go-v2-legacy", AWSGoV2Legacy()},
		{"aws-sdk-2026-transient", AWS2026()},
		// AWS2026 for clients of DynamoDB: 4 attempts, and U(0, min(20 s, 25 ms * 2^n)) after
		// a transient error. Source: AWS SDKs and Tools Reference Guide, "Retry behavior".
		{"aws-sdk-2026-dynamodb", aws2026(4, 25*ms)},
		// A call that is throttled every time, for tools that show one schedule.
		{"aws-sdk-2026-throttling", exponential(3, time.Second, awsCap, doubling, backoff.FullJitter)},

		// The Azure SDK for Go: min((2^n - 1) * 800 ms * U[0.8, 1.3), 60 s), n from 1, and 3
		// retries. The cap comes after the draw: from the 7th retry on every wait is exactly
		// 60 s. If a server asks for a wait of more than 60 s the call ends. Source: azcore,
		// runtime/policy_retry.go. Its comment says random(0.8, 1.2); the code draws up to 1.3.
		{"extra-azure-azcore", backoff.Policy{
			MaxAttempts: 4, Schedule: powersLessOne(2, 2, 800*ms), Jitter: backoff.UniformJitter(0.8, 1.3),
			MaxDelay: time.Minute, MaxRetryAfter: time.Minute,
		}},
		{"extra-go-retryablehttp", RetryableHTTP()},
		{"extra-k8s-default-backoff", KubernetesDefault()},
		{"extra-etcd-interceptor", Etcd(1)},
		// Retry(backoff_factor=0.1) of Python's urllib3: the first retry at once, then
		// min(120 s, 100 ms * 2^n), n from 1, without jitter; 10 retries. Its backoff_jitter,
		// off by default, adds to the delay, and is capped with it. Source: util/retry.py.
		{"extra-urllib3-0.1", policy(11, afterFirst(backoff.Exponential{Initial: 200 * ms, Max: 120 * time.Second}), backoff.NoJitter)},
		// stripe-go waits 75 to 100 % of min(5 s, 500 ms * (1 + n^2)), n from 0, but not less
		// than 500 ms; 2 retries. Source: stripe-go, BackendImplementation.sleepTime.
		{"extra-stripe-go", policy(3, backoff.Sequence(500*ms, 1000*ms, 2500*ms, 5000*ms), upperQuarter)},
		// gsutil waits U(0, min(60 s, 1 s * 2^n)), n from 0. It makes 23 retries. Source: its
		// options num_retries and max_retry_delay.
		{"extra-gsutil", exponential(24, time.Second, time.Minute, doubling, backoff.FullJitter)},
	}
}

// doubling is the multiplier that [backoff.Exponential] has by default.
const doubling = 0

// exponential returns a policy that waits min(most, initial*multiplier^n), n from
// 0, before jitter. A negative most means no cap.
func exponential(attempts int, initial, most time.Duration, multiplier float64, jitter backoff.Jitter) backoff.Policy {
	return policy(attempts, backoff.Exponential{Initial: initial, Max: most, Multiplier: multiplier}, jitter)
}

// policy returns a policy that has a schedule of its own.
func policy(attempts int, schedule backoff.Schedule, jitter backoff.Jitter) backoff.Policy {
	return backoff.Policy{MaxAttempts: attempts, Schedule: schedule, Jitter: jitter}
}

// within limits the time of a call.
func within(total time.Duration, p backoff.Policy) backoff.Policy {
	p.MaxElapsed = total
	return p
}

// capped limits the waits after jitter.
func capped(most time.Duration, p backoff.Policy) backoff.Policy {
	p.MaxDelay = most
	return p
}

// always retries operations that are not idempotent, too.
func always(p backoff.Policy) backoff.Policy {
	p.Idempotency = backoff.Idempotent
	return p
}

// attempts returns the number of attempts that has the given number of retries.
// A negative number means no limit.
func attempts(retries int) int {
	if retries < 0 {
		return -1
	}
	return retries + 1
}

// added returns a jitter that adds a whole number of units, from 0 to most. All
// numbers are equally likely.
func added(most, unit time.Duration) backoff.Jitter {
	draw := shape.Slotted(unit)
	return func(delay, prev time.Duration, u float64) time.Duration {
		return delay + min(draw(most, prev, u), math.MaxInt64-delay)
	}
}

// upperQuarter waits at least three quarters of the delay, and at least 500 ms.
func upperQuarter(delay, prev time.Duration, u float64) time.Duration {
	return max(500*time.Millisecond, delay-backoff.FullJitter(delay/4, prev, u))
}

// afterFirst returns the schedule that retries at once first, and then as s says.
func afterFirst(s backoff.Schedule) backoff.Schedule {
	return backoff.ScheduleFunc(func(retry int) time.Duration { return s.Delay(retry - 1) })
}

// wholeMillis is full jitter in whole milliseconds.
func wholeMillis(delay, prev time.Duration, u float64) time.Duration {
	return backoff.FullJitter(delay, prev, u).Truncate(time.Millisecond)
}

// powersLessOne returns the schedule of (first*base^(retry-1) - 1) units: the
// highest of first*base^(retry-1) slots that are numbered from 0. It saturates
// where the power saturates.
func powersLessOne(first, base float64, unit time.Duration) backoff.Schedule {
	powers := backoff.Exponential{Initial: time.Duration(first * float64(unit)), Max: -1, Multiplier: base}
	if p := (backoff.Policy{Schedule: powers}); p.Validate() != nil {
		return powers // Validate of the policy refuses it too; it could not look into a func
	}
	return backoff.ScheduleFunc(func(retry int) time.Duration { return powers.Delay(retry) - unit })
}
