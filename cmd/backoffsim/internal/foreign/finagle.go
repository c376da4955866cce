package foreign

import (
	"math"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/ledger"
)

// Finagle is the RetryBudget of Finagle, and of Linkerd after it: a leaky
// bucket. Each deposit pays for PercentCanRetry retries, and expires after TTL.
// In addition there is a reserve of MinRetriesPerSec for each second of TTL.
// All of the reserve can be used at once: 100 retries by default, in every
// process of a fleet.
//
// Deposits and withdrawals expire by tenths of TTL. As in the originals, a
// tenth lasts until the first call after its end, so TTL is longer where calls
// are rare. A token is 1/1000 of a deposit, and a retry costs
// 1000/PercentCanRetry tokens, rounded down.
//
// Finagle also limits the requeues of one call to a fifth of the balance at its
// start. This type does not; use MaxAttempts. If an attempt was not sent, what
// it paid is given back, and what it was paid is taken back. The originals have
// no such case.
//
// It is safe for concurrent use; its fields must not be changed after first
// use. Withdrawals are atomic, so unlike in Linkerd the balance cannot be
// overdrawn. If deposits are made at the end of an attempt and Done is never
// called, the deposit is not made. A second Done changes nothing.
//
// Source: finagle-core, service/RetryBudget.scala, util-core, TokenBucket.scala
// and WindowedAdder.scala; tower, retry/budget/tps_budget.rs; linkerd2-proxy,
// app/outbound/http/retry.rs.
type Finagle struct {
	backoff.BudgetDefaults

	// TTL is how long a deposit counts, 1 to 60 s.
	TTL time.Duration
	// MinRetriesPerSec is the reserve, 0 to a million.
	MinRetriesPerSec int
	// PercentCanRetry is how many retries a deposit pays for, 0 to 1000. In
	// spite of its name it is a ratio: 0.2 is 20 %.
	PercentCanRetry float64
	// PaidBySuccess says that a call makes its deposit when it succeeds, instead
	// of when it begins.
	PaidBySuccess bool

	tower  bool // the ring is that of tower, and every answer that is not retried pays
	mu     sync.Mutex
	watch  clock.Stopwatch
	ledger ledger.Ledger
	ring   leakyRing
}

// NewFinagle returns the budget of Finagle's RetryFilter: 20 % of the
// calls begun in the last 10 s, and 10 a second.
func NewFinagle() *Finagle {
	return &Finagle{TTL: 10 * time.Second, MinRetriesPerSec: 10, PercentCanRetry: 0.2}
}

// NewFinagleRequeue returns the budget of Finagle's RequeueFilter, which
// every client has. It is that of [NewFinagle], but paid by calls that
// succeed.
func NewFinagleRequeue() *Finagle {
	b := NewFinagle()
	b.PaidBySuccess = true
	return b
}

// NewLinkerd returns the budget of Linkerd, which is tower's. It is that
// of [NewFinagle], but paid by responses that are not retried, and its
// ring has one more slot. tower truncates the reciprocal of its ratio, so that
// there 0.6 acts as 1.0 (tower #857); this budget does not.
func NewLinkerd() *Finagle {
	b := NewFinagle()
	b.PaidBySuccess, b.tower = true, true
	return b
}

// Reserve implements [backoff.Budget].
func (b *Finagle) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	now := a.Time()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	change := int64(0)
	switch {
	case !a.First():
		change = -b.price()
	case !b.PaidBySuccess:
		change = b.deposit()
	}
	if change < 0 && b.balance() < -change {
		return backoff.Ticket{}, 0, false
	}
	b.ring.written += change
	return b.ledger.Add(b.note(change)), 0, true
}

// Done implements [backoff.Budget].
func (b *Finagle) Done(t backoff.Ticket, r backoff.Result) {
	now := clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if note, ok := b.ledger.Remove(t); ok {
		b.advance(now)
		b.close(note, r)
	}
}

// close pays for an attempt that has ended, or undoes what was paid if the
// attempt was not sent.
func (b *Finagle) close(note uint64, r backoff.Result) {
	switch {
	case r.NotSent:
		b.undo(note)
	case b.PaidBySuccess && (!r.Failed || b.tower && r.Answered()):
		b.ring.written += b.deposit()
	}
}

// The note of an attempt is the number of the slot, and what was done to it.
const (
	deposited = 1
	withdrew  = 2
)

// note returns the note of an attempt that changed the balance.
func (b *Finagle) note(change int64) uint64 {
	note := b.ring.number << 2
	switch {
	case change > 0:
		note |= deposited
	case change < 0:
		note |= withdrew
	}
	return note
}

// undo undoes a change, unless it has expired.
func (b *Finagle) undo(note uint64) {
	slot := b.ring.slot(note>>2, b.size())
	switch {
	case slot == nil:
	case note&deposited != 0:
		*slot -= b.deposit()
	case note&withdrew != 0:
		*slot += b.price()
	}
}

// Balance returns how many retries could be made now.
func (b *Finagle) Balance() int {
	now := clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	return int(b.balance() / b.price())
}

// balance returns the balance in tokens, with the reserve.
func (b *Finagle) balance() int64 {
	reserve := int64(b.MinRetriesPerSec) * int64(b.TTL/time.Second) * b.price()
	return b.ring.sum() + reserve
}

// deposit returns how many tokens a deposit is worth.
func (b *Finagle) deposit() int64 {
	if b.PercentCanRetry == 0 {
		return 0
	}
	return 1000
}

// price returns how many tokens a retry costs.
func (b *Finagle) price() int64 {
	if b.PercentCanRetry == 0 {
		return 1
	}
	return int64(min(1000/b.PercentCanRetry, math.MaxInt32))
}

// size returns the number of slots besides the current one.
func (b *Finagle) size() int {
	if b.tower {
		return 10
	}
	return 9
}

// advance advances the ring to a reading of the clock.
func (b *Finagle) advance(now time.Time) {
	b.ring.advance(b.watch.Elapsed(now), max(1, b.TTL/10), b.size(), b.tower)
}

// A leakyRing holds the slots of a leaky bucket.
type leakyRing struct {
	written int64 // the balance of the current slot
	slots   [10]int64
	next    int           // index of the oldest slot, which the current one replaces when it is over
	number  uint64        // number of the current slot
	began   time.Duration // when the current slot began
}

// advance begins a new slot if the current one is over. After a long time the
// two systems skip different numbers of slots.
func (r *leakyRing) advance(now, width time.Duration, size int, tower bool) {
	d := now - r.began
	if d < width {
		return
	}
	skipped := d/width - 1
	if tower {
		skipped = (d - 1) / width
	}
	skipped = min(skipped, time.Duration(size))
	r.push(size, r.written)
	for range skipped {
		r.push(size, 0)
	}
	r.written, r.began = 0, now
}

// push replaces the oldest slot.
func (r *leakyRing) push(size int, tokens int64) {
	r.slots[r.next] = tokens
	r.next = (r.next + 1) % size
	r.number++
}

// slot returns the slot of the given number; nil if it has expired.
func (r *leakyRing) slot(number uint64, size int) *int64 {
	back := int(min(r.number-number, 100))
	switch {
	case back == 0:
		return &r.written
	case back > size:
		return nil
	}
	return &r.slots[(r.next-back+size)%size]
}

// sum returns the sum of all slots.
func (r *leakyRing) sum() int64 {
	sum := r.written
	for _, tokens := range r.slots {
		sum += tokens
	}
	return sum
}
