package foreign

import (
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// Envoy is Envoy's retry_budget, a setting of a cluster's circuit
// breaker. At any moment there may be as many pending retries as BudgetPercent
// of the active attempts, rounded down, or MinRetryConcurrency if that is more.
// A retry is pending from the decision to retry until its end, through its
// backoff. It is active, and so widens the budget, once its backoff is over.
//
// An attempt that has failed is no longer active when its retry is asked for.
// So if all attempts fail at once, and fast, only the minimum is left, as in
// Envoy with responses that consist of headers only (#30205).
//
// If Done is never called for an attempt, the attempt stays active or pending, as a
// hanging request does in Envoy.
//
// Source: Envoy, circuit_breaker.proto, upstream/resource_manager_impl.h and
// router/retry_state_impl.cc. In Envoy a race may exceed the limits; here it
// cannot. The newer budget_interval, which counts requests over a time, is not
// part of it: see [Kubernetes].
type Envoy struct {
	backoff.BudgetDefaults

	// BudgetPercent is a percentage, 0 to 100.
	BudgetPercent float64
	// MinRetryConcurrency is how many retries may always be pending, 0 or more.
	MinRetryConcurrency int

	mu      sync.Mutex
	newest  uint64            // ticket
	notes   map[uint64]uint64 // by ticket: what the attempt counts as
	active  int
	retries int
}

// NewEnvoy returns a retry_budget with its defaults: 20 %, and 3.
func NewEnvoy() *Envoy {
	return &Envoy{BudgetPercent: 20, MinRetryConcurrency: 3, notes: map[uint64]uint64{}}
}

// What an attempt counts as.
const (
	asActive = 1 << iota
	asRetry
)

// Reserve implements [backoff.Budget].
func (b *Envoy) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
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
	b.newest++
	b.notes[b.newest] = note
	return backoff.Ticket{Word: b.newest}, 0, true
}

// Confirm implements [backoff.Budget]. The backoff is over, so the retry is
// active.
func (b *Envoy) Confirm(t backoff.Ticket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.notes[t.Word] == asRetry {
		b.count(asActive, 1)
		b.notes[t.Word] = asRetry | asActive
	}
	return true
}

// Done implements [backoff.Budget].
func (b *Envoy) Done(t backoff.Ticket, _ backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(b.notes[t.Word], -1)
	delete(b.notes, t.Word)
}

// count adds to the counts that an attempt belongs to.
func (b *Envoy) count(note uint64, by int) {
	if note&asActive != 0 {
		b.active += by
	}
	if note&asRetry != 0 {
		b.retries += by
	}
}

// limit returns how many retries may be pending.
func (b *Envoy) limit() int {
	return max(int(b.BudgetPercent/100*float64(b.active)), b.MinRetryConcurrency)
}

// Load returns how many attempts are active, and how many retries are pending.
func (b *Envoy) Load() (active, retries int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.active, b.retries
}
