// Package foreign has the retry budgets of other systems that the simulator compares,
// beside those of package presets.
package foreign

import (
	"fmt"
	"iter"
	"maps"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/presets"
)

// Budgets yields every budget that the simulator knows with its name, those of
// package presets included. The order is always the same, and the budgets are new
// ones.
func Budgets() iter.Seq2[string, backoff.Budget] {
	return func(yield func(string, backoff.Budget) bool) {
		all := maps.Collect(presets.Budgets())
		all["sre-client-ratio-10pct"] = NewSREBudget()
		all["aws-adaptive"] = NewAWSAdaptive()
		all["finagle-retry-budget"] = NewFinagle()
		all["finagle-requeue-budget"] = NewFinagleRequeue()
		all["linkerd-retry-budget"] = NewLinkerd()
		all["envoy-retry-budget"] = NewEnvoy()
		all["dotnet-retry-budget"] = NewDotNet()
		all["kubernetes-gep-3388"] = NewKubernetes()
		for _, name := range names {
			if !yield(name, all[name]) {
				return
			}
		}
	}
}

var names = []string{
	"finagle-retry-budget", "finagle-requeue-budget", "linkerd-retry-budget", "envoy-retry-budget", "grpc-retry-throttling",
	"aws-retry-quota", "aws-retry-quota-2026", "sre-client-ratio-10pct", "dotnet-retry-budget", "kubernetes-gep-3388", "aws-adaptive",
}

// check returns an error that names a field, unless the field is valid.
func check(ok bool, field string, value any, want string) error {
	if ok {
		return nil
	}
	return backoff.Permanent(badfield.New("foreign."+field, fmt.Sprintf("is %v, want %s", value, want)))
}

// missing returns the error of a nil budget.
func missing(name string) error {
	return backoff.Permanent(badfield.New("foreign."+name, "is nil"))
}

// The method GrantsFirst of BudgetDefaults would panic if the budget is nil.

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *AdaptiveRate) GrantsFirst() bool { return false }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *SREBudget) GrantsFirst() bool { return false }
