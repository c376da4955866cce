package presets

import (
	"cmp"
	_ "embed"
	"strings"
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
	return capped(maximum, exponential(0, time.Second, maximum, doubling, added(time.Second, time.Millisecond)))
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

// The client libraries of Cloud Storage. "The document" is its page "Retry
// strategy", which lists their parameters and examples; the source of each is
// its code.

// GCSCpp is ExponentialBackoffPolicy(initial, maximum, scaling) of the C++
// library under LimitedTimeRetryPolicy(total). Each wait is drawn from a window
// that starts where the previous window ended and is scaling times as long. The
// first window is [initial, initial*scaling]. The wait is cut to whole
// milliseconds.
//
// Once a window would end beyond maximum, every window is [max(maximum/scaling,
// initial), maximum]. With (1 s, 1 min, 3) the windows are [1, 3], [3, 9], [9,
// 27] and then [20, 60] s, not [27, 60] as the document's "etc." suggests.
//
// 0 means the default of each: 1 s, 5 min, 2, 15 min; a negative total means no
// limit. scaling must be 1 or more. C++ begins a sleep that ends after total
// and then does not try again; this policy gives up before such a sleep.
//
// By default C++ repeats every operation, also those that the document calls
// never idempotent (AlwaysRetryIdempotencyPolicy). This policy leaves it to
// Idempotency: nil means every function of Do, and the requests of a Transport
// that are idempotent; [backoff.Idempotent] is what C++ does.
//
// Source: google-cloud-cpp, internal/backoff_policy, storage/idempotency_policy.
func GCSCpp(initial, maximum time.Duration, scaling float64, total time.Duration) backoff.Policy {
	initial, maximum, scaling = cmp.Or(initial, time.Second), cmp.Or(maximum, 5*time.Minute), cmp.Or(scaling, 2)
	ends := backoff.Exponential{Initial: time.Duration(float64(initial) * scaling), Max: -1, Multiplier: scaling}
	return within(cmp.Or(total, 15*time.Minute), policy(-1, shape.Truncated(ends, maximum), window(initial, scaling)))
}

// window returns a jitter that draws between the delay before it was scaled,
// where the previous window ended, and the delay.
func window(initial time.Duration, scaling float64) backoff.Jitter {
	return func(end, prev time.Duration, u float64) time.Duration {
		start := max(initial, time.Duration(float64(end)/scaling))
		return (start + backoff.FullJitter(end-start, prev, u)).Truncate(time.Millisecond)
	}
}

// GCSGo waits U[1 ns, min(30 s, 1 s * 2^n)], n from 0: full jitter that
// is never 0 and keeps its spread at the cap. It retries forever: use a context
// that ends, or set MaxAttempts and MaxElapsed, which are WithMaxAttempts and
// WithMaxRetryDuration of the library.
//
// The scopes of that library (client, bucket, object) are copies of a policy,
// each with its own changes. RetryIdempotent, RetryAlways and RetryNever are
// the field Idempotency. gax does not bound the first wait by the maximum,
// which matters only if Initial is beyond Max; Validate refuses such a policy.
//
// Source: gax-go, Backoff; measured with v2.26.
func GCSGo() backoff.Policy { return gax(time.Second, 30*time.Second, 2) }

// gax returns the policy of gax.Backoff.
func gax(initial, most time.Duration, multiplier float64) backoff.Policy {
	return exponential(-1, initial, most, multiplier, fullButZero)
}

// fullButZero is full jitter that is never 0.
func fullButZero(delay, prev time.Duration, u float64) time.Duration {
	return min(backoff.FullJitter(delay, prev, u), delay-1) + 1
}

// GCSGoResumableChunk is what the Go library does for each chunk of a resumable
// upload: [GCSGo], but starting at 100 ms, for 32 s
// (Writer.ChunkRetryDeadline). The 32 s start again with every chunk: call
// [backoff.Run.Progress] after each chunk.
//
// Source: google-api-go-client, gensupport. The document gives 1 s as the
// initial delay of every operation; without a custom retryer the upload path
// starts at 100 ms.
func GCSGoResumableChunk() backoff.Policy {
	return within(32*time.Second, gax(100*time.Millisecond, 30*time.Second, 2))
}

// GCSJava is RetrySettings of the Java library: 6 attempts, so 5
// retries, in at most 50 s. It waits whole milliseconds from [0, min(32 s, 1 s
// * 2^n)), n from 0, which keeps its spread at the cap. An attempt may take 50
// s (initialRpcTimeout, with a multiplier of 1), but no more than is left of
// the total.
//
// Java begins a wait that ends exactly with the total; this policy does not, as
// no time would be left for the attempt. In Java a total of 0 together with 0
// attempts means no retries. The timeouts of connecting and reading, 20 s each,
// belong to the transport.
//
// Source: gax-java, RetrySettings and ExponentialRetryAlgorithm.
func GCSJava() backoff.Policy { return gcsJava(6, 2, 50*time.Second) }

// gcsJava returns the policy of RetrySettings.
func gcsJava(attempts int, multiplier float64, total time.Duration) backoff.Policy {
	const rpc = 50 * time.Second
	p := exponential(attempts, time.Second, 32*time.Second, multiplier, wholeMillis)
	p.AttemptTimeoutSchedule = backoff.Exponential{Initial: rpc, Max: rpc, Multiplier: 1}
	return within(total, p)
}

// GCSNode is the Node.js library with the names of its options:
// min(retryDelayMultiplier^n s + k ms, maxRetryDelay), n from 1, k from 0 to
// 999. The cap bounds the sum and leaves no jitter, by default from the 6th
// retry on.
//
// 0 means the default of each: 3, 2, 64 s, 600 s. A negative number means no
// limit. Validate refuses a maxRetryDelay below the first wait. For autoRetry:
// false set MaxAttempts to 1; retryableErrorFn is Classify with
// [backoff.RetryIf].
//
// The original shortens its last wait to what is left of totalTimeout, and
// tries once more at its end, which is ShortenLastWait. It counts failures
// without a response separately, which this policy does not.
//
// Source: retry-request. The document says that the first wait is 1 s
// ("gcs-node-seed" of [All]). The code has no such parameter: its first wait is
// one multiplier, 2 to 2.999 s.
func GCSNode(maxRetries int, retryDelayMultiplier float64, maxRetryDelay, totalTimeout time.Duration) backoff.Policy {
	multiplier, most := cmp.Or(retryDelayMultiplier, 2), cmp.Or(maxRetryDelay, 64*time.Second)
	first := time.Duration(multiplier * float64(time.Second))
	p := capped(most, exponential(attempts(cmp.Or(maxRetries, 3)), first, most,
		multiplier, added(999*time.Millisecond, time.Millisecond)))
	p.ShortenLastWait = true
	return within(cmp.Or(totalTimeout, 600*time.Second), p)
}

// GCSPython is google.api_core.retry.Retry: U[0, min(60 s, 1 s * 2^n)],
// n from 0, which keeps its spread at the cap, for 120 s. As in this library, a
// wait that would pass the deadline is not begun, and a wait that ends exactly
// at the deadline is.
//
// with_deadline, with_delay and with_predicate are copies with another
// MaxElapsed, Schedule or Classify.
//
// Source: google-api-core, api_core/retry.
func GCSPython() backoff.Policy {
	return within(120*time.Second, exponential(-1, time.Second, time.Minute, 2, backoff.FullJitter))
}

// GCSRuby is the Ruby library: min(60 s, 1 s * 2^n), n from 0, times
// U[0.5, 1.5], and 3 retries in at most 900 s. The 60 s are documented as the
// longest wait, but bound the delay before jitter: at the cap it waits 30 to 90
// s, which 3 retries do not reach.
//
// Retries for one operation are a copy with another MaxAttempts.
//
// Source: google-apis-core, through the gem retriable.
func GCSRuby() backoff.Policy {
	return within(900*time.Second, exponential(4, time.Second, time.Minute, 2, backoff.UniformJitter(0.5, 1.5)))
}

// GCSPHP is the PHP library, which cannot be configured: min(2^n s + k us, 60
// s), n from 0, k from 0 to 1000000, and 3 retries. The cap bounds the sum. It
// would leave no jitter from the 7th retry on, which 3 retries do not reach.
//
// Source: Google Cloud PHP core, ExponentialBackoff. The document gives no
// numbers.
func GCSPHP() backoff.Policy {
	return capped(time.Minute, exponential(4, time.Second, time.Minute, doubling, added(time.Second, time.Microsecond)))
}

// GCSCSharp is RetryTiming.Default of the C# library: min(32 s, 1 s * 2^n), n
// from 0, without jitter, and so exactly 32 s at the cap. It names no limit.
//
// Source: Google.Cloud.Storage.V1, RetryTiming. The document says that it
// cannot be customized; since 4.x it can.
func GCSCSharp() backoff.Policy {
	return exponential(0, time.Second, 32*time.Second, doubling, backoff.NoJitter)
}

//go:embed cloudstorage.txt
var cloudStorage string

// CloudStorageOperations is the table of the operations of Cloud Storage's
// JSON API, which says whether each may be sent again. It is for backoffhttp's
// NewOperations. 22 operations may always be sent again, 11 under a
// precondition, 14 never. The method alone would be wrong for 13 of them.
//
// Keys are method and path. Values are "always", "never", or the preconditions
// one of which must be there: a parameter of the query, a header, or a member
// of the JSON body. Every call returns a new map, which may be changed, for
// example for another version of the API.
//
// Source: Cloud Storage, "Retry strategy", "Idempotency of operations"; its
// conformance tests for client libraries, scenarios 1 to 4. Where older clients
// differ, this follows the page and the tests: in C++ the deletion of a bucket
// was conditional, in Java the update of an HMAC key was never repeated.
func CloudStorageOperations() map[string]string {
	table := make(map[string]string)
	for line := range strings.Lines(cloudStorage) {
		if operation, rule, ok := strings.Cut(line, " = "); ok {
			table[strings.TrimSpace(operation)] = strings.TrimSpace(rule)
		}
	}
	return table
}
