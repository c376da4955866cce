package presets

import (
	"fmt"
	"iter"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
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
