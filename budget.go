package backoff

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/window"
)

// An AttemptKind says which of the attempts of a call an [Attempt] is.
type AttemptKind uint8

const (
	// AttemptFirst is the first attempt of a call.
	AttemptFirst AttemptKind = iota
	// AttemptRetry is any attempt that follows a failure.
	AttemptRetry
	// AttemptHedge runs beside an attempt that is slow.
	AttemptHedge
)

// An Attempt is what a [Budget] is asked to grant.
type Attempt struct {
	_ [0]func() // no unkeyed literals, no ==

	Number      int         // from 1
	Kind        AttemptKind // first, retry or hedge
	Class       Class       // of the failure before the attempt
	Priority    Priority    // of the call; see WithPriority
	TimedOut    bool        // the attempt before this one ended by its own timeout
	MaxAttempts int         // what the call may make in all, for the class of its last failure; negative if there is no limit
	Cost        int         // in the budget's own unit, for callers that know it; 0 counts as 1
	Now         time.Time   // the caller's reading of the clock; zero if it has none

	// Wait is how long the call waits before the attempt in any case: for its
	// schedule, or because a server asked. It is 0 if Pace will not be called
	// after the wait.
	Wait time.Duration
}

// Time returns Now, or reads the clock if the caller has not.
func (a Attempt) Time() time.Time {
	if a.Now.IsZero() {
		return clock.Now()
	}
	return a.Now
}

// An Outcome is how an attempt ended.
type Outcome uint8

const (
	// OutcomeSuccess: the attempt returned nil.
	OutcomeSuccess Outcome = iota
	// OutcomeDefinitive: the server returned an error that a retry would get
	// again.
	OutcomeDefinitive
	// OutcomeTransient: the attempt failed in a way that may pass.
	OutcomeTransient
	// OutcomeThrottled: the server said "too much".
	OutcomeThrottled
	// OutcomeTimeout: the attempt's own timeout ended it.
	OutcomeTimeout
	// OutcomeCanceled: the caller ended the attempt.
	OutcomeCanceled
	// OutcomeNotSent: the attempt was granted but never started.
	OutcomeNotSent
)

// A Result is how an attempt ended, for a [Budget]. The zero Result is
// success.
type Result struct {
	Outcome    Outcome
	Class      Class         // of the attempt's error
	RetryAfter time.Duration // what the server asked for; 0 if it did not
	Cost       int           // what the attempt has cost, if that is known only now; 0 means Attempt.Cost
}

// A Ticket carries a budget's own data from Reserve to Done, so that the
// budget need not remember the attempts that run. The first word is the
// budget's own; the others are for [JoinBudgets].
type Ticket [maxBudgets]uint64

// A Budget bounds the load that calls, and above all their retries, put on a
// service. &[RetryBudget]{} is the usual one. All policies, hedges and
// goroutines that call the service share it.
//
// The loop calls Reserve before every attempt, the first included; for a
// retry, it does so before the sleep that leads to the attempt. Reserve
// returns whether the attempt may be made, and how long it must wait first. A
// refusal ends the call at once, with an error that matches [ErrBudget] and
// the operation's own last error. Done is called once for every attempt that
// Reserve granted, and says how the attempt ended.
//
// Both must be safe for concurrent use and must not block. A budget must stay
// right if Done never comes, because an operation may hang forever, and if
// Done comes twice.
//
// Four methods are optional:
//
//   - Pace(Ticket) (Ticket, time.Duration, bool) is called when a Wait is
//     over. It returns what Reserve returns, and its ticket replaces the other
//     one. If it asks for a wait, it is called again after that. With Pace a
//     budget spaces calls that were all told to retry at the same time.
//   - Confirm(Ticket) bool is called when an attempt that was granted is about
//     to be made: for a retry, after the sleep. With Confirm a budget
//     distinguishes calls that sleep from attempts that are running. If
//     Confirm returns false, the call ends as if Reserve had refused, and Done
//     gets OutcomeNotSent. Confirm must not block.
//   - GrantsFirst() bool returns true while first attempts need not be asked
//     for: the loop of a [Policy] then does not call Reserve for them, and
//     calls Done with a zero Ticket. The result may change at any time, and
//     the loop asks again for each call. A call that succeeds at once then
//     costs almost nothing. An invalid budget must return false.
//   - Validate() error is called by [Policy.Validate].
type Budget interface {
	Reserve(a Attempt) (t Ticket, wait time.Duration, ok bool)
	Done(t Ticket, r Result)
}

// pacer is a Budget with the optional method Pace.
type pacer interface {
	Pace(t Ticket) (Ticket, time.Duration, bool)
}

// confirmer is a Budget with the optional method Confirm.
type confirmer interface{ Confirm(t Ticket) bool }

// granter is a Budget with the optional method GrantsFirst. The loop asks for
// the method, and not for a *RetryBudget, which would be part of every program.
type granter interface{ GrantsFirst() bool }

// maxBudgets is how many budgets JoinBudgets can join. A Ticket has a word for
// each, so that nothing need be kept in memory.
const maxBudgets = 4

// JoinBudgets returns a [Budget] that grants what every one of budgets grants;
// there may be four. It asks them in order. If one refuses, those that granted
// before get OutcomeNotSent, in reverse order. The wait is the longest of their
// waits. A nil budget is left out, and a joined budget counts as its members.
// [Policy.Validate] refuses more than four.
func JoinBudgets(budgets ...Budget) Budget {
	var members joined
	for _, b := range budgets {
		switch b := b.(type) {
		case nil:
		case joined:
			members = append(members, b...)
		default:
			members = append(members, b)
		}
	}
	return members
}

// joined is what JoinBudgets returns.
type joined []Budget

func (s joined) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	var tickets Ticket
	var longest time.Duration
	for i, b := range s {
		t, wait, ok := b.Reserve(a)
		if !ok {
			s[:i].Done(tickets, Result{Outcome: OutcomeNotSent})
			return Ticket{}, 0, false
		}
		tickets[i] = t[0]
		longest = max(longest, wait)
	}
	return tickets, longest, true
}

func (s joined) Done(t Ticket, r Result) {
	for i := len(s) - 1; i >= 0; i-- {
		s[i].Done(Ticket{t[i]}, r)
	}
}

func (s joined) Pace(t Ticket) (Ticket, time.Duration, bool) {
	var longest time.Duration
	for i, b := range s {
		own, wait, ok := pace(b, Ticket{t[i]})
		if !ok {
			return t, 0, false
		}
		t[i] = own[0]
		longest = max(longest, wait)
	}
	return t, longest, true
}

func (s joined) Confirm(t Ticket) bool {
	for i, b := range s {
		if !confirm(b, Ticket{t[i]}) {
			return false
		}
	}
	return true
}

func (s joined) GrantsFirst() bool {
	for _, b := range s {
		if !grantsFirst(b) {
			return false
		}
	}
	return len(s) <= maxBudgets
}

// joinKeys gives each of the members a count of its own, or one would take from
// another what all have to grant.
func (s joined) joinKeys(leads []atomic.Int64, late bool) {
	for i, b := range s {
		joinKeys(b, leads[min(i, maxBudgets-1):], late)
	}
}

func (s joined) Validate() error {
	if len(s) > maxBudgets {
		return invalid("JoinBudgets", "joins "+strconv.Itoa(len(s))+" budgets, want at most "+strconv.Itoa(maxBudgets))
	}
	for _, b := range s {
		if err := validate(b); err != nil {
			return err
		}
	}
	return nil
}

// pace asks a budget that is a pacer how much longer an attempt waits whose wait
// is over.
func pace(b Budget, t Ticket) (Ticket, time.Duration, bool) {
	if p, ok := b.(pacer); ok {
		return p.Pace(t)
	}
	return t, 0, true
}

// confirm asks a budget that is a confirmer whether the attempt may be made
// now.
func confirm(b Budget, t Ticket) bool {
	c, ok := b.(confirmer)
	return !ok || c.Confirm(t)
}

// grantsFirst reports whether a budget grants first attempts without being
// asked.
func grantsFirst(b Budget) bool {
	g, ok := b.(granter)
	return ok && g.GrantsFirst()
}

// joinKeys makes a budget one of those of a Budgets, which share what the first
// call gets. late says that its key came when there was no place for it.
func joinKeys(b Budget, leads []atomic.Int64, late bool) {
	if k, ok := b.(interface{ joinKeys([]atomic.Int64, bool) }); ok {
		k.joinKeys(leads, late)
	}
}

// validate asks a budget that can tell whether it is valid.
func validate(b Budget) error {
	if v, ok := b.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

const (
	defaultRatio  = 0.12
	defaultWindow = 10 * time.Second
	defaultFloor  = 3
	maxRatio      = 1e6
	newcomer      = 3 // a client with fewer successes in its life has just started
)

// RetryBudget is the usual [Budget]: successes pay for retries. Within a
// Window there may be Ratio retries per call that succeeded or failed
// definitively. A client with few calls gets one more per three of them, up to
// Floor. First attempts are never refused.
//
// A client that has had no success within the Window still has a spare retry:
// one at the start and one after each success, but not within two Windows of
// the last time it asked for a retry. While it has had fewer than three
// successes in its life, it has its spare retry at any time, unless a [Budgets]
// made its budget when MaxKeys others were there.
//
// In that time a call may also use all of its MaxAttempts, once in the life of
// the budget, so that a program that makes one call, and then ends, gets what
// it asked for. Of calls that run at once, the one with the most retries
// continues. A call without a limit counts as one with MaxAttempts 4. The
// budgets of a Budgets, and so the hosts of a Transport, have this once for
// all of them.
//
// In any interval of length T there are at most
//
//	Ratio*paid + Floor*(2 + T/(0.9*Window)) + spare + first
//
// retries, where
//
//	paid   counts the calls that succeeded or failed definitively, from
//	       asked - Window/10 to the end of the interval
//	asked  is when a retry was last asked for at least a Window before the
//	       interval
//	spare  is the number of successes in the interval, plus one
//	first  is MaxAttempts - 1, by the largest limit of a Policy or of its
//	       ByClass, until the budget has had three successes, once in its
//	       life, and then 0
//
// docs/retrybudget.md derives the bound and the defaults, and shows what a
// fleet makes of them.
//
// The zero value is ready to use. A RetryBudget must not be copied, nor its
// fields changed, after first use. It is safe for concurrent use. A success
// costs one addition to a counter where processors rarely meet: no lock, no
// clock, no allocation. A retry costs about twice as much, and reads the clock
// if the caller has not. The first retry in each tenth of a Window, and one
// that is refused, take a lock for some 50 ns. A Done that is never called is
// a success that is not counted. A second Done changes nothing for a retry,
// and counts twice for a first attempt.
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

	earned window.Tally  // successes
	grants window.Grants // retries

	mu          sync.Mutex
	lookedUntil int64  // the number of the bucket after the one in which a retry last looked; 0 before the first
	spareAt     uint64 // the number of successes when a spare retry was last asked for
	spared      bool   // it was granted
	late        bool   // there are no spare retries before the third success

	lead *atomic.Int64 // the retries of the call that has got furthest, for all keys; nil for own
	own  atomic.Int64  // lead of a budget that is not one of several
}

// GrantsFirst is an optional method of a [Budget]. It reports whether the budget
// is valid: first attempts are never refused.
func (b *RetryBudget) GrantsFirst() bool {
	return b != nil && b.Ratio >= 0 && b.Ratio <= maxRatio && b.Window >= 0 && b.Floor >= 0
}

// Reserve implements [Budget].
func (b *RetryBudget) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	if a.Kind == AttemptFirst {
		return Ticket{}, 0, true
	}
	now := a.Now // Time would copy the attempt, a third of the cost
	if now.IsZero() {
		now = clock.Now()
	}
	place := b.grants.Place()
	g, ok := b.grants.Take(place, now)
	if !ok {
		g, ok = b.refill(place, now, a.Number, a.MaxAttempts)
	}
	return Ticket{uint64(g)}, 0, ok
}

// refill dates the successes since the last look, and grants one retry, the
// attempt with the given number of a call that may make most, if the window
// allows it, or the spare one is there, or it is the first call. The rest of
// what the window allows waits for the next retries.
func (b *RetryBudget) refill(place window.Place, now time.Time, number, most int) (window.Grant, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	earned := b.earned.Total()
	b.grants.Start(b.earned.Born())
	b.grants.Advance(now, b.window(), earned)
	bucket := b.grants.Bucket()
	calm := b.lookedUntil == 0 || bucket-b.lookedUntil >= 2*window.Buckets
	b.lookedUntil = bucket + 1
	limit, used := b.allowed(b.grants.Least(window.Good)), b.grants.Least(window.Bad)
	if used >= limit {
		b.grants.Reclaim()
		used = b.grants.Least(window.Bad)
	}
	if used < limit {
		return b.grants.Give(place, limit-used, b.window()), true
	}
	switch {
	case limit == 0 && b.spare(calm, earned):
		return b.grants.Spare(), true
	case earned < newcomer && b.advance(number, most):
		return b.grants.Spare() | window.Led, true
	}
	return 0, false
}

// spare takes the retry of a client without recent success. calm means that no
// retry was asked for within two Windows.
func (b *RetryBudget) spare(calm bool, earned uint64) bool {
	if earned != b.spareAt {
		b.spareAt, b.spared = earned, false
	}
	if earned < newcomer {
		calm = !b.late
	}
	if !calm || b.spared {
		return false
	}
	b.spared = true
	return true
}

// advance takes a retry of the first call, which is whatever call has got
// furthest. Every retry that it takes gets further than the one before. So there
// are at most as many as a single call may make, without a note of the call.
func (b *RetryBudget) advance(number, most int) bool {
	if most <= 0 {
		most = defaultMaxAttempts
	}
	for lead := b.leader(); number <= most; {
		made := lead.Load()
		if int64(number-1) <= made {
			return false
		}
		if lead.CompareAndSwap(made, int64(number-1)) {
			return true
		}
	}
	return false
}

func (b *RetryBudget) leader() *atomic.Int64 {
	if b.lead == nil {
		return &b.own
	}
	return b.lead
}

// joinKeys makes the first of leads count for the budget, and takes the spare
// retry of a client that has just started away from one that came late.
func (b *RetryBudget) joinKeys(leads []atomic.Int64, late bool) {
	if b != nil {
		b.mu.Lock()
		b.lead, b.late = &leads[0], b.late || late
		b.mu.Unlock()
	}
}

// allowed is how many retries so many successes allow. It counts in millionths,
// because in floats 100 * 0.29 is less than 29.
func (b *RetryBudget) allowed(paid uint64) uint64 {
	const unit = 1_000_000
	share := uint64(max(0, math.Round(limits.Or(b.Ratio, defaultRatio)*unit)))
	floor := uint64(max(0, limits.Or(b.Floor, defaultFloor)))
	return (paid*share + min(paid*unit/3, floor*unit)) / unit
}

func (b *RetryBudget) window() time.Duration {
	if b.Window <= 0 {
		return defaultWindow
	}
	return b.Window
}

// Done implements [Budget].
func (b *RetryBudget) Done(t Ticket, r Result) {
	if t[0] != 0 && !b.settleGrant(window.Grant(t[0]), r.Outcome == OutcomeNotSent) {
		return
	}
	if r.Outcome == OutcomeSuccess || r.Outcome == OutcomeDefinitive {
		b.earned.Add()
	}
}

// settleGrant ends a retry, and gives it back if it was not made. It reports
// whether its result counts: a second one does not.
func (b *RetryBudget) settleGrant(g window.Grant, unused bool) bool {
	first, known := b.grants.Done(g)
	if first && unused {
		b.giveBack(g)
	}
	return first || !known
}

func (b *RetryBudget) giveBack(g window.Grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grants.GiveBack(g)
	switch {
	case g&window.Led != 0:
		b.leader().Add(-1)
	case g&window.Own != 0:
		b.spared = false
	}
}

// RetryBudgetStats is the state of a [RetryBudget]. Retries may exceed Allowed:
// the successes that paid for them leave the window first.
type RetryBudgetStats struct {
	Successes uint64 // within the window
	Retries   uint64 // granted within the window, less those that were not made
	Allowed   uint64 // by these successes, plus the Retries that were spare or of the first call
}

// Stats returns the state of the budget at this moment.
func (b *RetryBudget) Stats() RetryBudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grants.Start(b.earned.Born())
	b.grants.Advance(clock.Now(), b.window(), b.earned.Total())
	b.grants.Reclaim()
	paid, own := b.grants.Least(window.Good), b.grants.Most(window.Other)
	return RetryBudgetStats{Successes: paid, Retries: b.grants.Most(window.Bad) + own, Allowed: b.allowed(paid) + own}
}

// Validate names the field that is negative, or a Ratio that is NaN or beyond a
// million.
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
