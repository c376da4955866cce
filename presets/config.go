package presets

import (
	"cmp"
	"math"
	"sort"
	"time"

	"github.com/gobackoff/backoff"
)

// The types below, and AWSRetry, are settings in the form of other systems.
// They have the fields of the other system and its meaning of 0, which is
// mostly 0, and a method Policy that says the same in the form of this library.
// All of them keep these rules:
//
//   - A configuration without retries is MaxAttempts: 1. One that retries for
//     ever is MaxAttempts: -1; then the context must end the call.
//   - A delay of 0 is backoff.Constant(0), which retries at once.
//   - A value that the other system refuses, or that makes no sense, is an error
//     that names the field and the value, also where retries are off.
//   - Everything else is as for all presets.

// growing returns the schedule of delays that begin with initial and grow by
// factor up to limit. A factor of 0 means that they do not grow. limit must not
// be below initial; a negative one is none.
func growing(initial, limit time.Duration, factor float64) backoff.Schedule {
	if initial == 0 || factor == 0 {
		return backoff.Constant(initial)
	}
	return backoff.Exponential{Initial: initial, Max: limit, Multiplier: factor}
}

// finite reports whether f is a number of 0 or more.
func finite(f float64) bool { return f >= 0 && f <= math.MaxFloat64 }

// between returns the jitter that waits lo to hi times the delay. lo and hi may
// be the same 1.
func between(lo, hi float64) backoff.Jitter {
	if lo == hi {
		return backoff.NoJitter
	}
	return backoff.UniformJitter(lo, hi)
}

// CenkaltiBackoff is the ExponentialBackOff of github.com/cenkalti/backoff,
// with the MaxElapsedTime that is a field there up to v4, and an option since.
// Where a program sets nothing, that library has {500 ms, 0.5, 1.5, 1 min, 15
// min}; within a CenkaltiBackoff nothing has a default.
//
// It takes every value with which that library waits. Set MaxAttempts of the
// policy for WithMaxTries.
//
// Source: cenkalti/backoff, exponential.go and retry.go; measured with v7.0.3.
type CenkaltiBackoff struct {
	// InitialInterval is the delay before the first retry, 0 or more. 0 means
	// none before any retry.
	InitialInterval time.Duration
	// RandomizationFactor is the share of the delay by which a wait may be
	// shorter or longer, 0 or more. 0 means no jitter. Beyond 1 some waits
	// would be less than nothing, and are 0.
	RandomizationFactor float64
	// Multiplier is the factor between two delays, 0 or more. 0 means that all
	// delays are InitialInterval. Below 1 the delays shrink; after the one that
	// is less than a nanosecond they begin with InitialInterval again.
	Multiplier float64
	// MaxInterval bounds the delays after the first, 0 or more. 0 means that
	// all are InitialInterval.
	MaxInterval time.Duration
	// MaxElapsedTime is the time after which no retry is made, 0 or more. 0
	// means no limit. Below the first wait it means no retries.
	MaxElapsedTime time.Duration
}

// Policy returns the policy of a Retry with this backoff. It retries without a
// limit to the attempts. A negative value, a NaN and an infinity are errors:
// that library then waits no more, or for ever.
func (c CenkaltiBackoff) Policy() (backoff.Policy, error) { return c.policy("CenkaltiBackoff", true) }

// policy returns the policy, with retries or without. Its errors name the
// configuration as given.
func (c CenkaltiBackoff) policy(name string, retries bool) (backoff.Policy, error) {
	err := cmp.Or(
		check(c.InitialInterval >= 0, name+".InitialInterval", c.InitialInterval, "0 or more"),
		check(finite(c.RandomizationFactor), name+".RandomizationFactor", c.RandomizationFactor, "0 or more"),
		check(finite(c.Multiplier), name+".Multiplier", c.Multiplier, "0 (for no growth) or more"),
		check(c.MaxInterval >= 0, name+".MaxInterval", c.MaxInterval, "0 or more"),
		check(c.MaxElapsedTime >= 0, name+".MaxElapsedTime", c.MaxElapsedTime, "0 or more"),
	)
	switch {
	case err != nil:
		return backoff.Policy{}, err
	case !retries:
		return backoff.Policy{MaxAttempts: 1}, nil
	}
	return within(c.MaxElapsedTime, policy(-1, c.schedule(), c.jitter())), nil
}

// schedule returns the delays. The first one may be beyond MaxInterval.
func (c CenkaltiBackoff) schedule() backoff.Schedule {
	switch {
	case c.MaxInterval == 0 || c.Multiplier == 0:
		return backoff.Constant(c.InitialInterval)
	case c.Multiplier < 1 && c.InitialInterval > 0:
		return c.shrinking()
	case c.InitialInterval > c.MaxInterval:
		return backoff.Sequence(c.InitialInterval, c.MaxInterval)
	}
	return growing(c.InitialInterval, c.MaxInterval, c.Multiplier)
}

// shrinking returns the delays of a multiplier below 1.
func (c CenkaltiBackoff) shrinking() backoff.Schedule {
	second := min(float64(c.InitialInterval)*c.Multiplier, float64(c.MaxInterval))
	round := 1 + max(0, 1+math.Floor(math.Log(second)/-math.Log(c.Multiplier)))
	return backoff.ScheduleFunc(func(retry int) time.Duration {
		n := math.Mod(float64(retry-1), round)
		if n == 0 {
			return c.InitialInterval
		}
		return time.Duration(second * math.Pow(c.Multiplier, n-1))
	})
}

// jitter returns the jitter.
func (c CenkaltiBackoff) jitter() backoff.Jitter {
	if c.RandomizationFactor <= 1 {
		return between(1-c.RandomizationFactor, 1+c.RandomizationFactor)
	}
	return func(delay, prev time.Duration, u float64) time.Duration {
		factor := max(0, 1+c.RandomizationFactor*(2*u-1))
		return backoff.UniformJitter(factor, factor)(delay, prev, u)
	}
}

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

// KubernetesBackoff is wait.Backoff of Kubernetes' apimachinery, as
// wait.ExponentialBackoff, retry.OnError and retry.RetryOnConflict read it. It
// has the same fields, so a wait.Backoff can be converted:
//
//	policy, err := presets.KubernetesBackoff(retry.DefaultRetry).Policy()
//
// No field has a default. A loop that calls Step, Timer or DelayWithReset
// itself reads Steps otherwise, as the number of delays that grow, and has no
// end. It is not what Policy makes.
//
// Source: apimachinery, util/wait, and client-go, util/retry; measured with
// v0.37.2.
type KubernetesBackoff struct {
	// Duration is the delay before the first retry, 0 or more. 0 means none
	// before any retry.
	Duration time.Duration
	// Factor is the factor between two delays, 0 or more. 0 means that they do
	// not grow. With a factor below 1 they shrink.
	Factor float64
	// Jitter is the share of the delay up to which a random wait is added. 0
	// and negative mean no jitter.
	Jitter float64
	// Steps is the number of attempts, at least 1: with 0 and less nothing is
	// ever tried, which is an error here.
	Steps int
	// Cap ends the call, and not only the growth: a delay whose successor would
	// be above Cap is the last one, and no attempt follows it. With a Cap below
	// Duration there is a single attempt. 0 and negative mean none. Without a
	// Factor it does nothing.
	Cap time.Duration
}

// Policy returns the policy of a loop with this backoff. Where Cap ends the
// loop, MaxAttempts is below Steps. There a loop that Cap ends also sleeps
// after its last attempt; here the call returns at once.
func (b KubernetesBackoff) Policy() (backoff.Policy, error) {
	err := cmp.Or(
		check(b.Duration >= 0, "KubernetesBackoff.Duration", b.Duration, "0 or more"),
		check(finite(b.Factor), "KubernetesBackoff.Factor", b.Factor, "0 (for no growth) or more"),
		check(finite(math.Abs(b.Jitter)), "KubernetesBackoff.Jitter", b.Jitter, "a number"),
		check(b.Steps >= 1, "KubernetesBackoff.Steps", b.Steps, "at least 1"),
	)
	if err != nil {
		return backoff.Policy{}, err
	}
	schedule := b.schedule()
	return policy(b.attempts(schedule), schedule, between(1, 1+max(b.Jitter, 0))), nil
}

// schedule returns the delays, to which Cap means nothing.
func (b KubernetesBackoff) schedule() backoff.Schedule {
	if b.Factor >= 1 || b.Factor == 0 {
		return growing(b.Duration, -1, b.Factor)
	}
	return backoff.ScheduleFunc(func(retry int) time.Duration {
		return time.Duration(float64(b.Duration) * math.Pow(b.Factor, float64(retry-1)))
	})
}

// attempts returns the number of attempts: Steps, or as many as there are up to
// the first delay whose successor is above Cap.
func (b KubernetesBackoff) attempts(schedule backoff.Schedule) int {
	switch beyond := func(i int) bool { return schedule.Delay(i+2) > b.Cap }; {
	case b.Cap <= 0 || b.Factor == 0:
		return b.Steps
	case b.Factor > 1:
		return 1 + sort.Search(b.Steps-1, beyond)
	case beyond(0):
		return 1
	}
	return b.Steps
}
