package backoff

import (
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/window"
)

// A Kind says which of the attempts of a call an [Attempt] is.
type AttemptKind uint8

const (
	// AttemptFirst is the first attempt of a call.
	AttemptFirst AttemptKind = iota
	// AttemptRetry is any attempt that follows a failure.
	AttemptRetry
	// AttemptHedge runs beside an attempt that is slow.
	AttemptHedge
)

// An Attempt is what a [Budget] is asked to pay for.
type Attempt struct {
	Number   int         // from 1
	Kind     AttemptKind // first, retry or hedge
	Class    Class       // of the failure before it
	TimedOut bool        // the attempt before it was ended by its own timeout
	Now      time.Time   // the caller's reading of the clock; zero if it has none
	Patience float64     // of the call, by [WithPatience]; 0 counts as 1
}

// Time returns Now, or reads the clock where the caller has not.
func (a Attempt) Time() time.Time {
	if a.Now.IsZero() {
		return clock.Now()
	}
	return a.Now
}

// An Outcome is how an attempt ended.
type Outcome uint8

const (
	// OutcomeSuccess: it returned nil.
	OutcomeSuccess Outcome = iota
	// OutcomeDefinitive: the server answered, with an error that retrying will not change.
	OutcomeDefinitive
	// OutcomeTransient: it failed in a way that may pass.
	OutcomeTransient
	// OutcomeThrottled: the server said "too much".
	OutcomeThrottled
	// OutcomeTimeout: the attempt's own timeout ended it.
	OutcomeTimeout
	// OutcomeCanceled: the caller ended it.
	OutcomeCanceled
	// OutcomeNotSent: it was granted and not made.
	OutcomeNotSent
)

// A Ticket is a budget's note to itself between Reserve and Done, so that it need
// not remember who is out. The first word is the budget's, to use as it likes; the
// others are for [JoinBudgets].
type Ticket [maxBudgets]uint64

// A Budget bounds what calls, and above all their retries, may cost a service. It is
// shared by all the policies, hedges and goroutines that call that service.
//
// Reserve is asked before every attempt, the first included, and for a retry
// before the sleep that leads to it. It answers whether the attempt may be made,
// and after how long at the earliest. A refusal ends the call at once, with an error that
// matches [ErrBudget] and the operation's own last error. Done tells, once, what became of
// an attempt that was granted, OutcomeNotSent if it was not made.
//
// Both must be safe for concurrent use and must not block. A budget must stay right
// if Done never comes, because an operation may hang for ever, and if it comes twice.
// A budget with a Validate() error method is asked by [Policy.Validate].
type Budget interface {
	Reserve(a Attempt) (t Ticket, wait time.Duration, ok bool)
	Done(t Ticket, o Outcome)
}

// Confirmer is a [Budget] that is also asked when an attempt it granted is really
// about to be made: for a retry, after the sleep. By this a budget tells calls that
// are asleep from attempts that are under way. If Depart refuses, the call ends as if Reserve had, and
// Done is told OutcomeNotSent. It must not block.
type Confirmer interface {
	Budget
	Confirm(t Ticket) bool
}

const (
	defaultRatio  = 0.12
	defaultWindow = 10 * time.Second
	defaultFloor  = 3
	maxRatio      = 1e6
)

// RetryBudget is the default [Budget]: retries are paid by success. Within a Window
// there may be Ratio retries per call that succeeded or was answered definitively. A
// client with few calls gets one more per three of these, up to Floor. First attempts are never refused.
//
// Where all this comes to nothing, because the client has had no success to speak of
// lately, it has a spare retry, once after each success, and not within two
// windows of the last time it asked for a retry. A client that has just
// started, with fewer than three successes in its life, has two, at any time.
//
// The bound, exactly: in any interval of length T there are at most
// Ratio*n + Floor*(2 + T/(0.9 Window)) retries paid by the window, n being the calls that
// paid in the interval, and before it since a tenth of a Window before the last retry that asked
// at least a Window before it; and as many spare ones as there were successes, plus two, or twice as many for the first three.
// (A success is not dated when it is reported, as that would cost a clock reading
// per call. When a retry looks what there is to pay for it, the successes since the last
// look count as spread evenly over the time between. The first retry of each tenth of a
// Window looks; those after it use what it has found, up to 256, and look when that is gone.
// Where processors meet, each of a few groups of goroutines looks for itself.)
//
// Why it is this one. A budget paid by requests feeds an outage with 10 to 20 % for as
// long as it lasts; one paid by successes ends with them. A bucket of saved tokens and a
// floor per second multiply by the processes of a fleet: ten tokens in each of 4000
// clients are 40,000 calls on a service that is down. Here nothing is saved; what the
// clients may spend is justified by their success of the last seconds, so that the reserve of a fleet is a
// matter of its traffic, not of its size. That alone would starve the client that
// calls once a minute, and the one that has just started: the spare retry is for them.
// Being renewed by success only, it costs a fleet about one retry per process and
// outage, and callers that meet their window never use it. Ratio is 0.12 because
// 0.111 is what it takes to carry 10 % of random errors whole. The tests of
// internal/sim hold the numbers: an outage costs less than 1.02 times the load after
// its first second, and fleets of up to 4000 processes recover from a dip at 90 % load.
//
// The zero value is ready to use. A RetryBudget must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use. A success costs one addition
// to a counter of the processor's own: no lock, no clock, no allocation. A retry costs
// about twice as much, with a clock reading if the caller has none; one that looks, or
// is refused, takes a lock for some 50 ns. A Done that never comes costs a success that is not counted; a
// second Done for a retry changes nothing, and for a first attempt counts twice.
//
// Sources: Google SRE book, "Handling Overload"; Brooker, "Fixing retries with token
// buckets and circuit breakers", 2022; Finagle's RetryBudget.
type RetryBudget struct {
	// Ratio is the retries per success. 0 means 0.12; negative ones are invalid.
	// Finagle, Linkerd and Envoy use 0.2.
	Ratio float64
	// Window is the time that counts. 0 means 10 s; negative ones are invalid.
	Window time.Duration
	// Floor is what a client with few calls may retry beyond Ratio: one per three
	// successes, up to this. 0 means 3; negative ones are invalid.
	Floor int

	earned window.Tally
	grants window.Grants // of retries

	mu      sync.Mutex
	asked   int64  // the number of the bucket after that in which a retry last looked; 0 before the first
	settled uint64 // the successes when a spare retry was last asked for
	spent   int    // spare retries since
}

// Reserve implements [Budget].
func (b *RetryBudget) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	if a.Kind == AttemptFirst {
		return Ticket{}, 0, true
	}
	now := a.Now // and not Time, which copies the attempt: a third of the cost
	if now.IsZero() {
		now = clock.Now()
	}
	place := b.grants.Place()
	g, ok := b.grants.Take(place, now)
	if !ok {
		g, ok = b.look(place, now)
	}
	return Ticket{uint64(g)}, 0, ok
}

// look dates the successes since the last look, and grants one more retry, if the window
// or the spare ones have it. What else the window has is there for those who ask next.
func (b *RetryBudget) look(place int, now time.Time) (window.Grant, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	earned := b.earned.Total()
	b.grants.Start(b.earned.Born())
	b.grants.Advance(now, b.window(), earned)
	bucket := b.grants.Bucket()
	calm := b.asked == 0 || bucket-b.asked >= 2*window.Buckets
	b.asked = bucket + 1
	limit, used := b.limit(b.grants.Least(window.Good)), b.grants.Least(window.Bad)
	if used >= limit {
		b.grants.Reclaim()
		used = b.grants.Least(window.Bad)
	}
	if used < limit {
		return b.grants.Give(place, limit-used, b.window()), true
	}
	if limit > 0 || !b.spare(calm, earned) {
		return 0, false
	}
	return b.grants.Spare() | window.Own, true
}

// spare takes one of the retries that a client without recent success has.
func (b *RetryBudget) spare(calm bool, earned uint64) bool {
	if earned != b.settled {
		b.settled, b.spent = earned, 0
	}
	most := 1
	if earned < 3 { // a client that has just started
		most, calm = 2, true
	}
	if !calm || b.spent >= most {
		return false
	}
	b.spent++
	return true
}

// limit is how many retries so many successes allow. It counts in millionths, for
// in floats 100 * 0.29 is less than 29.
func (b *RetryBudget) limit(paid uint64) uint64 {
	const unit = 1_000_000
	ratio := b.Ratio
	if ratio == 0 {
		ratio = defaultRatio
	}
	floor := b.Floor
	if floor == 0 {
		floor = defaultFloor
	}
	share := uint64(max(0, math.Round(ratio*unit)))
	return (paid*share + min(paid*unit/3, uint64(max(0, floor))*unit)) / unit
}

func (b *RetryBudget) window() time.Duration {
	if b.Window <= 0 {
		return defaultWindow
	}
	return b.Window
}

// Done implements [Budget].
func (b *RetryBudget) Done(t Ticket, o Outcome) {
	if t[0] != 0 && !b.settle(window.Grant(t[0]), o == OutcomeNotSent) {
		return
	}
	if o == OutcomeSuccess || o == OutcomeDefinitive {
		b.earned.Add()
	}
}

// settle gives back a retry that was not made, and reports whether its end may count: not
// if that was told before.
func (b *RetryBudget) settle(g window.Grant, unused bool) bool {
	first, known := b.grants.Done(g)
	if first && unused {
		b.giveBack(g)
	}
	return first || !known
}

func (b *RetryBudget) giveBack(g window.Grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g&window.Own != 0 {
		b.spent = max(0, b.spent-1)
		return
	}
	b.grants.GiveBack(g)
}

// RetryBudgetStats is the state of a [RetryBudget].
type RetryBudgetStats struct {
	Successes uint64 // within the window
	Retries   uint64 // granted within the window
	Allowed   uint64 // by these successes, the spare retry aside
}

// Stats returns the state of the budget at this moment.
func (b *RetryBudget) Stats() RetryBudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grants.Start(b.earned.Born())
	b.grants.Advance(clock.Now(), b.window(), b.earned.Total())
	b.grants.Reclaim()
	paid := b.grants.Least(window.Good)
	return RetryBudgetStats{Successes: paid, Retries: b.grants.Most(window.Bad), Allowed: b.limit(paid)}
}

// Validate names the field that is negative, or a Ratio that is NaN or beyond a million.
func (b *RetryBudget) Validate() error {
	switch {
	case b == nil:
		return invalid("RetryBudget", "is nil")
	case !(b.Ratio >= 0 && b.Ratio <= maxRatio):
		return invalid("RetryBudget.Ratio", "is "+strconv.FormatFloat(b.Ratio, 'g', -1, 64)+", want a number of retries per success")
	case b.Window < 0:
		return negative("RetryBudget.Window", b.Window)
	case b.Floor < 0:
		return invalid("RetryBudget.Floor", "is "+strconv.Itoa(b.Floor)+", want 0 or more")
	}
	return nil
}
