package backoff

import (
	"cmp"
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
)

// fail decides what follows an attempt that failed with err: another one after
// a wait, or the end of the call.
func (r *Run) fail(err error) (wait time.Duration, again bool) {
	var v verdict
	r.assess(&v, err)
	r.settle(v.result())
	if r.interrupted != nil {
		v.class = ClassUnknown // it is not that of the last error
	}
	wait, why := r.decide(&v)
	switch {
	case why == goOn:
		r.phase, r.slept = waiting, 0
		if wait > 0 && r.began.IsZero() {
			r.began = clock.Now()
		}
		return wait, true
	case r.policy.persists:
		r.giveUp(why, v.class, wait)
	case why == ReasonOpen && r.number == 0 && v.class == ClassPermanent, why == ReasonPermanent && !v.judged: // there is nothing to add
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
	v.ended, v.persists = r.ctx.Err(), r.policy.persists
	v.judge(r.policy.Classify, err)
	r.timedOut = r.cancel != nil && r.timeoutEnded(v, err)
	v.timedOut = r.timedOut || r.policy.Budget != nil && r.attempt == nil && errtree.Is(err, ErrAttemptTimeout)
	if r.timedOut && (!v.marked || v.outOfTime != nil) && !v.isBound(err) { // also where a classifier lists what it retries
		v.class = ClassRetryable
	}
	r.refused = v.open
	if v.ended != nil && r.number-r.base > 1 && v.interruptedByContext(err) {
		r.interrupted = err
	} else {
		r.retryAfter = v.hint.after
		if v.open == nil || r.number == 1 {
			r.last = err // after a refusal, the service's last answer stays, if there is one
		}
	}
	if r.policy.persists {
		v.hint = r.policy.capped(v.hint)
	}
	if v.open == nil {
		r.refusals, r.waitedOpen = 0, 0
	} else { // it was no attempt
		r.number--
		r.phase = waiting
	}
}

// timeoutEnded reports whether AttemptTimeout ended the attempt. The context
// alone does not tell, because the attempt may have failed before it ended. Nor
// does the error, because operations report the end of their context in many
// ways.
func (r *Run) timeoutEnded(v *verdict, err error) bool {
	if v.outOfTime != nil && v.ended == nil { // a policy inside had no use for the rest of the time
		own, _ := r.attempt.Deadline()
		outer, bounded := r.ctx.Deadline()
		return !bounded || own.Before(outer)
	}
	return context.Cause(r.attempt) == ErrAttemptTimeout && errtree.Find(err, func(err error) bool {
		t, ok := err.(interface{ Timeout() bool })
		return ok && t.Timeout() || errtree.Matches(err, context.Canceled) || errtree.Matches(err, ErrAttemptTimeout)
	})
}

// isBound reports whether the error of a policy inside, which had no time left,
// must end this call, too: the operation marked its last error as final, or that
// policy must not repeat it, or made a key, in place of which a further call would
// have another.
func (v *verdict) isBound(err error) bool {
	var last verdict
	binds := func(err error) bool {
		e, ok := err.(*Error)
		if !ok || e == nil {
			return false
		}
		if err := cmp.Or(e.Interrupted, e.Last); err != nil {
			last = verdict{seen: last.seen} // the limit is for all of them together
			last.collectMarks(err, false)
		}
		return last.answered() || e.Reason == ReasonNotIdempotent || e.bound
	}
	return v.outOfTime != nil && (errtree.Find(err, binds) || errtree.Find(v.outOfTime, binds))
}

// decide returns the wait before the next attempt, or why there is none. This
// is the only place that decides after a failure, and the order of its questions
// is the library's behaviour: first what ends the call whatever the wait, then
// the wait, then time and budget for it. Between attempts cancelPending ends a
// call. Package hedge decides for itself.
func (r *Run) decide(v *verdict) (time.Duration, Reason) {
	p := &r.policy
	if p.ByClass != nil && r.number == 1 {
		if err := p.checkByClass(); err != nil {
			r.invalid = err
			return 0, ReasonInvalid
		}
	}
	switch {
	case v.ended != nil:
		return 0, endOf(v.ended)
	case v.open == nil:
		r.limit = p.limitsFor(v.class).MaxAttempts
	}
	if why := p.ends(r.ctx, v, r.number-r.base, r.limit); why != goOn {
		return 0, why
	}
	var age time.Duration
	if p.MaxElapsed > 0 {
		age = r.age() // read once: a wait that is cut to the time left must fit into it
	}
	delay, wait := r.wait(v, age)
	if v.open != nil && !p.persists && p.MaxElapsed <= 0 && p.exceedsRetryAfter(r.waitedOpen) {
		return 0, ReasonOpen
	}
	why := goOn
	if wait > 0 || p.MaxElapsed > 0 || r.timedOut {
		why = r.timeFor(wait, age)
	}
	if why == goOn && p.Budget != nil {
		wait, why = r.reserve(r.ask(r.number+1, v), wait, age)
	}
	if why == goOn && p.Observer != nil {
		r.notifyWait(v, delay, wait)
	}
	return wait, why
}

// ends returns why a call ends after a failure, whatever the time and the
// budget, or goOn.
func (p *Policy) ends(ctx context.Context, v *verdict, attempts, limit int) Reason {
	switch {
	case v.open != nil && !p.persists && v.class == ClassPermanent:
		return ReasonOpen
	case v.open != nil: // the other limits are for attempts that were made
	case v.class == ClassPermanent:
		return ReasonPermanent
	case v.class == ClassOverloaded:
		return ReasonOverloaded
	case limitReached(attempts, limit):
		return ReasonAttempts
	case !p.repeatable(ctx, v.class):
		return ReasonNotIdempotent
	}
	if v.hint.given && p.exceedsRetryAfter(v.hint.after) {
		return ReasonRetryAfter
	}
	return goOn
}

// wait returns the schedule's delay before the next attempt, and the wait that
// follows from it: the delay under the jitter, scaled by the call's priority,
// and at least what the server asked for.
func (r *Run) wait(v *verdict, age time.Duration) (delay, wait time.Duration) {
	p := &r.policy
	if v.open != nil {
		return r.waitForCircuit(v.hint.after)
	}
	inRow := r.atOnce
	if r.atOnce = v.atOnce; v.atOnce && !inRow && !v.hint.given {
		return 0, 0
	}
	after := p.limitsFor(v.class)
	delay = delayOf(after.Schedule, r.retries+1)
	wait = p.jittered(after.Jitter, delay, r.prev)
	r.retries, r.prev = r.retries+1, wait
	if wait > 0 {
		wait = p.prioritized(r.ctx, wait)
	}
	if v.hint.exact {
		r.retries, r.prev = 0, 0
	}
	left := maxDuration
	if v.hint.given || p.ShortenLastWait {
		left = r.left(age)
	}
	wait = p.withRetryAfter(wait, v.hint, left)
	if p.ShortenLastWait && p.MaxElapsed > 0 && !p.limitsTime() && left > 0 {
		wait = min(wait, max(left, v.hint.after))
	}
	return delay, wait
}

// waitForCircuit is wait after a breaker has refused, which says when to ask again if
// it knows. It does not know while all probes are out, or while it is forced
// open. Then the waits grow with each refusal, and are never so short as to make
// a busy loop. Refusals do not move the schedule on.
func (r *Run) waitForCircuit(after time.Duration) (delay, wait time.Duration) {
	const least = 10 * time.Millisecond
	r.refusals++
	delay = delayOf(r.policy.Schedule, r.retries+r.refusals)
	if wait = after; wait > 0 {
		r.refusals = 0
	} else {
		delay = max(delay, min(least<<min(r.refusals-1, 12), 30*time.Second))
		wait = max(least, r.policy.jittered(r.policy.Jitter, delay, max(r.prev, r.waitedOpen)))
	}
	r.waitedOpen += wait
	return delay, wait
}

// timeFor returns goOn if an attempt after wait would start within the
// time of a call of that age, and otherwise the limit of that time.
func (r *Run) timeFor(wait, age time.Duration) Reason {
	p := &r.policy
	if p.MaxElapsed > 0 {
		left := p.MaxElapsed - age
		if wait > left || wait == left && p.limitsTime() {
			return ReasonElapsed
		}
	}
	if (wait > 0 || r.timedOut) && wait >= untilDeadline(r.ctx) { // a timeout may come with it
		return ReasonDeadline
	}
	return goOn
}

// left returns how much time is left for a call of that age.
func (r *Run) left(age time.Duration) time.Duration {
	left := untilDeadline(r.ctx)
	if r.policy.MaxElapsed > 0 {
		left = min(left, r.policy.MaxElapsed-age)
	}
	return left
}

// untilDeadline returns how much time is left before the deadline of a call's
// context.
func untilDeadline(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline.Sub(clock.Now())
	}
	return maxDuration
}

// ask returns what the budget is asked for before the given attempt.
func (r *Run) ask(number int, v *verdict) Attempt {
	a := Attempt{
		Number:      number,
		Class:       v.class,
		Priority:    PriorityOf(r.ctx),
		TimedOut:    v.timedOut,
		MaxAttempts: r.limit,
		Now:         clock.Now(),
		Paced:       true,
	}
	if v.open != nil {
		a.Class = ClassUnknown
	}
	return a
}

// reserve asks the budget for an attempt after at least wait, which the budget
// may lengthen. age is that of the call.
func (r *Run) reserve(a Attempt, wait, age time.Duration) (time.Duration, Reason) {
	a.Wait = wait
	ticket, longer, ok := r.policy.Budget.Reserve(a)
	if !ok {
		return wait, ReasonBudget
	}
	r.ticket, r.granted, r.asked, r.sent = ticket, true, true, time.Time{}
	if wait = max(wait, longer); wait <= 0 {
		r.sent = a.Now
	}
	why := r.timeFor(wait, age)
	if why != goOn {
		r.settle(Result{NotSent: true})
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
	e := &Error{
		Name:        r.policy.Name,
		Attempts:    r.number - r.base,
		Reason:      why,
		Last:        r.last,
		Interrupted: r.interrupted,
		retryAfter:  r.retryAfter,
		open:        r.refused,
		invalid:     r.invalid,
		early:       wait > 0,
		timedOut:    r.timedOut,
		class:       c,
	}
	e.single = r.limit == 1 && e.Attempts == 1 // ByClass may have allowed more
	e.endedBy(r.ctx)
	asks := r.phase == running && why != ReasonNotIdempotent // otherwise it was asked when the attempt failed
	e.bound = r.policy.binds(r.ctx, r.key, c, asks)
	r.end(why, c, e)
}

// end ends every call that fails.
func (r *Run) end(why Reason, c Class, err error) {
	if r.policy.Observer != nil {
		r.notifyGiveUp(why, c, err)
	}
	r.phase, r.err = over, err
}

// notifyWait tells the observer of a failure and the retry to come, or of a
// refusal that the call waits for. It is not inlined, nor is notifyGiveUp,
// because an Event is large, and the stack of a call that waits or is cancelled
// has no room for one.
//
//go:noinline
func (r *Run) notifyWait(v *verdict, delay, wait time.Duration) {
	e := Event{Kind: EventRetry, Err: r.last, Class: v.class, Delay: delay, Wait: wait, RetryAfter: r.retryAfter}
	if v.open != nil {
		e.Kind, e.Reason, e.Err, e.Class = EventRefused, ReasonOpen, v.open, ClassUnknown
	}
	r.notify(&e)
}

// notifyGiveUp tells the observer that the call failed.
//
//go:noinline
func (r *Run) notifyGiveUp(why Reason, c Class, err error) {
	e := &Event{Kind: EventGiveUp, Reason: why, Err: r.last, Class: c, Waiting: r.number > 0 && r.phase == waiting}
	if gave, ok := err.(*Error); ok {
		e.RetryAfter = gave.RetryAfter()
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
	e.MaxAttempts = r.limit
	e.Elapsed = r.age()
	r.policy.Observer.Notify(r.ctx, *e)
}
