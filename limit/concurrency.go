package limit

import (
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/limits"
)

// Concurrency is a bulkhead: a [backoff.Budget] that lets at most Max attempts
// run at once, of all the calls and reconnect loops that share it. It refuses
// the others at once and queues none: in an outage callers know within
// microseconds, and no memory grows. Calls that wait do not count: for a
// [Rate], or between two attempts. For the latter there is [Sleeping].
//
// The zero value is ready to use. A Concurrency must not be copied, nor its
// field changed, after first use. It is safe for concurrent use. An attempt
// holds its slot until its Done; an attempt that hangs holds it for as long as
// it hangs. A second Done changes nothing. A run of a [backoff.Supervisor]
// holds its slot until [backoff.ReportReady], or until it ends.
type Concurrency struct {
	backoff.BudgetDefaults

	// Max is the number of attempts. 0 means 100, a negative number no limit.
	Max int

	slots slots
}

const defaultConcurrency = 100

// Reserve implements [backoff.Budget]. An attempt takes its slot in Confirm,
// when it is about to be made. If its caller does not call Confirm, a first
// attempt or a hedge takes it here.
func (c *Concurrency) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if a.Paced || !a.First() && !a.Hedge {
		t, _ := c.slots.acquire(0, time.Time{})
		return t, 0, true
	}
	t, ok := c.slots.acquire(c.limit(), time.Time{})
	return t, 0, ok
}

// Confirm implements [backoff.Budget]. It takes the slot.
func (c *Concurrency) Confirm(t backoff.Ticket) bool { return c.slots.confirm(t, c.limit()) }

// Done implements [backoff.Budget].
func (c *Concurrency) Done(t backoff.Ticket, _ backoff.Result) { c.slots.release(t) }

// GrantsFirst implements [backoff.Budget]. It is false, also if c is nil.
func (c *Concurrency) GrantsFirst() bool { return false }

// Load returns how many attempts are running.
func (c *Concurrency) Load() int { return c.slots.count() }

// Validate refuses a nil Concurrency.
func (c *Concurrency) Validate() error {
	return backoff.Permanent(badfield.Nil("limit.Concurrency", c == nil))
}

func (c *Concurrency) limit() int { return limits.Or(c.Max, defaultConcurrency) }
