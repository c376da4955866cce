package sim

import (
	"time"

	"github.com/gobackoff/backoff"
)

// A pacedBudget is a budget that is asked for the pace when a wait is over. The
// loop of a policy does so itself, but the calls of a simulation wait outside of
// it. So the run of a call gets the number of its reservation as its ticket, and
// the budget's own ticket may change. A run also waits before the first attempt. So
// that run is refused, and another one, which begins when the wait is over, gets the
// reservation.
type pacedBudget struct {
	backoff.Budget
	newest uint64
	held   map[uint64]*reservation
	call   *call // that begins an attempt
}

// A reservation is what a budget has granted.
type reservation struct {
	ticket  backoff.Ticket // the budget's own
	refused bool           // by Pace
}

// Reserve implements [backoff.Budget].
func (b *pacedBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	c := b.call
	if a.First() && c.firstWait > 0 {
		return backoff.Ticket{Word: c.reserved}, 0, true
	}
	a.Paced = true // as pace and Confirm are called for it
	t, wait, ok := b.Budget.Reserve(a)
	if !ok {
		return t, wait, false
	}
	b.newest++
	b.held[b.newest] = &reservation{ticket: t}
	if a.First() && wait > 0 && c.hasTimeFor(wait) {
		c.firstWait, c.reserved = wait, b.newest
		return t, wait, false
	}
	return backoff.Ticket{Word: b.newest}, wait, true
}

// GrantsFirst implements [backoff.Budget]. It is false where a first attempt has a
// reservation already.
func (b *pacedBudget) GrantsFirst() bool {
	return (b.call == nil || b.call.firstWait == 0) && b.Budget.GrantsFirst()
}

// drop gives a reservation back that a run has not got.
func (b *pacedBudget) drop(number uint64) {
	if b != nil && b.held[number] != nil {
		b.Done(backoff.Ticket{Word: number}, backoff.Result{NotSent: true})
	}
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

// begin begins an attempt, if the policy allows it.
func (c *call) begin() (ok bool) {
	if b := c.process.paced; b != nil {
		b.call = c
	}
	_, ok = c.run.Begin(0)
	return ok
}

// putOff waits before the first attempt. The time of the run that makes it is less by
// that.
func (c *call) putOff() {
	p := *c.process.policy
	if p.MaxElapsed > 0 {
		p.MaxElapsed = max(1, p.MaxElapsed-c.firstWait)
	}
	c.run = *p.Start(c.context())
	c.after(c.firstWait, c, sending)
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
	most, timeout := c.process.policy.MaxElapsed, c.process.timeout != nil // which would leave the attempt no time
	left := c.began + most - c.now - wait
	return c.now+wait < c.ctx.end && (most <= 0 || left > 0 || left == 0 && !timeout)
}
