package presets

import (
	"cmp"
	"math"
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
	policy, err := CollectorRetry{
		Enabled:             c.Enabled,
		InitialInterval:     c.InitialInterval,
		RandomizationFactor: 0.5,
		Multiplier:          1.5,
		MaxInterval:         c.MaxInterval,
		MaxElapsedTime:      c.MaxElapsedTime,
	}.policy("OTLPRetry")
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
	// Multiplier is the factor between two delays, 0 or at least 1. 0 means
	// that all delays are InitialInterval.
	Multiplier float64
	// MaxInterval bounds the delays after the first, 0 or more. 0 means that
	// all are InitialInterval.
	MaxInterval time.Duration
	// MaxElapsedTime is the time after which no retry is made, 0 or more, and
	// at least InitialInterval and MaxInterval. 0 means no limit.
	MaxElapsedTime time.Duration
}

// Policy returns the policy of an exporter with this configuration. It retries
// without a limit to the attempts.
//
// An error is what the Collector refuses, and a Multiplier above 0 and below 1.
// The Collector takes such a number; its waits then shrink to nothing.
func (c CollectorRetry) Policy() (backoff.Policy, error) {
	least := max(c.InitialInterval, c.MaxInterval)
	err := check(c.MaxElapsedTime <= 0 || c.MaxElapsedTime >= least, "CollectorRetry.MaxElapsedTime",
		c.MaxElapsedTime, "0 (for no limit) or at least the longest interval, "+least.String())
	if err != nil {
		return backoff.Policy{}, err
	}
	return c.policy("CollectorRetry")
}

// policy returns the policy. Its errors name the configuration as given.
func (c CollectorRetry) policy(name string) (backoff.Policy, error) {
	err := cmp.Or(
		check(c.InitialInterval >= 0, name+".InitialInterval", c.InitialInterval, "0 or more"),
		check(c.RandomizationFactor >= 0 && c.RandomizationFactor <= 1,
			name+".RandomizationFactor", c.RandomizationFactor, "0 to 1"),
		check(c.Multiplier == 0 || c.Multiplier >= 1 && c.Multiplier <= math.MaxFloat64,
			name+".Multiplier", c.Multiplier, "0 (for no growth) or at least 1"),
		check(c.MaxInterval >= 0, name+".MaxInterval", c.MaxInterval, "0 or more"),
		check(c.MaxElapsedTime >= 0, name+".MaxElapsedTime", c.MaxElapsedTime, "0 or more"),
	)
	switch {
	case err != nil:
		return backoff.Policy{}, err
	case !c.Enabled:
		return backoff.Policy{MaxAttempts: 1}, nil
	}
	return backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  c.MaxElapsedTime,
		Schedule:    c.schedule(),
		Jitter:      between(1-c.RandomizationFactor, 1+c.RandomizationFactor),
	}, nil
}

// schedule returns the delays. The first one may be beyond MaxInterval.
func (c CollectorRetry) schedule() backoff.Schedule {
	switch {
	case c.MaxInterval == 0 || c.Multiplier == 0:
		return backoff.Constant(c.InitialInterval)
	case c.InitialInterval > c.MaxInterval:
		return backoff.Sequence(c.InitialInterval, c.MaxInterval)
	}
	return growing(c.InitialInterval, c.MaxInterval, c.Multiplier)
}
