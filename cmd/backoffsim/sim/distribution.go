package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A Distribution is the distribution of a service time. The zero value is no
// time at all.
type Distribution struct {
	kind shape
	mean time.Duration
	// mu and sigma are those of the logarithm of the seconds, for a log-normal
	// distribution.
	mu, sigma float64
}

// A shape is the kind of a Distribution.
type shape uint8

const (
	shapeExact shape = iota
	shapeExponential
	shapeLogNormal
)

// Exact returns a distribution that is always the same time.
func Exact(d time.Duration) Distribution { return Distribution{kind: shapeExact, mean: d} }

// Exponential returns the exponential distribution with a mean.
func Exponential(mean time.Duration) Distribution {
	return Distribution{kind: shapeExponential, mean: mean}
}

// LogNormal returns the log-normal distribution with the given quantiles. Most
// services have such service times. Both quantiles must be positive, and p50
// must not be above p99.
func LogNormal(p50, p99 time.Duration) (Distribution, error) {
	if p50 <= 0 || p99 < p50 {
		return Distribution{}, fmt.Errorf("service time: p50 is %v and p99 %v, want 0 < p50 <= p99", p50, p99)
	}
	mu := math.Log(p50.Seconds())
	sigma := (math.Log(p99.Seconds()) - mu) / z99
	mean := math.Exp(mu + sigma*sigma/2)
	if mean > time.Hour.Seconds() {
		return Distribution{}, fmt.Errorf("service time: p50 %v and p99 %v make a mean of %.3g s, want at most an hour", p50, p99, mean)
	}
	return Distribution{kind: shapeLogNormal, mean: seconds(mean), mu: mu, sigma: sigma}, nil
}

// z99 is the 99 % quantile of the normal distribution.
const z99 = 2.3263478740408408

// Mean returns the mean.
func (d Distribution) Mean() time.Duration { return d.mean }

// Draw draws a time.
func (d Distribution) Draw(r *rand.Rand) time.Duration {
	switch d.kind {
	case shapeExponential:
		return time.Duration(r.ExpFloat64() * float64(d.mean))
	case shapeLogNormal:
		return seconds(math.Exp(d.mu + d.sigma*r.NormFloat64()))
	}
	return d.mean
}

// Quantile returns the time that a share q of all times do not exceed.
func (d Distribution) Quantile(q float64) time.Duration {
	switch d.kind {
	case shapeExponential:
		return time.Duration(-math.Log1p(-q) * float64(d.mean))
	case shapeLogNormal:
		return seconds(math.Exp(d.mu + d.sigma*math.Sqrt2*math.Erfinv(2*q-1)))
	}
	return d.mean
}

// seconds converts seconds to a duration, at most to the longest duration.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(s * 1e9)
}
