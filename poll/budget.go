package poll

import (
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// Reserve implements [backoff.Budget] for the Run. Only a check after one that
// failed is a retry to the caller's budget. Any other check is a first
// attempt, for which the budget is asked when the wait is over.
func (p *poll) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	a.Number, a.MaxAttempts = p.failed+1, p.limit(a.Class)
	if p.failed > 0 {
		return p.reserve(a)
	}
	a.Number, a.Class, a.TimedOut = 1, backoff.ClassUnknown, false
	if a.Wait == 0 {
		return p.reserve(a)
	}
	a.Wait = 0
	p.ask, p.due = a, true
	return backoff.Ticket{}, 0, true
}

// reserve asks the caller's budget.
func (p *poll) reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	t, wait, ok = p.policy.Budget.Reserve(a)
	p.held = ok
	return t, wait, ok
}

// Pace implements [backoff.Budget]. The Run calls it when a wait is over.
func (p *poll) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	if p.due {
		p.due = false
		p.ask.Now = clock.Now()
		return p.reserve(p.ask)
	}
	return p.policy.Budget.Pace(t)
}

// Confirm implements [backoff.Budget].
func (p *poll) Confirm(t backoff.Ticket) bool { return p.policy.Budget.Confirm(t) }

// Done implements [backoff.Budget]. "Not yet" is a success.
func (p *poll) Done(t backoff.Ticket, r backoff.Result) {
	if !p.held {
		return
	}
	p.held = false
	if p.last == pending && !r.NotSent {
		r = backoff.Result{}
	}
	p.policy.Budget.Done(t, r)
}
