package limit

import (
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
)

// Sleeping is a [backoff.Budget] that lets at most Max calls sleep between two
// attempts, of all the calls that share it. In an outage at 1000 calls a second
// that back off for up to 30 s each, 30,000 goroutines would be asleep, and wake on
// a service that is about to recover. A call beyond Max ends at once with the error
// it has.
//
// The zero value is ready to use. A Sleeping must not be copied, nor its field
// changed, after first use. It is safe for concurrent use. A call holds its
// slot until its next attempt begins, at most for 10 minutes: a hand-written
// loop may abandon a call while it sleeps, as gax does, without calling Done.
// So a call that sleeps for longer is not counted after that. The loops of a
// [backoff.Supervisor] are not counted either: there are as many whether they
// sleep or not. A second Done changes nothing.
type Sleeping struct {
	backoff.BudgetDefaults

	// Max is the number of calls. 0 means 1000, a negative number no limit.
	Max int

	slots slots
}

const (
	defaultSleeping = 1000
	longestSleep    = 10 * time.Minute
)

// GrantsFirst implements [backoff.Budget]. It is true: no first attempt follows a
// sleep.
func (s *Sleeping) GrantsFirst() bool { return s != nil }

// Reserve implements [backoff.Budget]. It takes a slot for a retry, whose call
// is about to sleep.
func (s *Sleeping) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if a.First() || a.Hedge {
		return backoff.Ticket{}, 0, true
	}
	now := a.Time()
	s.slots.expire(now.Add(-longestSleep))
	t, ok := s.slots.acquire(limits.Or(s.Max, defaultSleeping), now)
	return t, 0, ok
}

// Confirm implements [backoff.Budget]. The call is awake.
func (s *Sleeping) Confirm(t backoff.Ticket) bool {
	s.slots.release(t)
	return true
}

// Done implements [backoff.Budget].
func (s *Sleeping) Done(t backoff.Ticket, _ backoff.Result) { s.slots.release(t) }

// Load returns how many calls are asleep.
func (s *Sleeping) Load() int {
	s.slots.expire(clock.Now().Add(-longestSleep))
	return s.slots.count()
}

// Validate refuses a nil Sleeping.
func (s *Sleeping) Validate() error {
	return backoff.Permanent(badfield.Nil("limit.Sleeping", s == nil))
}
