package backoff

import (
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/strain"
	"github.com/gobackoff/backoff/internal/window"
)

const (
	defaultRatio  = 0.12
	defaultWindow = 10 * time.Second
	defaultFloor  = 3
	maxRatio      = 1e6
	newClient     = 3   // successes in its life after which a client is no longer new
	latePrice     = 3   // price of a retry after a timeout; others cost 1
	wonPays       = 3   // retries of its price that a successful retry pays for
	spareRoom     = 0.5 // least room for a spare retry
)

// RetryBudget is the usual [Budget]: successes pay for retries. Within a Window
// there may be Ratio retries per call that succeeded or got a permanent error.
// A client with few calls may make up to Floor more. If it has not asked for a
// retry for two Windows, it may make a spare one. A retry that succeeds pays
// for three more. A retry after a timeout costs three times as much, and pays
// for three times as many.
//
// While attempts take much longer than usual, fewer retries are granted, down
// to none. First attempts are never refused. Until a new client has had three
// successes, one call may use all of its MaxAttempts. docs/retrybudget.md has
// the rule, and the bound on the retries of any interval.
//
// The zero value is ready to use. It is safe for concurrent use, and must not be
// copied, nor its fields changed, after first use.
//
// Sources: Google SRE book, "Handling Overload"; Brooker, "Fixing retries with
// token buckets and circuit breakers", 2022; Finagle's RetryBudget.
type RetryBudget struct {
	// Retries per success. Defaults to 0.12; negative is invalid.
	Ratio float64

	// Time over which successes and retries count. Defaults to 10 seconds;
	// negative is invalid.
	Window time.Duration

	// Retries beyond Ratio for a client with few calls: one per three successes,
	// up to Floor. Defaults to 3; negative is invalid.
	Floor int

	earned  window.Tally   // successes
	sampler strain.Sampler // chooses the first attempts that are measured

	mu          sync.Mutex
	grants      window.Grants   // retries, and the prices of those that succeeded
	left        uint64          // retries that the newest look still allows, until the window slides
	watch       clock.Stopwatch // clock of the gauge
	gauge       strain.Gauge    // strain of the service
	lookedUntil int64           // number of the bucket after that of the newest look; 0 before the first
	spareAt     uint64          // number of successes when a spare retry was last asked for
	spared      bool            // the spare retry of spareAt is taken
	spareGrant  window.Grant    // newest spare retry
	furthest    int             // most retries of one call so far
}

// GrantsFirst implements [Budget]. It is false if the budget is invalid, or is
// to measure how long the attempt takes.
func (b *RetryBudget) GrantsFirst() bool {
	return b != nil && b.Ratio >= 0 && b.Ratio <= maxRatio && b.Window >= 0 && b.Floor >= 0 &&
		!b.sampler.Chosen(b.earned.Here())
}

// Reserve implements [Budget].
func (b *RetryBudget) Reserve(a Attempt) (t Ticket, wait time.Duration, ok bool) {
	if a.Number <= 1 { // a.First() would copy a
		return t, 0, true
	}
	if a.Now.IsZero() {
		a.Now = clock.Now()
	}
	b.mu.Lock()
	g, ok := b.grant(&a)
	if ok && (a.Hedge || a.Class == ClassThrottled) {
		g |= window.Fruitless
	}
	t.Word = uint64(g) // before Unlock: the caller then copies t without waiting for the write
	b.mu.Unlock()
	return t, 0, ok
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

// look dates the successes since the last look. It grants a retry that the window
// allows, the spare one, or one of the first call.
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
	case limit < price && room >= spareRoom && (!a.TimedOut || draw.OneInFour(a.Now)) && b.spare(quiet, earned):
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

// spare takes the spare retry of a client without recent success. quiet means that
// no retry was asked for within two Windows.
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
	most = limits.Or(max(0, most), defaultMaxAttempts)
	retries := number - 1
	if number > most || retries <= b.furthest {
		return false
	}
	b.furthest = retries
	return true
}

// allowed returns how many retries the window allows, with so much room left. It
// counts in millionths, because in floats 100 * 0.29 is less than 29.
func (b *RetryBudget) allowed(room, certain float64) uint64 {
	const unit = 1_000_000
	paid, won := float64(b.grants.Least(window.Good)), float64(b.grants.Won())
	share := math.Round(limits.Or(b.Ratio, defaultRatio) * unit)
	floor := float64(limits.Or(b.Floor, defaultFloor)) * unit
	return uint64((certain*paid*share + room*(min(math.Floor(paid*unit/3), floor)+wonPays*won*unit)) / unit)
}

func (b *RetryBudget) window() time.Duration {
	return limits.Or(max(0, b.Window), defaultWindow)
}

// Done implements [Budget].
func (b *RetryBudget) Done(t Ticket, r Result) {
	answered := r.Answered()
	if g := window.Grant(t.Word); g != 0 {
		b.mu.Lock()
		answered = b.settle(g, &r, answered) && answered
		b.mu.Unlock()
	} else if r.Took > 0 && b.mu.TryLock() { // a sample that is lost does not matter
		b.measure(&r)
		b.mu.Unlock()
	}
	if answered {
		b.earned.Add()
	}
}

// settle ends a retry, and gives it back if it was not made. It reports whether
// the result counts, which a second one does not.
func (b *RetryBudget) settle(g window.Grant, r *Result, answered bool) (counts bool) {
	first, known := b.grants.Done(g)
	switch {
	case known && !first:
		return false
	case first && r.NotSent:
		b.giveBack(g)
	case answered && g&window.Fruitless == 0:
		b.grants.Win(g)
	}
	if b.sampler.Chosen(uint64(g)) { // as seldom as a first attempt
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

// measure records how long an attempt took, if it succeeded or timed out. Under
// strain nothing is left to grant without a new look.
func (b *RetryBudget) measure(r *Result) {
	if r.Took <= 0 || r.Failed && !r.TimedOut || r.NotSent || r.Canceled {
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
	Successes uint64 // successes in the window
	Retries   uint64 // retries granted in the window and not given back; one after a timeout counts as three
	Allowed   uint64 // retries that these successes pay for, plus those that were granted without a success
	Strained  bool   // whether the service was much slower than usual in the last 15 s, which lowers Allowed

	Rate    float64       // successes a second in the window
	Latency time.Duration // that attempts usually have; 0 if it is not known
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
		Rate:      b.grants.Rate(now.Sub(b.earned.Born()), b.window()),
		Latency:   b.gauge.Usual(),
	}
}

// Pace implements [Budget]: a retry that was granted waits no longer.
func (b *RetryBudget) Pace(t Ticket) (Ticket, time.Duration, bool) { return t, 0, true }

// Confirm implements [Budget]: a retry that was granted may be made.
func (b *RetryBudget) Confirm(Ticket) bool { return true }

// Validate reports every field that is negative, and a Ratio that is NaN or above
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
	return join(ratio, window, floor)
}
