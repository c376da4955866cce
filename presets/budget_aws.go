package presets

import (
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// AWSQuota is the retry quota of the AWS SDKs, of a client: a number of tokens, full at
// the start, of which each retry takes some. A retry that succeeds gets back what it
// took; every success adds a little. A retry is refused when there are not enough.
//
// So retries that work are free: up to about a third of random failures nothing is
// limited. It is refilled by success only, never by time.
//
// It is safe for concurrent use; its fields must not be changed after first use. The
// tokens of a retry whose Done never comes stay taken, as there; a second Done changes
// nothing. A retry that was granted and not made gives its tokens back, which the SDK
// keeps.
//
// Source: aws-sdk-go-v2, aws/retry/standard.go and aws/ratelimit; its retry2026_test.go,
// whose sequences are tests of this.
type AWSQuota struct {
	// Capacity is the tokens at the start, and at most, 0 or more.
	Capacity int
	// Cost is what a retry takes, 0 or more.
	Cost int
	// TimeoutCost is what one takes after an attempt that its own time ended.
	TimeoutCost int
	// ThrottleCost is what one takes after a throttling error.
	ThrottleCost int
	// Increment is what a success adds, 0 or more.
	Increment int
	// FirstOnly adds the increment only to the success of a first attempt.
	FirstOnly bool

	mu     sync.Mutex
	ledger ledger
	taken  int // below Capacity
}

// NewAWSQuota returns the quota of the standard and adaptive modes as they were until
// 2026: 500 tokens, 5 for a retry, 10 after a timeout, and 1 for every success, that of a
// retry included.
//
// The SDK for Python adds the 1 only where a first attempt succeeded.
func NewAWSQuota() *AWSQuota {
	return &AWSQuota{Capacity: 500, Cost: 5, TimeoutCost: 10, ThrottleCost: 5, Increment: 1}
}

// NewAWSQuota2026 returns the quota that AWS_NEW_RETRIES_2026=true chooses: 500 tokens,
// 14 for a retry, 5 after a throttling error, and 1 for a first attempt that succeeds.
func NewAWSQuota2026() *AWSQuota {
	return &AWSQuota{Capacity: 500, Cost: 14, TimeoutCost: 14, ThrottleCost: 5, Increment: 1, FirstOnly: true}
}

// Reserve implements [backoff.Budget].
func (b *AWSQuota) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.Kind == backoff.AttemptFirst {
		return b.ledger.open(0), 0, true
	}
	cost := b.cost(a)
	if b.taken+cost > b.Capacity {
		return backoff.Ticket{}, 0, false
	}
	b.taken += cost
	return b.ledger.open(uint64(cost)<<1 | 1), 0, true
}

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
	note, ok := b.ledger.close(t)
	if !ok || r.Outcome != backoff.OutcomeSuccess && r.Outcome != backoff.OutcomeNotSent {
		return
	}
	b.taken -= int(note >> 1)
	if r.Outcome == backoff.OutcomeSuccess && (note == 0 || !b.FirstOnly) {
		b.taken -= b.Increment
	}
	b.taken = max(0, b.taken)
}

// Tokens returns what is left.
func (b *AWSQuota) Tokens() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Capacity - b.taken
}

// Validate names the field that is out of its range.
func (b *AWSQuota) Validate() error {
	if b == nil {
		return missing("AWSQuota")
	}
	return first(
		check(b.Capacity >= 0, "AWSQuota.Capacity", b.Capacity, "0 or more"),
		check(b.Cost >= 0, "AWSQuota.Cost", b.Cost, "0 or more"),
		check(b.TimeoutCost >= 0, "AWSQuota.TimeoutCost", b.TimeoutCost, "0 or more"),
		check(b.ThrottleCost >= 0, "AWSQuota.ThrottleCost", b.ThrottleCost, "0 or more"),
		check(b.Increment >= 0, "AWSQuota.Increment", b.Increment, "0 or more"),
	)
}
