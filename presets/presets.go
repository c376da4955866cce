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
)

// All yields every preset with its name, such as "iot-core-32s", grouped by
// subject. The order is always the same, and the policies are new ones. To get
// one of them by name:
//
//	policy, ok := maps.Collect(presets.All())[name]
func All() iter.Seq2[string, backoff.Policy] {
	return func(yield func(string, backoff.Policy) bool) {
		for _, p := range catalogue {
			if !yield(p.name, p.policy()) {
				return
			}
		}
	}
}

// catalogue lists the presets. It holds functions, so that importing the
// package builds no policy.
var catalogue = []struct {
	name   string
	policy func() backoff.Policy
}{
	{"iot-core-32s", func() backoff.Policy { return IoTCore(32 * time.Second) }},
	{"iot-core-64s", func() backoff.Policy { return IoTCore(64 * time.Second) }},
	{"api-n5", apiN5},

	{"table-constant-1s", tableConstant},
	{"table-linear-1s", tableLinear},
	{"table-exponential-1s", tableExponential},
	{"canonical-capped-100ms-30s", func() backoff.Policy { return Canonical(2) }},
	{"canonical-capped-factor1.5", func() backoff.Policy { return Canonical(1.5) }},
	{"aws-full-jitter-100ms-30s", awsFullJitter},
	{"aws-equal-jitter-100ms-30s", AWSEqualJitter},
	{"aws-decorrelated-100ms-30s", AWSDecorrelated},
	{"ts-helper-defaults", articleHelper},
	{"ts-example-200ms-5s-equal", articleExample},
	{"aws-simulator-5-2000", awsSimulator},

	{"ieee-802.3-truncated-beb", func() backoff.Policy { return Ethernet(0) }},
	{"ethernet-untruncated-beb", func() backoff.Policy { return ExponentialSlots(0, 0) }},
	{"csma-ca-ofdm", func() backoff.Policy { return CSMACA(0, 0, 0) }},
	{"sip-timer-a", func() backoff.Policy { return SIPTimerA(0) }},
	{"sip-timer-e", func() backoff.Policy { return SIPTimerE(0, 0) }},
	{"sip-timer-g", func() backoff.Policy { return SIPTimerE(0, 0) }},

	{"gcloud-cli", func() backoff.Policy { return GCloud(0, 0, 0, 0) }},
	{"gcs-cpp-default", func() backoff.Policy { return GCSCpp(0, 0, 0, 0) }},
	{"gcs-cpp-custom-3x", func() backoff.Policy { return GCSCpp(time.Second, time.Minute, 3, 5*time.Minute) }},
	{"gcs-go-default", GCSGo},
	{"gcs-go-resumable-chunk", GCSGoResumableChunk},
	{"gcs-go-custom", gcsGoCustom},
	{"gcs-java-default", GCSJava},
	{"gcs-java-custom", gcsJavaCustom},
	{"gcs-node-seed", gcsNodeDocs},
	{"gcs-node-primary", func() backoff.Policy { return GCSNode(0, 0, 0, 0) }},
	{"gcs-node-custom", gcsNodeCustom},
	{"gcs-python-default", GCSPython},
	{"gcs-python-custom", gcsPythonCustom},
	{"gcs-ruby-default", GCSRuby},
	{"gcs-ruby-custom", gcsRubyCustom},
	{"gcs-php-default", GCSPHP},
	{"gcs-csharp-default", GCSCSharp},

	{"envoy-retry-docs", envoyDocs},
	{"envoy-retry-source", EnvoySource},
	{"istio-virtualservice-retry", Istio},
	{"envoy-outlier-ejection", func() backoff.Policy { return EnvoyOutlierEjection(0) }},
	{"grpc-a6-current", GRPCRetry},
	{"grpc-connection-backoff", GRPCConnection},

	{"aws-sdk-standard-doc", awsStandardDocs},
	{"aws-sdk-go-v2-legacy", AWSGoV2Legacy},
	{"aws-sdk-2026-transient", AWS2026},
	{"aws-sdk-2026-throttling", aws2026Throttling},

	{"extra-azure-azcore", Azcore},
	{"extra-go-retryablehttp", RetryableHTTP},
	{"extra-k8s-default-backoff", KubernetesDefault},
	{"extra-etcd-interceptor", func() backoff.Policy { return Etcd(1) }},
	{"extra-urllib3-0.1", func() backoff.Policy { return Urllib3(0) }},
	{"extra-stripe-go", Stripe},
	{"extra-gsutil", Gsutil},
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
	draw := backoff.SlottedJitter(unit)
	return func(delay, prev time.Duration, u float64) time.Duration {
		return delay + min(draw(most, prev, u), math.MaxInt64-delay)
	}
}

// wholeMillis is full jitter in whole milliseconds.
func wholeMillis(delay, prev time.Duration, u float64) time.Duration {
	return backoff.FullJitter(delay, prev, u).Truncate(time.Millisecond)
}

// powersLessOne returns the schedule of (first*base^(retry-1) - 1) units: the
// highest of first*base^(retry-1) slots that are numbered from 0. It saturates
// where the power saturates.
func powersLessOne(first, base float64, unit time.Duration) backoff.Schedule {
	powers := backoff.Exponential{
		Initial:    time.Duration(first * float64(unit)),
		Max:        -1,
		Multiplier: base,
	}
	if p := (backoff.Policy{Schedule: powers}); p.Validate() != nil {
		return powers // Validate of the policy refuses it too; it could not look into a func
	}
	return backoff.ScheduleFunc(func(retry int) time.Duration { return powers.Delay(retry) - unit })
}
