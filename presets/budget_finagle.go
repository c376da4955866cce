package presets

import (
	"math"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// FinagleBudget is the RetryBudget of Finagle, and of Linkerd after it: a leaky bucket.
// Each deposit pays for PercentCanRetry retries and expires after TTL; besides there is a
// reserve of MinRetriesPerSec for each second of TTL. Of the reserve, all can be used at
// once: 100 retries by default, in every process of a fleet.
//
// Deposits and withdrawals expire by tenths of TTL. Each of these lasts until somebody
// asks after its end, as there, so that TTL is stretched where calls are rare. A token is
// 1/1000 of a deposit, and a retry costs 1000/PercentCanRetry of them, truncated.
//
// What it does not do: bound the retries of one call to a fifth of the balance at its
// start, as Finagle's requeues are; for that there is MaxAttempts. Where an attempt was
// not made, what it paid is given back, and what it was paid is taken; the systems have
// no word for that.
//
// It is safe for concurrent use; its fields must not be changed after first use.
// Withdrawals are atomic, so there is no overdraft, unlike in Linkerd. A Done that never
// comes is a deposit not made, where deposits are made at the end; a second one changes
// nothing.
//
// Source: finagle-core, service/RetryBudget.scala, util-core, TokenBucket.scala and
// WindowedAdder.scala; tower, retry/budget/tps_budget.rs; linkerd2-proxy,
// app/outbound/http/retry.rs.
type FinagleBudget struct {
	// TTL is how long a deposit counts, 1 to 60 s.
	TTL time.Duration
	// MinRetriesPerSec is the reserve, 0 or more and at most a million.
	MinRetriesPerSec int
	// PercentCanRetry is the retries per deposit, 0 to 1000. It is a share, in spite of
	// its name: 0.2 is 20 %.
	PercentCanRetry float64
	// Deposits says when a deposit is made.
	Deposits Deposits

	tower  bool // the ring of tower
	mu     sync.Mutex
	watch  stopwatch
	ledger ledger
	ring   leakyRing
}

// Deposits says when a [FinagleBudget] is paid.
type Deposits uint8

const (
	// DepositAtStart pays for every call when it begins. It goes on paying through an
	// outage.
	DepositAtStart Deposits = iota
	// DepositOnSuccess pays for every call that succeeds.
	DepositOnSuccess
	// DepositOnAnswer pays for every answer that is not to be retried, be it an error.
	DepositOnAnswer
)

// NewFinagleBudget returns the budget of Finagle's RetryFilter: 20 % of the calls begun
// in the last 10 s, and 10 a second.
func NewFinagleBudget() *FinagleBudget {
	return &FinagleBudget{TTL: 10 * time.Second, MinRetriesPerSec: 10, PercentCanRetry: 0.2}
}

// NewFinagleRequeueBudget returns the budget of Finagle's RequeueFilter, which every
// client has: the same, but paid by calls that succeed.
func NewFinagleRequeueBudget() *FinagleBudget {
	b := NewFinagleBudget()
	b.Deposits = DepositOnSuccess
	return b
}

// NewLinkerdBudget returns the budget of Linkerd, which is tower's: the same, but paid by
// answers that are not retried, and with a ring of one tenth more. tower truncates the
// reciprocal of its ratio, so that there 0.6 acts as 1.0 (tower #857); this one does not.
func NewLinkerdBudget() *FinagleBudget {
	b := NewFinagleBudget()
	b.Deposits = DepositOnAnswer
	b.tower = true
	return b
}

// Reserve implements [backoff.Budget].
func (b *FinagleBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	now := a.Time()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	change := int64(0)
	switch {
	case a.Kind != backoff.AttemptFirst:
		change = -b.price()
	case b.Deposits == DepositAtStart:
		change = b.deposit()
	}
	if change < 0 && b.balance() < -change {
		return backoff.Ticket{}, 0, false
	}
	b.ring.written += change
	return b.ledger.open(b.note(change)), 0, true
}

// Done implements [backoff.Budget].
func (b *FinagleBudget) Done(t backoff.Ticket, r backoff.Result) {
	now := clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	note, ok := b.ledger.close(t)
	if !ok {
		return
	}
	b.advance(now)
	switch {
	case r.Outcome == backoff.OutcomeNotSent:
		b.undo(note)
	case b.Deposits != DepositAtStart && r.Outcome == backoff.OutcomeSuccess,
		b.Deposits == DepositOnAnswer && r.Outcome == backoff.OutcomeDefinitive:
		b.ring.written += b.deposit()
	}
}

// A note is the number of the slot, and what was done to it.
const (
	paid     = 1
	withdrew = 2
)

func (b *FinagleBudget) note(change int64) uint64 {
	note := b.ring.number << 2
	switch {
	case change > 0:
		note |= paid
	case change < 0:
		note |= withdrew
	}
	return note
}

func (b *FinagleBudget) undo(note uint64) {
	slot := b.ring.slot(note>>2, b.size())
	switch {
	case slot == nil:
	case note&paid != 0:
		*slot -= b.deposit()
	case note&withdrew != 0:
		*slot += b.price()
	}
}

// Balance returns how many retries could be made now.
func (b *FinagleBudget) Balance() int {
	now := clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	return int(b.balance() / b.price())
}

func (b *FinagleBudget) balance() int64 {
	reserve := int64(b.MinRetriesPerSec) * int64(b.TTL/time.Second) * b.price()
	return b.ring.sum() + reserve
}

func (b *FinagleBudget) deposit() int64 {
	if b.PercentCanRetry == 0 {
		return 0
	}
	return 1000
}

// price is what a retry costs.
func (b *FinagleBudget) price() int64 {
	if b.PercentCanRetry == 0 {
		return 1
	}
	return int64(min(1000/b.PercentCanRetry, math.MaxInt32))
}

// size is the number of slots besides the current one.
func (b *FinagleBudget) size() int {
	if b.tower {
		return 10
	}
	return 9
}

func (b *FinagleBudget) advance(now time.Time) {
	b.ring.advance(b.watch.read(now), max(1, b.TTL/10), b.size(), b.tower)
}

// A leakyRing is the slots of a leaky bucket.
type leakyRing struct {
	written int64 // to the current slot
	slots   [10]int64
	next    int           // the place of the current slot when it is over, that of the oldest
	number  uint64        // of the current slot
	turned  time.Duration // when it began
}

// advance begins a new slot if the current one has lasted its time. How many are skipped
// after a long one the two systems count in different ways.
func (r *leakyRing) advance(now, width time.Duration, size int, tower bool) {
	d := now - r.turned
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
	r.written, r.turned = 0, now
}

func (r *leakyRing) push(size int, tokens int64) {
	r.slots[r.next] = tokens
	r.next = (r.next + 1) % size
	r.number++
}

// slot returns the slot with a number, nil if it has expired.
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

func (r *leakyRing) sum() int64 {
	sum := r.written
	for _, tokens := range r.slots {
		sum += tokens
	}
	return sum
}

// Validate names the field that is out of its range.
func (b *FinagleBudget) Validate() error {
	if b == nil {
		return missing("FinagleBudget")
	}
	return first(
		check(b.TTL >= time.Second && b.TTL <= time.Minute, "FinagleBudget.TTL", b.TTL, "1s to 1m"),
		check(b.MinRetriesPerSec >= 0 && b.MinRetriesPerSec <= 1e6, "FinagleBudget.MinRetriesPerSec", b.MinRetriesPerSec, "0 to 1000000"),
		check(b.PercentCanRetry >= 0 && b.PercentCanRetry <= 1000, "FinagleBudget.PercentCanRetry", b.PercentCanRetry, "0 to 1000"),
		check(b.Deposits <= DepositOnAnswer, "FinagleBudget.Deposits", b.Deposits, "one of the constants"),
	)
}
