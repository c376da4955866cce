package backoff

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// fail decides what follows an attempt that failed with err: another one after
// a wait, or the end of the call.
func (r *Run) fail(err error) (wait time.Duration, again bool) {
	var v verdict
	r.assess(&v, err)
	if r.holds() {
		r.release(v.result())
	}
	wait, why := r.decide(&v)
	switch {
	case why == ReasonSuccess:
		r.phase, r.slept = waiting, 0
		if wait > 0 && r.began.IsZero() {
			r.began = clock.Now() // see Error
		}
		return wait, true
	case why == ReasonOpen && r.number == 0, why == ReasonPermanent && v.settled(): // there is nothing to add
		r.end(why, v.class, r.last)
	case why == ReasonPermanent:
		r.end(why, v.class, inferred(r.last))
	default:
		r.giveUp(why, v.class, wait)
	}
	return 0, false
}

// assess judges the error of an attempt, and keeps what the decision and the
// error of the call need of it.
func (r *Run) assess(v *verdict, err error) {
	v.ended = r.ctx.Err()
	v.judge(r.policy.Classify, err)
	r.timedOut = r.cancel != nil && r.timeoutEnded(v, err)
	v.timedOut = r.timedOut || r.policy.Budget != nil && r.attempt == nil && errors.Is(err, ErrAttemptTimeout)
	if r.timedOut && (!v.marked || v.outOfTime) { // also where a classifier lists what it retries
		v.class = ClassRetryable
	}
	r.retryAfter = v.hint.after
	if r.refused = v.open; v.open == nil || r.last == nil {
		r.last = err // after a refusal, the service's last answer stays
	}
	if v.open != nil { // it was no attempt
		r.number--
		r.phase = waiting
	}
}

// timeoutEnded reports whether AttemptTimeout ended the attempt. The context
// alone does not tell, because the attempt may have failed before it ended. Nor
// does the error, because operations report the end of their context in many
// ways.
func (r *Run) timeoutEnded(v *verdict, err error) bool {
	if v.outOfTime && v.ended == nil { // a policy inside had no use for the rest of the time
		own, _ := r.attempt.Deadline()
		outer, bounded := r.ctx.Deadline()
		return !bounded || own.Before(outer)
	}
	return context.Cause(r.attempt) == ErrAttemptTimeout &&
		(errors.Is(err, context.Canceled) || errors.Is(err, ErrAttemptTimeout) || find(err, func(err error) bool {
			t, ok := err.(interface{ Timeout() bool })
			return ok && t.Timeout()
		}))
}

// decide returns the wait before the next attempt, or why there is none. This
// is the only place that decides, and the order of its questions is the
// library's behaviour: first what ends the call whatever the wait, then the
// wait, then time and budget for it.
func (r *Run) decide(v *verdict) (time.Duration, Reason) {
	p := &r.policy
	switch {
	case v.ended != nil:
		return 0, endOf(v.ended)
	case v.open != nil && !p.WaitOpen:
		return 0, ReasonOpen
	case v.open != nil: // the rest is for attempts that were made
	case v.class == ClassPermanent:
		return 0, ReasonPermanent
	case v.class == ClassOverloaded:
		return 0, ReasonOverloaded
	case p.used(r.number - r.base):
		return 0, ReasonAttempts
	case !p.repeatable(r.ctx, v.class):
		return 0, ReasonNotIdempotent
	}
	if p.tooLong(v.hint) {
		return 0, ReasonRetryAfter
	}
	delay, wait := r.wait(v)
	why := ReasonSuccess
	if wait > 0 || p.MaxElapsed > 0 {
		why = r.fits(wait)
	}
	if why == ReasonSuccess && p.Budget != nil {
		wait, why = r.reserve(r.ask(AttemptRetry, v), wait)
	}
	if why == ReasonSuccess && p.Observer != nil && v.open == nil {
		r.notifyRetry(v.class, delay, wait)
	}
	return wait, why
}

// wait returns the schedule's delay before the next attempt, and the wait that
// follows from it: the delay under the jitter, scaled by the call's priority,
// and at least what the server asked for. A refusal of a breaker does not move
// the schedule on.
func (r *Run) wait(v *verdict) (delay, wait time.Duration) {
	p := &r.policy
	delay = delayOf(p.Schedule, r.retries+1)
	wait = p.jittered(delay, r.prev)
	switch {
	case v.open != nil && v.hint.after > 0:
		return delay, v.hint.after
	case v.open != nil: // half-open, and all probes are out: to ask without a pause would be a busy loop
		return delay, max(wait, 10*time.Millisecond)
	}
	r.retries, r.prev = r.retries+1, wait
	if wait > 0 {
		wait = p.prioritized(r.ctx, wait)
	}
	if v.hint.exact {
		r.retries, r.prev = 0, 0
	}
	return delay, p.hinted(wait, v.hint)
}

// fits reports whether an attempt after wait would start within the call's
// time.
func (r *Run) fits(wait time.Duration) Reason {
	p := &r.policy
	if p.MaxElapsed > 0 {
		left := p.MaxElapsed - r.age()
		if wait > left || wait == left && p.limitsTime() {
			return ReasonElapsed
		}
	}
	if wait > 0 && wait >= r.left() {
		return ReasonDeadline
	}
	return ReasonSuccess
}

// left returns how much time is left before the deadline of the call's context.
func (r *Run) left() time.Duration {
	if deadline, ok := r.ctx.Deadline(); ok {
		return deadline.Sub(clock.Now())
	}
	return maxDuration
}

// ask returns what the budget is asked for.
func (r *Run) ask(kind AttemptKind, v *verdict) Attempt {
	a := Attempt{
		Number:      r.number + 1,
		Kind:        kind,
		Class:       v.class,
		Priority:    priorityOf(r.ctx),
		TimedOut:    v.timedOut,
		MaxAttempts: r.policy.maxAttempts(),
		Now:         clock.Now(),
	}
	if v.open != nil {
		a.Class = ClassUnknown
	}
	if kind == AttemptFirst || r.number == 0 {
		a.Number, a.Kind = 1, AttemptFirst
	}
	return a
}

// reserve asks the budget for an attempt after at least wait, which the budget
// may lengthen.
func (r *Run) reserve(a Attempt, wait time.Duration) (time.Duration, Reason) {
	ticket, longer, ok := r.policy.Budget.Reserve(a)
	if !ok {
		return wait, ReasonBudget
	}
	r.ticket, r.granted = ticket, true
	wait = max(wait, longer)
	why := r.fits(wait)
	if why != ReasonSuccess {
		r.settle(Result{Outcome: OutcomeNotSent})
	}
	return wait, why
}

// endOf returns the reason of a context's error.
func endOf(err error) Reason {
	if err == context.DeadlineExceeded {
		return ReasonDeadline
	}
	return ReasonCanceled
}

// giveUp ends the call with an *Error.
func (r *Run) giveUp(why Reason, c Class, wait time.Duration) {
	e := r.newError(r.policy.Name, r.number-r.base, r.policy.maxAttempts(), why)
	e.Elapsed, e.wait, e.timedOut = r.age(), wait, r.timedOut
	switch why {
	case ReasonElapsed:
		e.limit = r.policy.MaxElapsed
	case ReasonRetryAfter:
		e.limit = r.policy.maxRetryAfter()
	case ReasonDeadline:
		e.limit = r.left()
	}
	r.end(why, c, e)
}

// end ends every call that fails.
func (r *Run) end(why Reason, c Class, err error) {
	if r.policy.Observer != nil {
		r.notifyGiveUp(why, c, err)
	}
	r.phase, r.err = over, err
}

// notifyRetry tells the observer of a failure and the retry to come. It is not
// inlined, nor is notifyGiveUp, because an Event is large, and the stack of a
// call that waits or is cancelled has no room for one.
//
//go:noinline
func (r *Run) notifyRetry(c Class, delay, wait time.Duration) {
	r.notify(&Event{Kind: EventRetry, Err: r.last, Class: c, Delay: delay, Wait: wait, RetryAfter: r.retryAfter})
}

// notifyGiveUp tells the observer that the call failed.
//
//go:noinline
func (r *Run) notifyGiveUp(why Reason, c Class, err error) {
	e := &Event{Kind: EventGiveUp, Reason: why, Err: r.last, Class: c, Waiting: r.number > 0 && r.phase == waiting}
	if gave, ok := err.(*Error); ok {
		e.RetryAfter = gave.retryAfter
	} else if why == ReasonInvalid {
		e.Err = err
	}
	r.notify(e)
}

// notify completes an event and tells the observer.
func (r *Run) notify(e *Event) {
	e.Name = r.policy.Name
	e.Attempt = r.number - r.base
	e.Slept = r.slept
	e.MaxAttempts = r.policy.maxAttempts()
	e.Elapsed = r.age()
	e.Header = headerOf(e.Err)
	r.policy.Observer.tell(r.ctx, e)
}
