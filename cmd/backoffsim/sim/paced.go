package sim

import (
	"time"

	"github.com/gobackoff/backoff"
)

// A pacedBudget is a budget that is asked for the pace when a wait is over. The
// loop of a policy does so itself, but the calls of a simulation wait outside of
// it. So the run of a call gets the number of its reservation as its ticket, and
// the budget's own ticket may change.
type pacedBudget struct {
	backoff.Budget
	newest uint64
	held   map[uint64]*reservation
}

// A reservation is what a budget has granted.
type reservation struct {
	ticket  backoff.Ticket // the budget's own
	refused bool           // by Pace
}

// Reserve implements [backoff.Budget].
func (b *pacedBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	a.Paced = true // as pace and Confirm are called for it
	t, wait, ok := b.Budget.Reserve(a)
	if !ok {
		return t, wait, false
	}
	b.newest++
	b.held[b.newest] = &reservation{ticket: t}
	return backoff.Ticket{Word: b.newest}, wait, true
}

// pace asks for the pace of a reservation, and returns how much longer its call
// waits. After a refusal the attempt is not confirmed.
func (b *pacedBudget) pace(number uint64) (wait time.Duration) {
	r := b.held[number]
	t, wait, ok := b.Pace(r.ticket)
	if !ok {
		r.refused = true
		return 0
	}
	r.ticket = t
	return wait
}

// Confirm implements [backoff.Budget]. Nothing is held for a first attempt that
// the budget was not asked for.
func (b *pacedBudget) Confirm(t backoff.Ticket) bool {
	r := b.held[t.Word]
	if r == nil {
		r = new(reservation)
	}
	return !r.refused && b.Budget.Confirm(r.ticket)
}

// Done implements [backoff.Budget].
func (b *pacedBudget) Done(t backoff.Ticket, result backoff.Result) {
	var own backoff.Ticket
	if r := b.held[t.Word]; r != nil {
		own = r.ticket
		delete(b.held, t.Word)
	}
	b.Budget.Done(own, result)
}

// wake makes an attempt whose wait is over, unless the budget asks for a longer
// one. A call that has no time for that ends.
func (c *call) wake() {
	if b := c.process.paced; b != nil {
		if wait := b.pace(c.reserved); wait > 0 {
			if c.hasTimeFor(wait) {
				c.after(wait, c, sending)
				return
			}
			c.ctx.end = c.now
		}
	}
	c.send()
}

// hasTimeFor reports whether an attempt after wait would start within the call's
// time.
func (c *call) hasTimeFor(wait time.Duration) bool {
	most := c.process.policy.MaxElapsed
	return c.now+wait < c.ctx.end && (most <= 0 || c.now+wait <= c.began+most)
}
