package presets

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/ledger"
)

// Budgets yields every budget with its name, such as "grpc-retry-throttling".
// The order is always the same, and the budgets are new ones.
func Budgets() iter.Seq2[string, backoff.Budget] {
	return each(func() []named[backoff.Budget] {
		return []named[backoff.Budget]{
			{"grpc-retry-throttling", NewGRPCThrottling()},
			{"aws-retry-quota", NewAWSQuota()},
			{"aws-retry-quota-2026", NewAWSQuota2026()},
		}
	})
}

// check returns an error that names a field, unless the field is valid.
func check(ok bool, field string, value any, want string) error {
	if ok {
		return nil
	}
	return backoff.Permanent(badfield.New("presets."+field, fmt.Sprintf("is %v, want %s", value, want)))
}

// The method GrantsFirst of BudgetDefaults would panic if the budget is nil.

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *AWSQuota) GrantsFirst() bool { return false }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *GRPCThrottling) GrantsFirst() bool { return false }

// GRPCThrottling is gRPC's retryThrottling, which gRPC keeps per server name: a
// count that starts at MaxTokens. An attempt whose failure could be retried
// takes one token, down to 0. That includes the last attempt of a call, and an
// attempt whose server said "don't retry". A success adds TokenRatio, up to
// MaxTokens. Retries and hedges are sent while the count is above half of
// MaxTokens.
//
// It is a switch rather than a bound. With MaxTokens 10 and TokenRatio 0.1,
// more than 9 % of failures end all retries, and after an outage it takes 61
// successes until a failure is retried again.
//
// It counts in thousandths: the ratio has three decimals, and more are ignored.
// In floating point, 10 successes after 5 failures would leave a little more or
// less than the half that decides.
//
// It is safe for concurrent use; its fields must not be changed after first
// use. gRPC counts a failure and decides in one step; here other attempts may
// come between. If Done is never called for an attempt, the attempt is not
// counted; a second Done changes nothing.
//
// Source: gRFC A6, "Throttling Retry Attempts and Hedged RPCs"; grpc-go,
// retryThrottler.
type GRPCThrottling struct {
	backoff.BudgetDefaults

	// MaxTokens is 1 to 1000.
	MaxTokens int
	// TokenRatio is more than 0, at least a thousandth.
	TokenRatio float64

	mu     sync.Mutex
	ledger ledger.Ledger
	taken  int64 // thousandths below MaxTokens, so that the zero value is full
}

// NewGRPCThrottling returns the throttling that gRPC's design gives as its
// example: maxTokens 10, tokenRatio 0.1. gRPC has none unless a service config
// asks for it.
func NewGRPCThrottling() *GRPCThrottling { return &GRPCThrottling{MaxTokens: 10, TokenRatio: 0.1} }

// Reserve implements [backoff.Budget].
func (b *GRPCThrottling) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !a.First() && 2*b.taken >= b.most() {
		return backoff.Ticket{}, 0, false
	}
	return b.ledger.Add(0), 0, true
}

// Done implements [backoff.Budget].
func (b *GRPCThrottling) Done(t backoff.Ticket, r backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.ledger.Remove(t); !ok {
		return
	}
	switch {
	case r.NotSent || r.Canceled:
	case !r.Failed:
		b.taken = max(0, b.taken-int64(b.TokenRatio*1000+1e-6))
	case !r.Answered():
		b.taken = min(b.most(), b.taken+1000)
	}
}

// most returns MaxTokens in thousandths.
func (b *GRPCThrottling) most() int64 { return 1000 * int64(b.MaxTokens) }

// Tokens returns the count.
func (b *GRPCThrottling) Tokens() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return float64(b.most()-b.taken) / 1000
}

// Validate returns an error that names a field out of its range.
func (b *GRPCThrottling) Validate() error {
	if b == nil {
		return backoff.Permanent(badfield.Nil("presets.GRPCThrottling", true))
	}
	return cmp.Or(
		check(b.MaxTokens >= 1 && b.MaxTokens <= 1000, "GRPCThrottling.MaxTokens", b.MaxTokens, "1 to 1000"),
		check(b.TokenRatio >= 0.001 && b.TokenRatio <= math.MaxInt32, "GRPCThrottling.TokenRatio", b.TokenRatio, "0.001 or more"),
	)
}
