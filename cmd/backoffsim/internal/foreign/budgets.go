// Package foreign has the retry budgets of other systems that the simulator compares,
// beside those of package presets.
package foreign

import (
	"iter"
	"maps"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

// Budgets yields every budget that the simulator knows with its name, those of
// package presets included. The order is always the same, and the budgets are new
// ones.
func Budgets() iter.Seq2[string, backoff.Budget] {
	return func(yield func(string, backoff.Budget) bool) {
		all := maps.Collect(presets.Budgets())
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
