package sim

import (
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// The budgets of the reference's tables that nobody ships in this form: presets has those
// that somebody does. As all of a simulation runs on one goroutine, they take no locks.

// TokenBucket is a budget of tokens: full at first, Ratio of one for each call, and one less
// for each retry.
type TokenBucket struct {
	Ratio, Capacity float64
	// PaidBySuccess earns by attempts that succeed, instead of by calls that begin.
	PaidBySuccess bool
	// Floor is tokens per second that come in any case.
	Floor float64

	spent float64
	last  time.Time // when the floor was paid
}

// Reserve implements [backoff.Budget].
func (b *TokenBucket) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if a.Kind == backoff.AttemptFirst {
		if !b.PaidBySuccess {
			b.earn(b.Ratio)
		}
		return backoff.Ticket{}, 0, true
	}
	b.pay(a.Time())
	if b.spent+1 > b.Capacity+1e-9 { // ten tenths are a whole one
		return backoff.Ticket{}, 0, false
	}
	b.spent++
	return backoff.Ticket{}, 0, true
}

// pay adds what the floor has earned since it was last looked at.
func (b *TokenBucket) pay(now time.Time) {
	if b.Floor > 0 && !b.last.IsZero() {
		b.earn(b.Floor * now.Sub(b.last).Seconds())
	}
	b.last = now
}

func (b *TokenBucket) earn(tokens float64) { b.spent = max(0, b.spent-tokens) }

// Done implements [backoff.Budget].
func (b *TokenBucket) Done(_ backoff.Ticket, r backoff.Result) {
	if b.PaidBySuccess && r.Outcome == backoff.OutcomeSuccess {
		b.earn(b.Ratio)
	}
}

// ClassicThrottle is the adaptive throttling of the Google SRE book as it stands there, with
// 120 buckets of a second: [limit.Throttle] without its newest tenth.
type ClassicThrottle struct {
	// K is how many times what is accepted may be sent.
	K float64
	// MaxReject is the highest probability of a refusal; 1 is that of the book.
	MaxReject float64
	// Rand draws from [0,1).
	Rand func() float64

	second            int64
	buckets           [120]struct{ requests, accepts float64 }
	requests, accepts float64
}

// Reserve implements [backoff.Budget].
func (b *ClassicThrottle) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	now := b.advance(a.Time())
	p := min(b.MaxReject, max(0, (b.requests-b.K*b.accepts)/(b.requests+1)))
	b.buckets[now].requests++
	b.requests++
	return backoff.Ticket{}, 0, p == 0 || b.Rand() >= p
}

// Done implements [backoff.Budget].
func (b *ClassicThrottle) Done(_ backoff.Ticket, r backoff.Result) {
	if r.Outcome == backoff.OutcomeSuccess {
		b.buckets[b.advance(clock.Now())].accepts++
		b.accepts++
	}
}

// advance empties the buckets whose time is over, and returns the current one.
func (b *ClassicThrottle) advance(now time.Time) int {
	second := int64(math.Floor(now.Sub(epoch).Seconds()))
	for range min(second-b.second, int64(len(b.buckets))) {
		b.second++
		old := &b.buckets[b.second%int64(len(b.buckets))]
		b.requests -= old.requests
		b.accepts -= old.accepts
		old.requests, old.accepts = 0, 0
	}
	b.second = second
	return int(second % int64(len(b.buckets)))
}
