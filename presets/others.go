package presets

import (
	"cmp"
	"time"

	"github.com/gobackoff/backoff"
)

// EnvoySource is Envoy's retry as its code has it: a whole number of
// milliseconds below an interval that doubles from 25 ms and stays at 250 ms:
// 0-24, 0-49, 0-99, 0-199, and then 0-249 ms. It makes one retry.
// The documentation ("envoy-retry-docs" of [All]) says 0-24, 0-74 and 0-174 ms.
//
// Source: Envoy, JitteredExponentialBackOffStrategy.
func EnvoySource() backoff.Policy {
	return exponential(2, 25*time.Millisecond, 250*time.Millisecond, doubling, wholeMillis)
}

// Istio is the retry policy of the usual VirtualService example, attempts: 3
// and perTryTimeout: 2s, over [EnvoySource]. Istio's attempts are retries, so
// these are 4 requests. The 2 s hold for the first request too.
//
// Its retryOn: 5xx,reset,connect-failure belongs in Classify: see
// [EnvoyRetryOn].
//
// Source: Istio, HTTPRetry.
func Istio() backoff.Policy {
	p := EnvoySource()
	p.MaxAttempts = 4
	p.AttemptTimeout = 2 * time.Second
	return p
}

// EnvoyOutlierEjection is how long a host stays ejected for the n-th time: n
// times base, without jitter, up to 300 s, or up to base if that is longer. A
// base of 0 means 30 s. It never gives up.
//
// This is not a retry policy: its Schedule is for the OpenFor of a circuit
// breaker, such as [IstioOutlierDetection].
//
// Source: Envoy, outlier detection, base_ejection_time and max_ejection_time.
func EnvoyOutlierEjection(base time.Duration) backoff.Policy {
	base = cmp.Or(base, 30*time.Second)
	return policy(-1, backoff.Linear{Initial: base, Max: max(300*time.Second, base)}, backoff.NoJitter)
}

// IstioOutlierDetection returns a new breaker for one host by the usual
// DestinationRule example: consecutive5xxErrors: 5, interval: 30s and
// baseEjectionTime: 30s. It opens after 5 failures in a row, however fast, for
// as long as [EnvoyOutlierEjection] says, and by no other rule. The first time
// counts as the first again after 30 s without an ejection, where Envoy takes
// one off every 30 s.
//
// Envoy sends the calls of an ejected host to the others, and ejects at most
// maxEjectionPercent of them; a breaker refuses its calls. Use one for each
// host, in its Service of package guard. Envoy gives a host that comes back all its
// calls, and ejects it after 5 failures more. The breaker admits 1000 at once,
// closes at the first success, and opens again at the first failure.
//
// Source: Istio, OutlierDetection; Envoy, outlier detection.
func IstioOutlierDetection() *backoff.Breaker {
	return &backoff.Breaker{
		FailureRate: -1, ConsecutiveFailures: 5, ConsecutiveSpan: -1, Window: 30 * time.Second,
		OpenFor: EnvoyOutlierEjection(0).Schedule, Jitter: backoff.NoJitter,
		MaxProbes: -1, ProbeSuccesses: 1,
	}
}

// GRPCRetry is the retryPolicy that gRPC's design gives as its example: 4
// attempts, min(1 s, 100 ms * 2^n), n from 0, times U(0.8, 1.2). The cap is
// applied before the jitter, so at the cap the wait is 0.8 to 1.2 s, which may
// be more than maxBackoff. gRPC takes more than 5 attempts as 5.
//
// The text of the design leaves the first wait uncapped; grpc-go caps it, and
// so does this policy. Older revisions, and many texts based on them, have full
// jitter: for that, set Jitter to backoff.FullJitter.
//
// Source: gRFC A6, "Exponential Backoff".
func GRPCRetry() backoff.Policy {
	return exponential(4, 100*time.Millisecond, time.Second, doubling, backoff.UniformJitter(0.8, 1.2))
}

// GRPCConnection is how a gRPC channel reconnects: exactly 1 s at first,
// without jitter, then min(120 s, 1 s * 1.6^n) times U(0.8, 1.2), which at the
// cap is 96 to 144 s. It never gives up.
//
// gRPC counts the wait from the beginning of the attempt, so a slow failure may
// be repeated at once; this policy counts from the end of the attempt. An
// attempt to connect may take 20 s (MIN_CONNECT_TIMEOUT), or the wait if that
// is longer. The operation must set this timeout itself, as AttemptTimeout
// would also end the connection once it is made.
//
// Source: gRPC, connection-backoff.md. One revision prints 20 s as the initial
// backoff; grpc-go and the others use 1 s.
func GRPCConnection() backoff.Policy {
	return exponential(-1, time.Second, 120*time.Second, 1.6, onceGrown)
}

// onceGrown jitters all delays of a channel but the first. It recognizes the first
// delay by its length, since outside a call the previous wait is always 0.
func onceGrown(delay, prev time.Duration, u float64) time.Duration {
	if delay <= time.Second {
		return delay
	}
	return backoff.UniformJitter(0.8, 1.2)(delay, prev, u)
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
	return policy(100, backoff.ScheduleFunc(func(retry int) time.Duration {
		if retry%quorum != 0 {
			return 0
		}
		return 25 * time.Millisecond
	}), backoff.UniformJitter(0.9, 1.1))
}
