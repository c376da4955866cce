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
	return exponential(2, 25*time.Millisecond, 250*time.Millisecond, 2, wholeMillis)
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
// breaker. Istio's outlierDetection example ejects a host after 5 responses of
// 5xx in a row, and checks every 30 s.
//
// Source: Envoy, outlier detection, base_ejection_time and max_ejection_time.
func EnvoyOutlierEjection(base time.Duration) backoff.Policy {
	base = cmp.Or(base, 30*time.Second)
	return backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Linear{Initial: base, Max: max(300*time.Second, base)},
		Jitter:      backoff.NoJitter,
	}
}
