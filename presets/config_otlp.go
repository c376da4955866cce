package presets

import (
	"cmp"
	"time"

	"github.com/gobackoff/backoff"
)

// OTLPRetry is the RetryConfig of OpenTelemetry's OTLP exporters for Go, of
// traces, metrics and logs over HTTP and gRPC. It has the same fields, so a
// RetryConfig can be converted:
//
//	policy, err := presets.OTLPRetry(config).Policy()
//
// There the delay grows by 1.5, and the wait is 50 to 150 % of it. Unless
// WithRetry is called, an exporter has {true, 5 s, 30 s, 1 min}; within a
// RetryConfig nothing has a default.
//
// Source: opentelemetry-go, exporters/otlp, internal/retry; measured with
// v1.47.0.
type OTLPRetry struct {
	// Enabled turns retries on.
	Enabled bool
	// InitialInterval is the delay before the first retry, 0 or more. 0 means
	// none before any retry.
	InitialInterval time.Duration
	// MaxInterval bounds the delays after the first, 0 or more. 0 means that
	// all are InitialInterval.
	MaxInterval time.Duration
	// MaxElapsedTime is the time after which no retry is made, 0 or more. 0
	// means no limit. The exporter looks at the time only after an attempt, so
	// its last wait may pass the limit; here that wait ends at the limit.
	MaxElapsedTime time.Duration
}

// Policy returns the policy of an exporter with this configuration. It retries
// without a limit to the attempts. A negative value is an error.
func (c OTLPRetry) Policy() (backoff.Policy, error) {
	policy, err := CenkaltiBackoff{c.InitialInterval, 0.5, 1.5, c.MaxInterval, c.MaxElapsedTime}.policy("OTLPRetry", c.Enabled)
	policy.ShortenLastWait = c.Enabled && err == nil
	return policy, err
}

// CollectorRetry is the retry_on_failure of exporters in OpenTelemetry's
// Collector, its configretry.BackOffConfig. Where a file leaves out a member,
// the Collector has {true, 5 s, 0.5, 1.5, 30 s, 5 min}; a 0 in the file is 0.
//
// Source: opentelemetry-collector, config/configretry and
// exporter/exporterhelper, retry_sender.go; the waits of cenkalti/backoff v7,
// which it uses, measured with v7.0.3.
type CollectorRetry struct {
	// Enabled turns retries on.
	Enabled bool
	// InitialInterval is the delay before the first retry, 0 or more. 0 means
	// none before any retry.
	InitialInterval time.Duration
	// RandomizationFactor is the share of the delay by which a wait may be
	// shorter or longer, 0 to 1. 0 means no jitter.
	RandomizationFactor float64
	// Multiplier is the factor between two delays, 0 or more, as in
	// [CenkaltiBackoff]. 0 means that all delays are InitialInterval.
	Multiplier float64
	// MaxInterval bounds the delays after the first, 0 or more. 0 means that
	// all are InitialInterval.
	MaxInterval time.Duration
	// MaxElapsedTime is the time after which no retry is made, 0 or more, and
	// at least InitialInterval and MaxInterval. 0 means no limit.
	MaxElapsedTime time.Duration
}

// Policy returns the policy of an exporter with this configuration. It retries
// without a limit to the attempts. An error is what the Collector refuses, such
// as a MaxElapsedTime that [CenkaltiBackoff] takes, and a NaN.
func (c CollectorRetry) Policy() (backoff.Policy, error) {
	least := max(c.InitialInterval, c.MaxInterval)
	err := cmp.Or(
		check(c.RandomizationFactor >= 0 && c.RandomizationFactor <= 1,
			"CollectorRetry.RandomizationFactor", c.RandomizationFactor, "0 to 1"),
		check(c.MaxElapsedTime <= 0 || c.MaxElapsedTime >= least, "CollectorRetry.MaxElapsedTime",
			c.MaxElapsedTime, "0 (for no limit) or at least the longest interval, "+least.String()),
	)
	if err != nil {
		return backoff.Policy{}, err
	}
	return CenkaltiBackoff{c.InitialInterval, c.RandomizationFactor, c.Multiplier,
		c.MaxInterval, c.MaxElapsedTime}.policy("CollectorRetry", c.Enabled)
}
