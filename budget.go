package backoff

import (
	"slices"
	"time"

	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/evidence"
	"github.com/gobackoff/backoff/internal/fault"
)

// A Budget bounds the load that calls, and above all their retries, put on a
// service. &[RetryBudget]{} is the usual one. All policies, hedges and
// goroutines that call the service share it. A program that only uses a Budget
// needs neither its methods nor the types Attempt, Ticket and Result.
//
// For authors of a Budget: embed [BudgetDefaults], and write Reserve. A wrapper
// embeds the Budget that it wraps. All methods must be safe for concurrent use
// and must not block.
type Budget interface {
	// Reserve reports whether an attempt may be made, and after what wait; the
	// call waits for the longer of wait and a.Wait. Reserve is called before
	// every attempt, the first included, and before the sleep of a retry. A
	// refusal ends the call with an error that matches [ErrBudget].
	Reserve(a Attempt) (t Ticket, wait time.Duration, ok bool)

	// Done is called once for every granted attempt, and says how it ended. A
	// budget must stay right if Done never comes, and if it comes twice.
	Done(t Ticket, r Result)

	// GrantsFirst reports whether first attempts skip Reserve, Pace and Confirm. Done
	// then gets the zero Ticket. Each call asks again, and the result may change at any
	// time. An invalid budget must return false.
	GrantsFirst() bool

	// Pace is called when a wait is over, and says whether the attempt must
	// wait longer. It is called again after each wait that it, or another
	// budget, asks for. Its ticket replaces t. Use it to space calls that were
	// told to retry at the same time.
	Pace(t Ticket) (next Ticket, wait time.Duration, ok bool)

	// Confirm is called when a granted attempt is about to be made, after all
	// waits. Use it to tell running attempts from sleeping calls. If it returns
	// false, the call ends as if Reserve had refused, and Done gets a Result
	// that is NotSent.
	Confirm(t Ticket) bool

	// Validate says what is wrong with the budget, or returns nil.
	// [Policy.Validate] calls it.
	Validate() error
}

// JoinBudgets returns a [Budget] that grants what every one of budgets grants,
// after the longest of their waits. If one refuses, those that granted before
// get a Result that is NotSent. Nil budgets are left out, and a Budget that
// JoinBudgets made is replaced by its members. More than three budgets cost an
// allocation for each attempt that they are asked for.
//
// It first asks those that can make all attempts wait, by a method
// Hold(time.Duration), such as HoldOff of package pace. Then it asks the others
// in order. For authors of a Budget: if another budget makes the attempt wait
// longer than the Wait that yours was told, yours gets a Result that is
// NotSent, and is asked again. So a rate limit also spaces attempts that were
// held off together.
func JoinBudgets(budgets ...Budget) Budget {
	var s joined
	for _, b := range budgets {
		switch b := b.(type) {
		case nil:
		case joined:
			s.add(b.members...)
		case holding:
			s.add(b.members...)
		default:
			s.add(b)
		}
	}
	if s.holds > 0 {
		return holding{s}
	}
	return s
}

// BudgetDefaults has, for authors of a [Budget], all methods of a Budget but
// Reserve. They change nothing: Reserve is called for every attempt, and what
// it granted stays granted. The zero value is ready to use.
type BudgetDefaults struct{}

// Done does nothing.
func (BudgetDefaults) Done(Ticket, Result) {}

// GrantsFirst returns false.
func (BudgetDefaults) GrantsFirst() bool { return false }

// Pace returns t, no wait, and true.
func (BudgetDefaults) Pace(t Ticket) (Ticket, time.Duration, bool) { return t, 0, true }

// Confirm returns true.
func (BudgetDefaults) Confirm(Ticket) bool { return true }

// Validate returns nil.
func (BudgetDefaults) Validate() error { return nil }

// An Attempt is, for authors of a [Budget], an attempt that Reserve is asked to
// grant.
type Attempt struct {
	_ [0]func() // no unkeyed literals, no ==

	Number   int      // number in the call, from 1; 0 counts as 1, and a repeated answer, such as a 404, is 1
	Hedge    bool     // whether it runs beside a slow attempt, instead of after a failure
	TimedOut bool     // whether the attempt before it ended by its own timeout
	Class    Class    // class of the failure before it
	Priority Priority // priority of the call; see WithPriority

	// Whether the caller calls Pace and Confirm, as the loops of this library do. Then
	// Reserve leaves to Pace any token that would be ready before Wait ends. Under
	// [Run.Tried] a retry is Paced too, but Done may come without Pace and Confirm: count
	// it in Done.
	Paced bool

	MaxAttempts int       // most attempts of the call, after its last failure; negative means no limit
	Cost        int       // cost in the budget's own unit; 0 counts as 1
	Now         time.Time // clock of the caller; zero if it was not read
	Deadline    time.Time // of the call; zero for none

	// Wait that the schedule, a server or another budget asks for before the
	// attempt.
	Wait time.Duration
}

// First reports whether it is the first attempt of a call, or counts as one.
func (a Attempt) First() bool { return a.Number <= 1 }

// Time returns Now, or reads the clock if Now is zero.
func (a Attempt) Time() time.Time {
	if a.Now.IsZero() {
		return clock.Now()
	}
	return a.Now
}

// A Result is, for authors of a [Budget], how an attempt ended. The zero Result
// is success.
type Result struct {
	Failed     bool          // whether the attempt returned an error
	TimedOut   bool          // whether its own timeout ended it
	Canceled   bool          // whether its caller ended it
	NotSent    bool          // whether it was granted, but not made
	Class      Class         // class of the error; ClassThrottled also if the server said "do not retry", ClassPermanent also for a repeated answer
	RetryAfter time.Duration // wait that the server asked for; 0 for none
	Cost       int           // cost of the attempt, if it is known only now; 0 means Attempt.Cost
	Took       time.Duration // time that the attempt took; 0 if not measured
}

// Answered reports whether the service gave the answer that it would give
// again: success, or a permanent error.
func (r Result) Answered() bool {
	return r.fault().Row().Budget == fault.Answer
}

// fault says whose fault the end of the attempt is.
func (r *Result) fault() fault.Fault {
	return fault.Of(r.NotSent, r.Canceled, r.TimedOut, r.Failed, evidence.Class(r.Class))
}

// String returns "success", "permanent", "throttled" (ClassOverloaded, too),
// "timeout", "canceled", "not sent", or "failed" for any other failure.
func (r Result) String() string { return r.fault().Word() }

// A Ticket carries, for authors of a [Budget], data of the budget from Reserve
// to Done. The zero Ticket carries nothing. A Ticket is comparable, and may be
// copied.
type Ticket struct {
	Word uint64 // data of the budget

	second, third uint64         // words of other budgets, if a few are joined; an array would not be passed in registers
	more          *joinedTickets // tickets of joined budgets, in place of the words
}

// holder is a budget that can make all attempts wait.
type holder interface{ Hold(time.Duration) }

// holding is what JoinBudgets returns if a member is a holder.
type holding struct{ joined }

// Hold makes all attempts wait.
func (h holding) Hold(d time.Duration) {
	for _, b := range h.members[:h.holds] {
		b.(holder).Hold(d)
	}
}

// joined is what JoinBudgets returns. It makes the waits of its members meet by
// the rule of Attempt.Paced:
//
//   - A member sees, as the attempt's Wait, how long the others make the
//     attempt wait. One that saw less, and returned a Ticket that is not zero,
//     gets a Result that is NotSent, and is asked again. A zero Ticket holds
//     nothing that could be given back.
//   - A holder may hold an attempt that waits. Then the others are asked again
//     in the same way. The Ticket remembers the attempt for that, which costs
//     an allocation.
type joined struct {
	members []Budget // members, holders first
	holds   int      // number of holders
	spaces  bool     // whether it matters to another member how long an attempt waits
}

// add adds members: holders behind the other holders, and the rest at the end.
func (s *joined) add(budgets ...Budget) {
	for _, b := range budgets {
		if _, holds := b.(holder); holds {
			s.members = slices.Insert(s.members, s.holds, b)
			s.holds++
			continue
		}
		s.members = append(s.members, b)
		s.spaces = s.spaces || spaces(b)
	}
}

// spaces reports whether it matters to a budget how long an attempt waits. It
// does not to a RetryBudget, nor to one that grants nothing by time.
func spaces(b Budget) bool {
	_, ok := b.(*RetryBudget)
	return !ok
}

func (s joined) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	var tickets Ticket
	var longest time.Duration
	last := 0 // who made the wait longer
	for i, b := range s.members {
		t, wait, ok := b.Reserve(a)
		if !ok {
			s.giveBack(tickets, i)
			return Ticket{}, 0, false
		}
		tickets.setMember(i, len(s.members), t)
		if longest = max(longest, wait); wait > a.Wait {
			a.Wait, last = wait, i
		}
	}
	if a.Paced && last > s.holds {
		wait, ok := s.askAgain(&tickets, a, last)
		if longest = max(longest, wait); !ok {
			s.giveBack(tickets, len(s.members))
			return Ticket{}, 0, false
		}
	}
	if s.spaces && s.holds > 0 && a.Wait > 0 {
		tickets.enlarge(len(s.members)).asked = a
	}
	return tickets, longest, true
}

// askAgain asks those of the first members that space attempts for one that
// waits for a.Wait in any case. It returns the longest of their waits.
func (s joined) askAgain(t *Ticket, a Attempt, first int) (longest time.Duration, ok bool) {
	for i, b := range s.members[:first] {
		if i < s.holds || !spaces(b) || t.member(i) == (Ticket{}) {
			continue
		}
		b.Done(t.member(i), Result{NotSent: true})
		own, wait, ok := b.Reserve(a)
		if !ok {
			t.enlarge(len(s.members)).refused = i + 1
			return 0, false
		}
		t.setMember(i, len(s.members), own)
		longest = max(longest, wait)
	}
	return longest, true
}

// giveBack tells the first n members, in reverse order, that the attempt is not
// made.
func (s joined) giveBack(t Ticket, n int) {
	joined{members: s.members[:n]}.Done(t, Result{NotSent: true})
}

func (s joined) Done(t Ticket, r Result) {
	for i := len(s.members) - 1; i >= 0; i-- {
		if t.more == nil || t.more.refused != i+1 {
			s.members[i].Done(t.member(i), r)
		}
	}
}

func (s joined) Pace(t Ticket) (Ticket, time.Duration, bool) {
	held, ok := s.pace(&t, 0, s.holds)
	switch {
	case !ok:
		return t, 0, false
	case held <= 0:
		longest, ok := s.pace(&t, s.holds, len(s.members))
		return t, longest, ok
	case t.more == nil || t.more.asked.Number == 0:
		return t, held, true
	}
	a := t.more.asked
	a.Wait, a.Now = held, time.Time{}
	wait, ok := s.askAgain(&t, a, len(s.members))
	return t, max(held, wait), ok
}

// pace asks some of the members how much longer an attempt waits.
func (s joined) pace(t *Ticket, from, to int) (longest time.Duration, ok bool) {
	for i := from; i < to; i++ {
		own, wait, ok := s.members[i].Pace(t.member(i))
		t.setMember(i, len(s.members), own)
		if !ok {
			return 0, false
		}
		longest = max(longest, wait)
	}
	return longest, true
}

func (s joined) Confirm(t Ticket) bool {
	for i, b := range s.members {
		if !b.Confirm(t.member(i)) {
			return false
		}
	}
	return true
}

func (s joined) GrantsFirst() bool {
	for _, b := range s.members {
		if badfield.IsNil(b) || !b.GrantsFirst() {
			return false
		}
	}
	return true
}

func (s joined) Validate() (all error) {
	for _, b := range s.members {
		all = join(all, validate("JoinBudgets: Budget", b))
	}
	return all
}

// joinedTickets is what joined budgets keep of an attempt, if it does not fit
// into a Ticket.
type joinedTickets struct {
	each    []Ticket // tickets of the members
	asked   Attempt  // attempt to ask for again
	refused int      // member, from 1, that refused when it was asked again, and has no ticket; 0 for none
}

// inlineTickets is how many budgets JoinBudgets joins without an allocation for
// each attempt.
const inlineTickets = 3

// word returns the place of a joined budget's word.
func (t *Ticket) word(i int) *uint64 {
	switch i {
	case 0:
		return &t.Word
	case 1:
		return &t.second
	}
	return &t.third
}

// member returns the ticket of one of several joined budgets.
func (t Ticket) member(i int) Ticket {
	switch {
	case t.more != nil:
		return t.more.each[i]
	case i < inlineTickets:
		return Ticket{Word: *t.word(i)}
	}
	return Ticket{}
}

// setMember puts the ticket of one of n joined budgets into t.
func (t *Ticket) setMember(i, n int, own Ticket) {
	switch {
	case t.more != nil:
		t.more.each[i] = own
	case i < inlineTickets && own == Ticket{Word: own.Word}:
		*t.word(i) = own.Word
	case own != Ticket{}:
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
