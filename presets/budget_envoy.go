package presets

import (
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// EnvoyBudget is Envoy's retry_budget, for a cluster's circuit breaker: retries that are
// out at once may be BudgetPercent of the attempts under way, truncated, or
// MinRetryConcurrency where that is more. A retry is out from the decision on, through
// its backoff, to its end; it is under way, and widens the budget, once its backoff is
// over.
//
// An attempt that has failed is not under way any more when its retry is asked for. So
// where all fail at once, and fast, the budget closes on the minimum, as Envoy's does
// with responses that are headers only (#30205).
//
// It is safe for concurrent use; its fields must not be changed after first use. An
// attempt whose Done never comes stays under way, or out, as a request that hangs does
// there; a second Done changes nothing.
//
// Source: Envoy, circuit_breaker.proto, upstream/resource_manager_impl.h and
// router/retry_state_impl.cc. Its limits may be overshot by a race; this one's may not.
// The newer budget_interval, which counts requests over a time, is not part of it: see
// [KubernetesBudget].
type EnvoyBudget struct {
	// BudgetPercent is a percentage, 0 to 100.
	BudgetPercent float64
	// MinRetryConcurrency is what may be out in any case, 0 or more.
	MinRetryConcurrency int

	mu      sync.Mutex
	ledger  ledger
	active  int
	retries int
}

// NewEnvoyBudget returns a retry_budget that was left at its defaults: 20 %, and 3.
func NewEnvoyBudget() *EnvoyBudget {
	return &EnvoyBudget{BudgetPercent: 20, MinRetryConcurrency: 3}
}

// A note is what an attempt counts as.
const (
	asActive = 1 << iota
	asRetry
)

// Reserve implements [backoff.Budget].
func (b *EnvoyBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note := uint64(asActive)
	switch a.Kind {
	case backoff.AttemptRetry:
		note = asRetry
	case backoff.AttemptHedge:
		note = asRetry | asActive
	}
	if note&asRetry != 0 && b.retries >= b.limit() {
		return backoff.Ticket{}, 0, false
	}
	b.count(note, 1)
	b.ledger.forever = true
	return b.ledger.open(note), 0, true
}

// Depart implements [backoff.Confirmer].
func (b *EnvoyBudget) Confirm(t backoff.Ticket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if note, ok := b.ledger.young[t[0]]; ok && note == asRetry {
		b.count(asActive, 1)
		b.ledger.young[t[0]] = asRetry | asActive
	}
	return true
}

// Done implements [backoff.Budget].
func (b *EnvoyBudget) Done(t backoff.Ticket, _ backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note, _ := b.ledger.close(t)
	b.count(note, -1)
}

func (b *EnvoyBudget) count(note uint64, by int) {
	if note&asActive != 0 {
		b.active += by
	}
	if note&asRetry != 0 {
		b.retries += by
	}
}

func (b *EnvoyBudget) limit() int {
	return max(int(b.BudgetPercent/100*float64(b.active)), b.MinRetryConcurrency)
}

// Load returns how many attempts are under way, and how many retries are out.
func (b *EnvoyBudget) Load() (active, retries int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.active, b.retries
}

// Validate names the field that is out of its range.
func (b *EnvoyBudget) Validate() error {
	if b == nil {
		return missing("EnvoyBudget")
	}
	return first(
		check(b.BudgetPercent >= 0 && b.BudgetPercent <= 100, "EnvoyBudget.BudgetPercent", b.BudgetPercent, "0 to 100"),
		check(b.MinRetryConcurrency >= 0, "EnvoyBudget.MinRetryConcurrency", b.MinRetryConcurrency, "0 or more"),
	)
}
