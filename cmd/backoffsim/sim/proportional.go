package sim

import (
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// A Proportional is a circuit breaker that opens in part: it refuses a share of
// all attempts, and a controller moves the share once a second by the rate of
// errors of the last ten seconds. It is written after the descriptions of the
// adaptive circuit breaker of Semian (github.com/Shopify/semian, pull requests
// 760, 875, 899 and 1032), which also say the constants below. Semian learns
// the usual rate of errors, from 5 % on and up to 10 %; here it stays at 5 %.
type Proportional struct {
	backoff.BudgetDefaults

	// Rand returns numbers from [0,1).
	Rand func() float64

	second   int64
	buckets  [10]struct{ all, failed float64 }
	share    float64 // refused
	integral float64
}

const (
	usualErrors  = 0.05
	deadZone     = 0.25 * usualErrors // above the usual errors, where nothing happens
	gain         = 1
	integralGain = 0.1
	mostIntegral = 10
)

// Reserve implements [backoff.Budget].
func (b *Proportional) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.advance(a.Time())
	return backoff.Ticket{}, 0, b.share == 0 || b.Rand() >= b.share
}

// Done implements [backoff.Budget].
func (b *Proportional) Done(_ backoff.Ticket, r backoff.Result) {
	now := b.advance(clock.Now())
	b.buckets[now].all++
	if r.Outcome != backoff.OutcomeSuccess {
		b.buckets[now].failed++
	}
}

// advance controls the share once for every second that has passed, and returns
// the index of the current bucket.
func (b *Proportional) advance(now time.Time) int {
	n := int64(len(b.buckets))
	for second := int64(now.Sub(epoch) / time.Second); b.second < second; {
		b.control()
		b.second++
		b.buckets[b.second%n].all, b.buckets[b.second%n].failed = 0, 0
	}
	return int(b.second % n)
}

// control moves the share that is refused.
func (b *Proportional) control() {
	var all, failed float64
	for _, s := range b.buckets {
		all, failed = all+s.all, failed+s.failed
	}
	excess := failed/max(1, all) - usualErrors
	if excess > 0 && excess <= deadZone {
		excess = 0
	}
	p := excess - (1-excess)*b.share
	b.integral += p
	b.share = min(1, max(0, b.share+gain*p+integralGain*b.integral))
	b.integral = min(mostIntegral, max(-mostIntegral, b.integral))
}
