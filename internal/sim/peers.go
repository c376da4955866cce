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
	// Floor is retries per second that there may be in any case.
	Floor float64

	spent float64
	idle  time.Time // from when on the floor has not been used
}

// Reserve implements [backoff.Budget].
func (b *TokenBucket) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	switch {
	case a.Kind == backoff.KindFirst:
		if !b.PaidBySuccess {
			b.earn()
		}
	case b.spent+1 <= b.Capacity+1e-9: // ten tenths are a whole one
		b.spent++
	case !b.floored(a.Time()):
		return backoff.Ticket{}, 0, false
	}
	return backoff.Ticket{}, 0, true
}

// floored takes one of the retries that there are in any case.
func (b *TokenBucket) floored(now time.Time) bool {
	if b.Floor <= 0 {
		return false
	}
	apart := time.Duration(float64(time.Second) / b.Floor)
	if now.Sub(b.idle) < apart {
		return false
	}
	b.idle = now
	return true
}

func (b *TokenBucket) earn() { b.spent = max(0, b.spent-b.Ratio) }

// Done implements [backoff.Budget].
func (b *TokenBucket) Done(_ backoff.Ticket, o backoff.Outcome) {
	if b.PaidBySuccess && o == backoff.OutcomeSuccess {
		b.earn()
	}
}

// ClassicThrottle is the adaptive throttling of the Google SRE book as it stands there, with
// 120 buckets of a second: [backoff.Throttle] without its newest tenth.
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
func (b *ClassicThrottle) Done(_ backoff.Ticket, o backoff.Outcome) {
	if o == backoff.OutcomeSuccess {
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
