package sim

import (
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// This file has the budgets of the reference's tables that no library ships.
// Those that some library ships are in the packages foreign and presets. A simulation runs on
// one goroutine, so these budgets take no locks.

// A TokenBucket is a budget of tokens. It is full at first. Each call adds
// Ratio of a token, and each retry takes one.
type TokenBucket struct {
	backoff.BudgetDefaults

	Ratio, Capacity float64
	// PaidBySuccess adds tokens for attempts that succeed, instead of for calls
	// that begin.
	PaidBySuccess bool

	spent float64 // below Capacity
}

// Reserve implements [backoff.Budget].
func (b *TokenBucket) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if a.First() {
		if !b.PaidBySuccess {
			b.add(b.Ratio)
		}
		return backoff.Ticket{}, 0, true
	}
	if b.spent+1 > b.Capacity+1e-9 { // ten times a tenth is one, despite rounding
		return backoff.Ticket{}, 0, false
	}
	b.spent++
	return backoff.Ticket{}, 0, true
}

func (b *TokenBucket) add(tokens float64) { b.spent = max(0, b.spent-tokens) }

// Done implements [backoff.Budget].
func (b *TokenBucket) Done(_ backoff.Ticket, r backoff.Result) {
	if b.PaidBySuccess && !r.Failed && !r.NotSent {
		b.add(b.Ratio)
	}
}

// A ClassicThrottle is the adaptive throttling of the Google SRE book,
// unchanged: it counts two minutes in buckets of a second.
type ClassicThrottle struct {
	backoff.BudgetDefaults

	// K is how many requests may be sent for each one that is accepted.
	K float64
	// MaxReject is the highest probability of a refusal. The book has 1.
	MaxReject float64
	// Rand returns numbers from [0,1).
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
	if !r.Failed && !r.NotSent {
		b.buckets[b.advance(clock.Now())].accepts++
		b.accepts++
	}
}

// advance empties the buckets that are too old, and returns the index of the
// current one.
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
