package backoff

import (
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/strain"
	"github.com/gobackoff/backoff/internal/window"
)

const (
	defaultRatio  = 0.12
	defaultWindow = 10 * time.Second
	defaultFloor  = 3
	maxRatio      = 1e6
	newClient     = 3   // a client with fewer successes in its life has just started
	latePrice     = 3   // of a retry after a timeout; others cost 1
	wonPays       = 3   // times its price, for a retry that succeeds
	spareRoom     = 0.5 // is enough for a spare retry
)

// RetryBudget is the usual [Budget]: successes pay for retries. Within a
// Window there may be Ratio retries per call that succeeded or failed
// definitively. A client with few calls gets one more per three of them, up to
// Floor. A retry that succeeds pays for three more, so that a service
// that fails by chance is retried as often as without a budget. A retry after a
// timeout costs three times as much, and pays three times as much if it
// succeeds. First attempts are never refused.
//
// Retries also must not become the load that a service fails under. So the
// budget compares how long attempts take with how long they usually take. While
// they take 2.5 to 5 times as long, the more of that the more they differ among
// each other, there is no Floor, no spare retry, and retries do not pay. If one
// attempt in 50 times out as well, or they take 25 times as long, there are no
// retries at all. All of that comes back evenly within 15 s. A process that
// starts while the service is overloaded takes that for usual.
//
// A client that has had no success within the Window still has a spare retry:
// one at the start and one after each success, but not within two Windows of
// the last time it asked for a retry, and after a timeout only one time in
// four. While it has had fewer than three successes in its life, it has its
// spare retry at any time.
//
// Until the third success, one call may use all of its MaxAttempts, so that a
// program that makes one call and then ends gets what it asked for. If several
// calls run at once, it is the one with the most retries. A call without a limit
// counts as one with MaxAttempts 4.
//
// In any interval of length T there are at most
//
//	Ratio*paid + 3*won + Floor*(2 + T/(0.9*Window)) + spare + first
//
// retries, where
//
//	paid   counts the calls that succeeded or failed definitively, from
//	       asked - Window/10 to the end of the interval
//	asked  is when a retry was last asked for at least a Window before the
//	       interval
//	won    counts the retries that succeeded or failed definitively, from
//	       Window before the interval to its end; three times after a timeout,
//	       and not at all after the server said "too much", or for a hedge
//	spare  is the number of successes in the interval, plus one
//	first  is MaxAttempts - 1, by the largest limit of a Policy or of its
//	       ByClass, until the budget has had three successes, once in its
//	       life, and then 0
//
// So in an outage, in which nothing succeeds, there are Ratio*paid and what
// does not grow with the number of calls.
//
// docs/retrybudget.md derives the bound and the defaults, and shows what a
// fleet makes of them.
//
// The zero value is ready to use. A RetryBudget must not be copied, nor its
// fields changed, after first use. It is safe for concurrent use. A success
// costs one addition to a counter where processors rarely meet: no lock, no
// clock, no allocation. About 40 attempts a second, and all of a client with
// fewer calls, are measured: each reads the clock and takes a lock, which costs
// some 300 ns. A retry takes a lock twice, each time for some 30 ns. A Done
// that is never called is a success that is not counted. A second Done changes
// nothing for a retry, and counts twice for a first attempt.
//
// Sources: Google SRE book, "Handling Overload"; Brooker, "Fixing retries with
// token buckets and circuit breakers", 2022; Finagle's RetryBudget.
type RetryBudget struct {
	// Ratio is the number of retries per success. 0 means 0.12. A negative
	// Ratio is invalid. Finagle, Linkerd and Envoy use 0.2.
	Ratio float64
	// Window is the time over which successes and retries count. 0 means 10 s.
	// A negative Window is invalid.
	Window time.Duration
	// Floor is how many retries beyond Ratio a client with few calls may make:
	// one per three successes, up to Floor. 0 means 3. A negative Floor is
	// invalid.
	Floor int

	earned  window.Tally   // successes
	sampler strain.Sampler // of the first attempts that are measured

	mu          sync.Mutex
	grants      window.Grants   // retries, and the prices of those that succeeded
	left        uint64          // what the last look allows yet, until the window slides
	watch       clock.Stopwatch // of the gauge
	gauge       strain.Gauge    // of the service
	lookedUntil int64           // the number of the bucket after the one in which a retry last looked; 0 before the first
	spareAt     uint64          // the number of successes when a spare retry was last asked for
	spared      bool            // it was granted
	spareGrant  window.Grant    // the last one
	furthest    int             // how many retries the call has made that has got furthest
}

// GrantsFirst implements [Budget]. It reports whether the budget
// is valid and has no need to measure the attempt: first attempts are never
// refused.
func (b *RetryBudget) GrantsFirst() bool {
	return b != nil && b.Ratio >= 0 && b.Ratio <= maxRatio && b.Window >= 0 && b.Floor >= 0 &&
		!b.sampler.Chosen(b.earned.Here())
}

// Reserve implements [Budget].
func (b *RetryBudget) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	if a.First() {
		return Ticket{}, 0, true
	}
	if a.Now.IsZero() {
		a.Now = clock.Now()
	}
	b.mu.Lock()
	g, ok := b.grant(&a)
	b.mu.Unlock()
	if ok && (a.Hedge || a.Class == ClassThrottled) {
		g |= window.Fruitless
	}
	return Ticket{Word: uint64(g)}, 0, ok
}

// grant grants a retry if the last look at the window allows it, or a new one
// does.
func (b *RetryBudget) grant(a *Attempt) (window.Grant, bool) {
	price := uint64(1)
	if a.TimedOut {
		price = latePrice
	}
	if price <= b.left && b.grants.Within(a.Now, b.window()) {
		b.left -= price
		return b.grants.Give(price), true
	}
	return b.look(a, price)
}

// look dates the successes since the last look, and grants a retry if the window
// allows it, or the spare one is there, or it is of the first call.
func (b *RetryBudget) look(a *Attempt, price uint64) (window.Grant, bool) {
	earned := b.earned.Total()
	b.advance(a.Now, earned)
	bucket := b.grants.Bucket()
	quiet := b.lookedUntil == 0 || bucket-b.lookedUntil >= 2*window.Buckets
	b.lookedUntil = bucket + 1
	room, certain := b.gauge.Room(b.watch.Elapsed(a.Now))
	limit, used := b.allowed(room, certain), b.grants.Least(window.Bad)
	b.left = max(limit, used) - used
	switch {
	case price <= b.left:
		b.left -= price
		return b.grants.Give(price), true
	case limit < price && room >= spareRoom && (!a.TimedOut || oneInFour(a.Now)) && b.spare(quiet, earned):
		b.spareGrant = b.grants.Spare(price)
		return b.spareGrant, true
	case earned < newClient && b.grantFurther(a.Number, a.MaxAttempts):
		return b.grants.Spare(price) | window.Led, true
	}
	return 0, false
}

// advance moves the window to a reading of the clock.
func (b *RetryBudget) advance(now time.Time, earned uint64) {
	b.left = 0
	b.grants.Start(b.earned.Born())
	b.grants.Advance(now, b.window(), earned)
}

// oneInFour draws from the clock, so that a fleet draws differently, and a
// simulation the same again.
func oneInFour(now time.Time) bool {
	const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	return uint64(now.UnixNano())*golden>>62 == 0
}

// spare takes the retry of a client without recent success. quiet means that no
// retry was asked for within two Windows.
func (b *RetryBudget) spare(quiet bool, earned uint64) bool {
	if earned != b.spareAt {
		b.spareAt, b.spared = earned, false
	}
	quiet = quiet || earned < newClient
	granted := quiet && !b.spared
	b.spared = b.spared || quiet
	return granted
}

// grantFurther takes a retry of the first call. The budget cannot tell calls apart:
// it grants a retry whose number is higher than any before, so the first calls
// together get at most MaxAttempts - 1.
func (b *RetryBudget) grantFurther(number, most int) bool {
	if most <= 0 {
		most = defaultMaxAttempts
	}
	retries := number - 1
	if number > most || retries <= b.furthest {
		return false
	}
	b.furthest = retries
	return true
}

// allowed is how many retries the window allows, with so much room left. It
// counts in millionths, because in floats 100 * 0.29 is less than 29.
func (b *RetryBudget) allowed(room, certain float64) uint64 {
	const unit = 1_000_000
	paid, won := float64(b.grants.Least(window.Good)), float64(b.grants.Won())
	share := math.Round(limits.Or(b.Ratio, defaultRatio) * unit)
	floor := float64(limits.Or(b.Floor, defaultFloor)) * unit
	return uint64((certain*paid*share + room*(min(math.Floor(paid*unit/3), floor)+wonPays*won*unit)) / unit)
}

func (b *RetryBudget) window() time.Duration {
	if b.Window <= 0 {
		return defaultWindow
	}
	return b.Window
}

// Done implements [Budget].
func (b *RetryBudget) Done(t Ticket, r Result) {
	answered := r.Answered()
	if g := window.Grant(t.Word); g != 0 {
		answered = b.settle(g, &r, answered) && answered
	} else if r.Took > 0 && b.mu.TryLock() { // one sample more or less does not matter
		b.measure(&r)
		b.mu.Unlock()
	}
	if answered {
		b.earned.Add()
	}
}

// settle ends a retry, and gives it back if it was not made. It reports whether
// its result counts: a second one does not.
func (b *RetryBudget) settle(g window.Grant, r *Result, answered bool) (counts bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first, known := b.grants.Done(g)
	switch {
	case known && !first:
		return false
	case first && r.NotSent:
		b.giveBack(g)
	case answered && g&window.Fruitless == 0:
		b.grants.Win(g)
	}
	if r.Took > 0 {
		b.measure(r)
	}
	return true
}

func (b *RetryBudget) giveBack(g window.Grant) {
	b.grants.GiveBack(g)
	switch {
	case g&window.Led != 0:
		b.furthest--
	case g&^window.Fruitless == b.spareGrant: // as if it had not been asked for
		b.spared, b.lookedUntil = false, 0
	}
}

// measure takes how long an attempt took that succeeded or timed out. Under
// strain it takes back what is left to grant.
func (b *RetryBudget) measure(r *Result) {
	if r.Failed && !r.TimedOut || r.NotSent || r.Canceled {
		return
	}
	now := b.watch.Elapsed(clock.Now())
	b.sampler.Sampled(now, b.earned.Total)
	if b.gauge.Add(now, r.Took, r.TimedOut) {
		b.left = 0
	}
}

// RetryBudgetStats is the state of a [RetryBudget]. Retries may exceed Allowed:
// the successes that paid for them leave the window first.
type RetryBudgetStats struct {
	Successes uint64 // within the window
	Retries   uint64 // granted within the window, less those that were not made; one after a timeout counts as three
	Allowed   uint64 // by these successes, plus the Retries that were spare or of the first call
	Strained  bool   // the service is, or was within 15 s, much slower than usual, and Allowed is less for that
}

// Stats returns the state of the budget at this moment.
func (b *RetryBudget) Stats() RetryBudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := clock.Now()
	b.advance(now, b.earned.Total())
	room, certain := b.gauge.Room(b.watch.Elapsed(now))
	own := b.grants.Most(window.Other)
	return RetryBudgetStats{
		Successes: b.grants.Least(window.Good),
		Retries:   b.grants.Most(window.Bad) + own,
		Allowed:   b.allowed(room, certain) + own,
		Strained:  room < 1,
	}
}

// Pace implements [Budget]: a retry that was granted waits no longer.
func (b *RetryBudget) Pace(t Ticket) (Ticket, time.Duration, bool) { return t, 0, true }

// Confirm implements [Budget]: a retry that was granted may be made.
func (b *RetryBudget) Confirm(Ticket) bool { return true }

// Validate reports every field that is negative, and a Ratio that is NaN or beyond
// a million.
func (b *RetryBudget) Validate() error {
	if b == nil {
		return invalid("RetryBudget", "is nil")
	}
	var ratio, window, floor error
	if !(b.Ratio >= 0 && b.Ratio <= maxRatio) {
		ratio = invalid("RetryBudget.Ratio", "is "+strconv.FormatFloat(b.Ratio, 'g', -1, 64)+", want a number of retries per success")
	}
	if b.Window < 0 {
		window = negative("RetryBudget.Window", b.Window)
	}
	if b.Floor < 0 {
		floor = invalid("RetryBudget.Floor", "is "+strconv.Itoa(b.Floor)+", want 0 or more")
	}
	return errors.Join(ratio, window, floor)
}
