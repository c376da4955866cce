package limit

import (
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/limits"
)

// Concurrency is a bulkhead: a [backoff.Budget] that lets at most Max attempts
// run at once, of all the calls and reconnect loops that share it. It refuses
// the others at once and queues none: in an outage callers know within
// microseconds, and no memory grows. As the Budget of a guard.Service it lets them wait, in order,
// retries too. Calls that wait do not count: for a [Rate], or between two attempts.
//
// The zero value is ready to use. A Concurrency must not be copied, nor its
// field changed, after first use. It is safe for concurrent use. An attempt
// holds its slot until its Done; an attempt that hangs holds it for as long as
// it hangs. A second Done changes nothing. A run of a [backoff.Supervisor]
// holds its slot until it is ready (see [backoff.Supervisor.RunReady]), or until it ends.
type Concurrency struct {
	backoff.BudgetDefaults

	// Max is the number of attempts. 0 means 100, a negative number no limit.
	Max int

	mu     sync.Mutex
	newest uint64              // ticket
	taken  map[uint64]struct{} // slots, by ticket, so that none is released twice
}

const defaultConcurrency = 100

// Reserve implements [backoff.Budget]. An attempt takes its slot in Confirm,
// when it is about to be made. If its caller does not call Confirm, a first
// attempt or a hedge takes it here.
func (c *Concurrency) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest++
	later := a.Paced || !a.First() && !a.Hedge
	return backoff.Ticket{Word: c.newest}, 0, later || c.take(c.newest)
}

// Confirm implements [backoff.Budget]. It takes the slot.
func (c *Concurrency) Confirm(t backoff.Ticket) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take(t.Word)
}

// take takes a slot for a ticket that may have one already, unless all are taken.
func (c *Concurrency) take(ticket uint64) bool {
	most := limits.Or(c.Max, defaultConcurrency)
	if _, has := c.taken[ticket]; has || most >= 0 && len(c.taken) >= most {
		return has
	}
	if c.taken == nil {
		c.taken = make(map[uint64]struct{})
	}
	c.taken[ticket] = struct{}{}
	return true
}

// Done implements [backoff.Budget].
func (c *Concurrency) Done(t backoff.Ticket, _ backoff.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.taken, t.Word)
}

// GrantsFirst implements [backoff.Budget]. It is false, also if c is nil.
func (c *Concurrency) GrantsFirst() bool { return false }

// Load returns how many attempts are running.
func (c *Concurrency) Load() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.taken)
}

// Validate refuses a nil Concurrency.
func (c *Concurrency) Validate() error {
	return backoff.Permanent(badfield.Nil("limit.Concurrency", c == nil))
}
