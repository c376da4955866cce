package presets

import (
	"cmp"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/ledger"
)

// AWSQuota is the retry quota that each client of the AWS SDKs has: a number of
// tokens, full at the start, from which each retry takes some. A retry that
// succeeds returns what it took, and every success adds a little. A retry is
// refused when there are not enough tokens.
//
// So retries that succeed are free: up to about a third of random failures
// nothing is limited. Only successes refill the quota, never time.
//
// It is safe for concurrent use; its fields must not be changed after first
// use. If Done is never called for a retry, its tokens stay taken, as in the
// SDK. A second Done changes nothing. A retry that was granted and not sent
// returns its tokens; the SDK keeps them.
//
// Source: aws-sdk-go-v2, aws/retry/standard.go and aws/ratelimit. The sequences
// of its retry2026_test.go are tests of this type.
type AWSQuota struct {
	backoff.BudgetDefaults

	// Capacity is how many tokens there are at the start and at most, 0 or
	// more.
	Capacity int
	// Cost is what a retry takes, 0 or more.
	Cost int
	// TimeoutCost is what a retry takes after an attempt that timed out.
	TimeoutCost int
	// ThrottleCost is what a retry takes after a throttling error.
	ThrottleCost int
	// Increment is what a success adds, 0 or more.
	Increment int
	// FirstOnly adds the increment only if a first attempt succeeded.
	FirstOnly bool

	mu     sync.Mutex
	ledger ledger.Ledger
	taken  int // tokens below Capacity
}

// NewAWSQuota returns the quota that the standard and adaptive modes had until
// 2026: 500 tokens, 5 for a retry, 10 after a timeout, and 1 back for every
// success, also of a retry.
//
// The SDK for Python gives 1 back only if a first attempt succeeded.
func NewAWSQuota() *AWSQuota {
	return &AWSQuota{Capacity: 500, Cost: 5, TimeoutCost: 10, ThrottleCost: 5, Increment: 1}
}

// NewAWSQuota2026 returns the quota that AWS_NEW_RETRIES_2026=true chooses: 500
// tokens, 14 for a retry, 5 after a throttling error, and 1 back for a first
// attempt that succeeds.
func NewAWSQuota2026() *AWSQuota {
	return &AWSQuota{Capacity: 500, Cost: 14, TimeoutCost: 14, ThrottleCost: 5, Increment: 1, FirstOnly: true}
}

// Reserve implements [backoff.Budget].
func (b *AWSQuota) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.First() {
		return b.ledger.Add(0), 0, true
	}
	cost := b.cost(a)
	if b.taken+cost > b.Capacity {
		return backoff.Ticket{}, 0, false
	}
	b.taken += cost
	return b.ledger.Add(uint64(cost)<<1 | 1), 0, true
}

// cost returns what an attempt takes.
func (b *AWSQuota) cost(a backoff.Attempt) int {
	switch {
	case a.Class == backoff.ClassThrottled:
		return b.ThrottleCost
	case a.TimedOut:
		return b.TimeoutCost
	}
	return b.Cost
}

// Done implements [backoff.Budget].
func (b *AWSQuota) Done(t backoff.Ticket, r backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note, ok := b.ledger.Remove(t)
	if !ok || r.Failed {
		return
	}
	b.taken -= int(note >> 1)
	if !r.NotSent && (note == 0 || !b.FirstOnly) {
		b.taken -= b.Increment
	}
	b.taken = max(0, b.taken)
}

// Tokens returns how many tokens are left.
func (b *AWSQuota) Tokens() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Capacity - b.taken
}

// Validate returns an error that names a field out of its range.
func (b *AWSQuota) Validate() error {
	if b == nil {
		return backoff.Permanent(badfield.Nil("presets.AWSQuota", true))
	}
	return cmp.Or(
		check(b.Capacity >= 0, "AWSQuota.Capacity", b.Capacity, "0 or more"),
		check(b.Cost >= 0, "AWSQuota.Cost", b.Cost, "0 or more"),
		check(b.TimeoutCost >= 0, "AWSQuota.TimeoutCost", b.TimeoutCost, "0 or more"),
		check(b.ThrottleCost >= 0, "AWSQuota.ThrottleCost", b.ThrottleCost, "0 or more"),
		check(b.Increment >= 0, "AWSQuota.Increment", b.Increment, "0 or more"),
	)
}
