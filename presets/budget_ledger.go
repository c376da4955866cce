package presets

import (
	"fmt"
	"iter"
	"math"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
)

// Budgets yields every budget with its name, such as "grpc-retry-throttling".
// The order is always the same, and the budgets are new ones.
func Budgets() iter.Seq2[string, backoff.Budget] {
	return func(yield func(string, backoff.Budget) bool) {
		for _, b := range []struct {
			name   string
			budget backoff.Budget
		}{
			{"finagle-retry-budget", NewFinagleBudget()},
			{"finagle-requeue-budget", NewFinagleRequeueBudget()},
			{"linkerd-retry-budget", NewLinkerdBudget()},
			{"envoy-retry-budget", NewEnvoyBudget()},
			{"grpc-retry-throttling", NewGRPCThrottling()},
			{"aws-retry-quota", NewAWSQuota()},
			{"aws-retry-quota-2026", NewAWSQuota2026()},
			{"sre-client-ratio-10pct", NewSREBudget()},
			{"dotnet-retry-budget", NewDotNetBudget()},
			{"kubernetes-gep-3388", NewKubernetesBudget()},
			{"aws-adaptive", NewAWSAdaptive()},
		} {
			if !yield(b.name, b.budget) {
				return
			}
		}
	}
}

// A ledger keeps a note on each attempt that is under way: what it cost, or
// where it was counted. So each attempt is accounted for once, however often
// Done is called. The lock of its owner guards it.
//
// If Done were never called, a budget could fill up with attempts that never
// end. So the ledger forgets all but the last 65,536 attempts at least, unless
// the system itself keeps them all.
type ledger struct {
	last       uint64            // number of the last ticket
	young, old map[uint64]uint64 // notes by ticket; old are those before the last maxYoung
	keepAll    bool              // forget no attempt
}

// maxYoung is how many attempts young holds before it becomes old.
const maxYoung = 1 << 16

// add enters an attempt, and returns its ticket.
func (l *ledger) add(note uint64) backoff.Ticket {
	if l.young == nil || !l.keepAll && len(l.young) >= maxYoung {
		l.old, l.young = l.young, make(map[uint64]uint64)
	}
	l.last++
	l.young[l.last] = note
	return backoff.Ticket{Word: l.last}
}

// find returns the note of an attempt; false if the attempt is not in the
// ledger.
func (l *ledger) find(t backoff.Ticket) (note uint64, ok bool) {
	if note, ok = l.young[t.Word]; ok {
		return note, true
	}
	note, ok = l.old[t.Word]
	return note, ok
}

// remove removes an attempt, and returns its note; false if the attempt is not
// in the ledger.
func (l *ledger) remove(t backoff.Ticket) (note uint64, ok bool) {
	note, ok = l.find(t)
	delete(l.young, t.Word)
	delete(l.old, t.Word)
	return note, ok
}

// millionths returns a share as a whole number. In floating point, 100 * 0.29
// is less than 29.
func millionths(share float64) uint64 { return uint64(math.Round(max(0, share) * 1e6)) }

// check returns an error that names a field, unless the field is valid.
func check(ok bool, field string, value any, want string) error {
	if ok {
		return nil
	}
	return backoff.Permanent(badfield.New("presets."+field, fmt.Sprintf("is %v, want %s", value, want)))
}

// missing returns the error of a nil budget.
func missing(name string) error {
	return backoff.Permanent(badfield.New("presets."+name, "is nil"))
}

// The method GrantsFirst of BudgetDefaults would panic if the budget is nil.

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *AWSQuota) GrantsFirst() bool { return false }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *AdaptiveRate) GrantsFirst() bool { return false }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *DotNetBudget) GrantsFirst() bool { return false }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *EnvoyBudget) GrantsFirst() bool { return false }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *FinagleBudget) GrantsFirst() bool { return false }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *GRPCThrottling) GrantsFirst() bool { return false }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *KubernetesBudget) GrantsFirst() bool { return false }

// GrantsFirst implements [backoff.Budget]. It is false, also if b is nil.
func (b *SREBudget) GrantsFirst() bool { return false }
