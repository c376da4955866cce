package presets

import (
	"fmt"
	"iter"
	"math"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
)

// Budgets yields every budget with its name, such as "grpc-retry-throttling". The order
// is the same every time and the budgets are new ones, as none has been used before.
func Budgets() iter.Seq2[string, backoff.Budget] {
	return func(yield func(string, backoff.Budget) bool) {
		for _, b := range budgets {
			if !yield(b.name, b.budget()) {
				return
			}
		}
	}
}

var budgets = []struct {
	name   string
	budget func() backoff.Budget
}{
	{"finagle-retry-budget", func() backoff.Budget { return NewFinagleBudget() }},
	{"finagle-requeue-budget", func() backoff.Budget { return NewFinagleRequeueBudget() }},
	{"linkerd-retry-budget", func() backoff.Budget { return NewLinkerdBudget() }},
	{"envoy-retry-budget", func() backoff.Budget { return NewEnvoyBudget() }},
	{"grpc-retry-throttling", func() backoff.Budget { return NewGRPCThrottling() }},
	{"aws-retry-quota", func() backoff.Budget { return NewAWSQuota() }},
	{"aws-retry-quota-2026", func() backoff.Budget { return NewAWSQuota2026() }},
	{"sre-client-ratio-10pct", func() backoff.Budget { return NewSREBudget() }},
	{"dotnet-retry-budget", func() backoff.Budget { return NewDotNetBudget() }},
	{"kubernetes-gep-3388", func() backoff.Budget { return NewKubernetesBudget() }},
	{"aws-adaptive", func() backoff.Budget { return NewAWSAdaptive() }},
}

// A ledger knows which attempts are out, with a note on each: what it has cost, or where
// it was counted. So each is settled once, whatever its Done does. Its owner's lock
// guards it.
//
// Where Done never comes, a budget could fill with attempts that will never end. So those
// are forgotten that were there before the last 65,536 which are out; unless the system
// itself holds on to them.
type ledger struct {
	last       uint64 // ticket
	young, old map[uint64]uint64
	forever    bool
}

const generation = 1 << 16

// open enters an attempt.
func (l *ledger) open(note uint64) backoff.Ticket {
	if l.young == nil || !l.forever && len(l.young) >= generation {
		l.old, l.young = l.young, make(map[uint64]uint64)
	}
	l.last++
	l.young[l.last] = note
	return backoff.Ticket{l.last}
}

// close strikes an attempt out, and returns its note; false if it was not out.
func (l *ledger) close(t backoff.Ticket) (note uint64, ok bool) {
	if note, ok = l.young[t[0]]; ok {
		delete(l.young, t[0])
		return note, true
	}
	note, ok = l.old[t[0]]
	delete(l.old, t[0])
	return note, ok
}

// millionths is a share as a whole number, for in floats 100 * 0.29 is less than 29.
func millionths(share float64) uint64 { return uint64(math.Round(max(0, share) * 1e6)) }

// check names a field that is not as it must be.
func check(ok bool, field string, value any, want string) error {
	if ok {
		return nil
	}
	return backoff.Permanent(badfield.New("presets."+field, fmt.Sprintf("is %v, want %s", value, want)))
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// missing refuses a nil budget.
func missing(name string) error {
	return backoff.Permanent(badfield.New("presets."+name, "is nil"))
}
