package presets

import (
	"cmp"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// EnvoyBudget is Envoy's retry_budget, a setting of a cluster's circuit
// breaker. At any moment there may be as many pending retries as BudgetPercent
// of the active attempts, rounded down, or MinRetryConcurrency if that is more.
// A retry is pending from the decision to retry until its end, through its
// backoff. It is active, and so widens the budget, once its backoff is over.
//
// An attempt that has failed is no longer active when its retry is asked for.
// So if all attempts fail at once, and fast, only the minimum is left, as in
// Envoy with responses that consist of headers only (#30205).
//
// It is safe for concurrent use; its fields must not be changed after first
// use. If Done is never called for an attempt, the attempt stays active or
// pending, as a hanging request does in Envoy. A second Done changes nothing.
//
// Source: Envoy, circuit_breaker.proto, upstream/resource_manager_impl.h and
// router/retry_state_impl.cc. In Envoy a race may exceed the limits; here it
// cannot. The newer budget_interval, which counts requests over a time, is not
// part of it: see [KubernetesBudget].
type EnvoyBudget struct {
	backoff.BudgetDefaults

	// BudgetPercent is a percentage, 0 to 100.
	BudgetPercent float64
	// MinRetryConcurrency is how many retries may always be pending, 0 or more.
	MinRetryConcurrency int

	mu      sync.Mutex
	ledger  ledger
	active  int
	retries int
}

// NewEnvoyBudget returns a retry_budget with its defaults: 20 %, and 3.
func NewEnvoyBudget() *EnvoyBudget {
	return &EnvoyBudget{BudgetPercent: 20, MinRetryConcurrency: 3}
}

// The note of an attempt says what it counts as.
const (
	asActive = 1 << iota
	asRetry
)

// Reserve implements [backoff.Budget].
func (b *EnvoyBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note := uint64(asActive)
	switch {
	case a.Hedge:
		note = asRetry | asActive
	case !a.First():
		note = asRetry
	}
	if note&asRetry != 0 && b.retries >= b.limit() {
		return backoff.Ticket{}, 0, false
	}
	b.count(note, 1)
	b.ledger.keepAll = true
	return b.ledger.add(note), 0, true
}

// Confirm implements [backoff.Budget]. The backoff is over, so the retry is
// active.
func (b *EnvoyBudget) Confirm(t backoff.Ticket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if note, ok := b.ledger.young[t.Word]; ok && note == asRetry {
		b.count(asActive, 1)
		b.ledger.young[t.Word] = asRetry | asActive
	}
	return true
}

// Done implements [backoff.Budget].
func (b *EnvoyBudget) Done(t backoff.Ticket, _ backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note, _ := b.ledger.remove(t)
	b.count(note, -1)
}

// count adds to the counts that an attempt belongs to.
func (b *EnvoyBudget) count(note uint64, by int) {
	if note&asActive != 0 {
		b.active += by
	}
	if note&asRetry != 0 {
		b.retries += by
	}
}

// limit returns how many retries may be pending.
func (b *EnvoyBudget) limit() int {
	return max(int(b.BudgetPercent/100*float64(b.active)), b.MinRetryConcurrency)
}

// Load returns how many attempts are active, and how many retries are pending.
func (b *EnvoyBudget) Load() (active, retries int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.active, b.retries
}

// Validate returns an error that names a field out of its range.
func (b *EnvoyBudget) Validate() error {
	if b == nil {
		return missing("EnvoyBudget")
	}
	return cmp.Or(
		check(b.BudgetPercent >= 0 && b.BudgetPercent <= 100, "EnvoyBudget.BudgetPercent", b.BudgetPercent, "0 to 100"),
		check(b.MinRetryConcurrency >= 0, "EnvoyBudget.MinRetryConcurrency", b.MinRetryConcurrency, "0 or more"),
	)
}
