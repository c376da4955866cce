package backoff

import (
	"errors"
	"slices"
	"time"
)

// JoinBudgets returns a [Budget] that grants what every one of budgets grants.
// If one refuses, those that granted before get OutcomeNotSent, in reverse
// order. The wait is the longest of their waits. A nil budget is left out, and a
// joined budget counts as its members. More than four budgets cost an
// allocation for each attempt that they are asked for.
//
// It asks them in order, after those with a method Hold(time.Duration), such as
// HoldOff of package pace: these make all attempts wait for the same time. The
// waits of the budgets meet by the rule of [Attempt.Paced]:
//
//   - A budget is told, as the attempt's Wait, how long the others make the
//     attempt wait. One that was told less, and returned a Ticket that is not
//     zero, gets OutcomeNotSent, and is asked again. A zero Ticket holds nothing
//     that could be given back. To a RetryBudget the wait does not matter.
//   - While an attempt waits, it may have to be held. Then the others get
//     OutcomeNotSent, and are asked again in the same way. To remember the
//     attempt for that costs an allocation, if it waits.
//
// So a rate limit spaces the attempts that were held off together, in whatever
// order the budgets are joined.
func JoinBudgets(budgets ...Budget) Budget {
	var s joined
	for _, b := range budgets {
		switch b := b.(type) {
		case nil:
		case joined:
			for _, member := range b.members {
				s.add(member)
			}
		default:
			s.add(b)
		}
	}
	return s
}

// joined is what JoinBudgets returns.
type joined struct {
	members []Budget // those that hold all attempts first
	holds   int      // how many of them do
	spaces  bool     // it matters to another one how long an attempt waits
}

// add adds a member, behind those that hold all attempts if it is one of them.
func (s *joined) add(b Budget) {
	if _, holds := b.(interface{ Hold(time.Duration) }); holds {
		s.members = slices.Insert(s.members, s.holds, b)
		s.holds++
		return
	}
	s.members = append(s.members, b)
	s.spaces = s.spaces || spaces(b)
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
		b.Done(t.member(i), Result{Outcome: OutcomeNotSent})
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

// giveBack tells the first n members that the attempt is not made.
func (s joined) giveBack(t Ticket, n int) {
	joined{members: s.members[:n]}.Done(t, Result{Outcome: OutcomeNotSent})
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
		if !b.GrantsFirst() {
			return false
		}
	}
	return true
}

// joinKeys gives each of the members a furthestCall of its own, or one would take from
// another what all have to grant.
func (s joined) joinKeys(l *furthestCall, late bool) {
	for _, b := range s.members {
		joinKeys(b, l, late)
		l = l.following()
	}
}

func (s joined) Validate() error {
	var all []error
	for _, b := range s.members {
		all = append(all, b.Validate())
	}
	return errors.Join(all...)
}
