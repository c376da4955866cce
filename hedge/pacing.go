package hedge

import (
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
)

// goOn is the Reason of a call that has not ended.
const goOn backoff.Reason = 0

// pacing decides when the next attempt of a call goes, and who pays for it. The lock
// of the race guards it.
type pacing struct {
	*call

	delay    time.Duration  // time before each hedge
	alarm    *clock.Alarm   // alarm for the next hedge; nil if none is set
	earliest time.Time      // earliest time of the next attempt, for a server or the Budget
	ticket   backoff.Ticket // ticket of the next attempt
	granted  bool           // the next attempt is paid for, and only has to wait
	unpaid   bool           // nothing paid for a hedge that was due
	why      backoff.Reason // reason why no further attempt goes; goOn while one may
}

// first waits until the first attempt goes, and returns that time. If the attempt does
// not go, why is set.
func (p *pacing) first(now time.Time) time.Time {
	if p.ctx.Err() != nil {
		p.stop(backoff.ReasonCanceled)
	} else {
		p.reserve(now)
	}
	for wait := p.depart(now); wait > 0; wait = p.depart(now) {
		if !clock.Sleep(p.ctx, wait) {
			p.stop(backoff.ReasonCanceled)
			break
		}
		now = clock.Now()
		p.waited(now)
	}
	return now
}

// schedule arranges for the attempt after the one that goes now. It reports whether
// that is to go at once, too.
func (p *pacing) schedule(now time.Time) (atOnce bool) {
	p.disarm()
	switch {
	case p.number >= p.hedge.maxAttempts():
		p.why = backoff.ReasonAttempts
	case p.hedge.Delay < 0:
		return true
	case p.delay > 0 && p.fits(now, p.delay):
		p.arm(p.delay)
	}
	return false
}

// due reports whether the next hedge goes now. If it goes later, an alarm is set, or a
// failure leads to it. If it does not go, why is set.
func (p *pacing) due(now time.Time) bool {
	if p.why != goOn || !p.granted && !p.earliest.After(now) && !p.pay(now) {
		return false
	}
	wait := p.depart(now)
	if wait > 0 {
		p.arm(wait)
	}
	return wait == 0 && p.why == goOn
}

// waited takes the end of a wait for the next attempt.
func (p *pacing) waited(now time.Time) {
	p.alarm, p.earliest = nil, time.Time{}
	if p.granted {
		p.reserve(now)
	}
}

// failed takes a failure that does not end the call.
func (p *pacing) failed(f *failure, now time.Time) {
	switch {
	case f.refused():
		p.stop(backoff.ReasonOpen)
		p.why = backoff.ReasonOpen // also if this was the last attempt
	case f.Class == backoff.ClassPermanent: // a budget inside the operation refused
		p.stop(backoff.ReasonBudget)
	case f.Class == backoff.ClassOverloaded, f.Class == backoff.ClassThrottled && !f.told:
		p.stop(backoff.ReasonOverloaded)
	case f.Reason == backoff.ReasonRetryAfter:
		p.stop(backoff.ReasonRetryAfter)
	default:
		p.putOff(now.Add(f.RetryAfter))
	}
}

// putOff puts the next hedge off until at. What was granted for a shorter wait goes
// back.
func (p *pacing) putOff(at time.Time) {
	if !at.After(p.earliest) {
		return
	}
	if p.granted {
		p.giveBack()
	}
	p.earliest = at
}

// pay gets the next hedge paid for, and reports whether it is. Otherwise the hedge goes
// later, or not at all.
func (p *pacing) pay(now time.Time) bool {
	h, class := p.hedge, p.class
	if p.running > 0 { // an attempt may have been sent
		class = backoff.ClassUnknown
	}
	switch {
	case p.ctx.Err() != nil:
		p.stop(backoff.ReasonCanceled)
	case !p.fits(now, 0):
		p.stop(backoff.ReasonDeadline)
	case h.Idempotency != nil && !h.Idempotency.Repeatable(p.ctx, class):
		if p.running == 0 { // otherwise it may be sent when the others have failed
			p.stop(backoff.ReasonNotIdempotent)
		}
	case !h.account.take(h.MaxExtraLoad):
		p.postpone(now)
	case !p.reserve(now):
		h.account.giveBack()
	}
	return p.granted
}

// postpone asks again later for a hedge that no success pays for yet, as long as an
// attempt is under way. Each time it waits twice as long.
func (p *pacing) postpone(now time.Time) {
	if p.delay *= 2; p.running == 0 || p.delay <= 0 || !p.fits(now, p.delay) {
		p.refuse()
		return
	}
	p.unpaid = true
	p.arm(p.delay)
}

// reserve asks the Budget for the next attempt, and after each wait whether the attempt
// may still go. Then depart confirms the attempt, or giveBack cancels it.
func (p *pacing) reserve(now time.Time) (ok bool) {
	var wait time.Duration
	switch b := p.hedge.Budget; {
	case b == nil:
		ok = true
	case p.granted:
		p.ticket, wait, ok = b.Pace(p.ticket)
	default:
		p.ticket, wait, ok = b.Reserve(p.ask(now))
	}
	if !ok {
		p.refuse()
		return false
	}
	p.granted, p.earliest = true, now.Add(wait)
	return true
}

// ask returns what the Budget is asked for.
func (p *pacing) ask(now time.Time) backoff.Attempt {
	return backoff.Attempt{
		Number:      p.number + 1,
		Hedge:       p.number > 0,
		Class:       p.class,
		Priority:    backoff.PriorityOf(p.ctx),
		MaxAttempts: p.hedge.maxAttempts(),
		Now:         now,
		Paced:       true,
	}
}

// depart returns how long the next attempt still has to wait. At 0 it goes, unless why
// is set.
func (p *pacing) depart(now time.Time) time.Duration {
	b, wait := p.hedge.Budget, p.earliest.Sub(now)
	switch {
	case p.why != goOn:
	case wait > 0 && (clock.Skips() || p.fits(now, wait)):
		return wait
	case wait > 0:
		p.stop(backoff.ReasonDeadline)
	case b != nil && !b.Confirm(p.ticket):
		p.refuse()
	default:
		p.granted, p.unpaid = false, false
	}
	return 0
}

// giveBack returns what was granted for the next attempt. A first attempt costs the
// account nothing.
func (p *pacing) giveBack() {
	p.granted = false
	if p.number > 0 {
		p.hedge.account.giveBack()
	}
	if p.hedge.Budget != nil {
		p.hedge.Budget.Done(p.ticket, backoff.Result{NotSent: true})
	}
}

// refuse says that nothing pays for the next attempt.
func (p *pacing) refuse() {
	p.unpaid = p.number > 0
	p.stop(backoff.ReasonBudget)
}

// stop says why no further attempt goes. Attempts under way go on.
func (p *pacing) stop(why backoff.Reason) {
	if p.why == goOn {
		p.why = why
	}
	p.disarm()
	if p.granted {
		p.giveBack()
	}
}

// arm sets the alarm for the next hedge.
func (p *pacing) arm(d time.Duration) {
	p.disarm()
	p.alarm = p.runner.alarm(d)
}

// disarm stops the alarm.
func (p *pacing) disarm() {
	if p.alarm != nil {
		p.alarm.Stop()
		p.alarm = nil
	}
}

// fits reports whether a hedge that starts after wait has time enough to be of use: as
// much as was too long for the attempts before it.
func (p *pacing) fits(now time.Time, wait time.Duration) bool {
	left := p.left(now)
	return limits.Add(wait, p.delay) <= left && wait < left
}

// left returns how much time is left before the deadline.
func (p *pacing) left(now time.Time) time.Duration {
	if deadline, ok := p.ctx.Deadline(); ok {
		if clock.Skip != nil {
			now = clock.Real()
		}
		return deadline.Sub(now)
	}
	return maxDuration
}
