package foreign

import (
	"time"

	"github.com/gobackoff/backoff"
)

// DotNet is the retry budget of .NET's HTTP resilience: the retries in a
// sliding window stay below RetryPercent of its requests, rounded down, but one
// per window is always allowed. If there are fewer than MinimumThroughput
// requests, nothing is limited.
//
// The documentation does not say what a request is, nor how the window moves.
// Here requests are calls, without their retries, and the window moves by
// tenths, as in [SREBudget].
//
// Source: Microsoft.Extensions.Http.Resilience, HttpRetryBudgetOptions, .NET 11
// preview.
type DotNet struct {
	backoff.BudgetDefaults

	// RetryPercent is its RetryRatio in percent.
	RetryPercent      uint64
	SamplingDuration  time.Duration
	MinimumThroughput uint64

	counts share
}

// NewDotNet returns the budget with its defaults: 10 %, 10 s, 10.
func NewDotNet() *DotNet {
	return &DotNet{RetryPercent: 10, SamplingDuration: 10 * time.Second, MinimumThroughput: 10}
}

// Reserve implements [backoff.Budget].
func (b *DotNet) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return b.counts.reserve(a, b.SamplingDuration, b.SamplingDuration, func(requests, retries, _ uint64) bool {
		return requests < b.MinimumThroughput || retries < max(1, requests*b.RetryPercent/100)
	})
}

// Done implements [backoff.Budget].
func (b *DotNet) Done(t backoff.Ticket, r backoff.Result) { b.counts.done(t, r) }

// Kubernetes is the RetryConstraint of the Kubernetes Gateway API: of all
// requests in an Interval, Percent may be retries. MinRetryCount retries are
// always allowed in each MinRetryInterval. Each retry of a request counts by
// itself. Of 1000 requests 200 may be retries, so there are 200 retries for 800
// calls.
//
// The specification leaves the way of counting to the implementation. Here
// windows move by tenths, as in [SREBudget].
//
// Source: GEP-3388; XBackendTrafficPolicy, apisx/v1alpha1.
type Kubernetes struct {
	backoff.BudgetDefaults

	Percent          int
	Interval         time.Duration
	MinRetryCount    int
	MinRetryInterval time.Duration

	counts share
}

// NewKubernetes returns the constraint with its defaults: 20 % over 10 s,
// and 10 per second.
func NewKubernetes() *Kubernetes {
	return &Kubernetes{Percent: 20, Interval: 10 * time.Second, MinRetryCount: 10, MinRetryInterval: time.Second}
}

// Reserve implements [backoff.Budget].
func (b *Kubernetes) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return b.counts.reserve(a, b.Interval, b.MinRetryInterval, func(requests, retries, recent uint64) bool {
		return retries*100 < (requests+retries)*uint64(b.Percent) || recent < uint64(b.MinRetryCount)
	})
}

// Done implements [backoff.Budget].
func (b *Kubernetes) Done(t backoff.Ticket, r backoff.Result) { b.counts.done(t, r) }
