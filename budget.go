package backoff

import (
	"time"

	"github.com/gobackoff/backoff/internal/clock"
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
	// schedule, because a server asked, or for another budget.
	Wait time.Duration
	// Paced says that the caller calls the optional methods of the budget: Pace
	// when a wait is over, and Confirm when the attempt is about to be made. A
	// budget then gives a token or a place to an attempt that goes, and not to
	// one that only waits. If the budget would have a token before Wait is over,
	// it gives none, and gives one in Pace.
	//
	// All loops of this library set it. So does [Run.Retry], which cannot know
	// whether a hand-written loop calls [Run.Begin]. If it does not, the budget
	// hears only of Done, and must count the attempt then. [Run.Admit] does not
	// set it.
	Paced bool
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
	Class      Class         // of the attempt's error; ClassThrottled even if the server says "do not retry"
	RetryAfter time.Duration // what the server asked for; 0 if it did not
	Cost       int           // what the attempt has cost, if that is known only now; 0 means Attempt.Cost
	Took       time.Duration // how long the attempt took, if the budget was asked for it; 0 if nobody measured that
}

// A Ticket carries a budget's own data from Reserve to Done, so that the
// budget need not remember the attempts that run. The zero Ticket carries
// nothing. A Ticket is comparable, and a copy of it is as good.
type Ticket struct {
	words [inlineTickets]uint64 // a budget's own; or one for each of a few budgets that are joined
	more  *joinedTickets        // of joined budgets, in place of words
}

// joinedTickets is what joined budgets keep of an attempt, if it does not fit
// into a Ticket.
type joinedTickets struct {
	each    []Ticket
	asked   Attempt // to ask again
	refused int     // the member, from 1, that refused when it was asked again, and has no ticket; 0 if none did
}

// inlineTickets is how many budgets JoinBudgets joins without an allocation for
// each attempt.
const inlineTickets = 4

// NewTicket returns a Ticket that carries a word of a budget's own.
func NewTicket(word uint64) Ticket { return Ticket{words: [inlineTickets]uint64{word}} }

// Word returns what [NewTicket] was given.
func (t Ticket) Word() uint64 { return t.words[0] }

// member returns the ticket of one of several joined budgets.
func (t Ticket) member(i int) Ticket {
	switch {
	case t.more != nil:
		return t.more.each[i]
	case i < inlineTickets:
		return NewTicket(t.words[i])
	}
	return Ticket{}
}

// setMember puts the ticket of one of n joined budgets into t.
func (t *Ticket) setMember(i, n int, own Ticket) {
	switch {
	case t.more != nil:
		t.more.each[i] = own
	case own == Ticket{}: // as it is
		if i < inlineTickets {
			t.words[i] = 0
		}
	case i < inlineTickets && own == NewTicket(own.words[0]):
		t.words[i] = own.words[0]
	default:
		t.enlarge(n).each[i] = own
	}
}

// enlarge makes room in t for more than words.
func (t *Ticket) enlarge(n int) *joinedTickets {
	if t.more == nil {
		all := make([]Ticket, n)
		for j := range all {
			all[j] = t.member(j)
		}
		*t = Ticket{more: &joinedTickets{each: all}}
	}
	return t.more
}

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
// A [FullBudget] has four more methods, each of which is optional:
//
//   - Pace(Ticket) (Ticket, time.Duration, bool) is called when a Wait is
//     over. It returns what Reserve returns, and its ticket replaces the other
//     one. If it asks for a wait, it is called again after that, and so it is if
//     another budget asks for one. With Pace a budget spaces calls that were
//     all told to retry at the same time.
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

// A FullBudget is a [Budget] with all its optional methods. Budget says what
// they do. A wrapper embeds a FullBudget, as [JoinBudgets] returns it: one that
// embeds a Budget would lose them.
type FullBudget interface {
	Budget
	Pace(t Ticket) (Ticket, time.Duration, bool)
	Confirm(t Ticket) bool
	GrantsFirst() bool
	Validate() error
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
func joinKeys(b Budget, l *lead, late bool) {
	if k, ok := b.(interface{ joinKeys(*lead, bool) }); ok {
		k.joinKeys(l, late)
	}
}

// validate asks a budget that can tell whether it is valid.
func validate(b Budget) error {
	if v, ok := b.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}
