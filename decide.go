package backoff

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// fail decides what follows a failed attempt: another one after a wait, or the
// end of the call.
func (r *Run) fail(err error) (time.Duration, bool) {
	var v verdict
	ended := r.assess(&v, err)
	r.running = false
	if r.attempt != nil || r.reserved {
		r.release(v.result(r.timedOutForBudget, ended != nil))
	}
	wait, why := r.next(&v, ended)
	if why != ReasonSuccess {
		r.stop(why, v, wait)
		return 0, false
	}
	return wait, true
}

// assess judges the error of an attempt, and keeps what the decision and the
// error of the call need of it. It returns the error of the call's context.
func (r *Run) assess(v *verdict, err error) (ended error) {
	r.timedOut = r.attempt != nil && r.attemptTimedOut(err)
	ended = r.ctx.Err()
	if r.held() {
		r.guardedJudge(v, err)
	} else {
		v.judge(r.policy.Classify, err)
	}
	r.timedOut = r.timedOut || v.outOfTime && ended == nil && r.shortened()
	r.timedOutForBudget = r.timedOut || r.saysTimeout(err)
	r.retryAfter = v.hint.after
	if r.refused = v.open; v.open == nil || r.number == 1 {
		r.last = err // after a refusal, the service's last answer stays
	}
	if r.timedOut && (!v.marked || v.outOfTime) { // also where a classifier lists what it retries
		v.class = ClassRetryable
	}
	return ended
}

// guardedJudge asks for the verdict, and gives back what the attempt holds if
// the user's classifier panics.
func (r *Run) guardedJudge(v *verdict, err error) {
	returned := false
	defer func() {
		if !returned {
			r.abandon()
		}
	}()
	v.judge(r.policy.Classify, err)
	returned = true
}

// attemptTimedOut reports whether AttemptTimeout ended the attempt. The error
// alone does not tell, because operations report the end of their context in
// many ways.
func (r *Run) attemptTimedOut(err error) bool {
	if context.Cause(r.attempt) != ErrAttemptTimeout {
		return false
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, ErrAttemptTimeout) {
		return true
	}
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

// saysTimeout reports whether an operation without an attempt timeout says that
// it kept the time itself. Only a budget wants to know.
func (r *Run) saysTimeout(err error) bool {
	return r.policy.Budget != nil && r.attempt == nil && errors.Is(err, ErrAttemptTimeout)
}

// shortened reports whether the attempt has less time than the call. A policy
// inside may then have given up before the attempt's time was over, because it
// had no use for the rest.
func (r *Run) shortened() bool {
	if r.cancel == nil {
		return false
	}
	own, _ := r.attempt.Deadline()
	outer, bounded := r.ctx.Deadline()
	return !bounded || own.Before(outer)
}

// next returns the wait before the next attempt, or why there is none. This is
// the only place that decides, and the order of its questions is the library's
// behaviour: first final, then the wait, then room for it.
func (r *Run) next(v *verdict, ended error) (time.Duration, Reason) {
	p := &r.policy
	why := r.final(v, ended)
	if why == ReasonOpen {
		return r.meetOpen(v.hint)
	}
	if why != ReasonSuccess {
		return 0, why
	}
	delay, wait := r.wait(v.hint)
	if (r.unbounded || wait == 0) && !p.hearsSuccess() && !p.limitsAttempts() {
		return wait, ReasonSuccess // neither time nor budget matter
	}
	wait, why = r.room(wait, v.class)
	if why == ReasonSuccess && p.Observer != nil {
		r.notifyRetry(v, delay, wait)
	}
	return wait, why
}

// final returns why the call must end here, whatever the wait, or
// ReasonSuccess.
func (r *Run) final(v *verdict, ended error) Reason {
	p := &r.policy
	switch {
	case ended != nil:
		return endOf(ended)
	case v.open != nil:
		return ReasonOpen
	case v.class == ClassPermanent:
		return ReasonPermanent
	case v.class == ClassOverloaded:
		return ReasonOverloaded
	case p.used(r.number - r.base):
		return ReasonAttempts
	case !p.repeatable(r.ctx, v.class):
		return ReasonNotIdempotent
	case p.tooLong(v.hint):
		return ReasonRetryAfter
	}
	return ReasonSuccess
}

// wait returns the schedule's delay before the next retry, and the wait that
// follows from it: the delay under the jitter, scaled by the call's priority,
// and at least what the server asked for.
func (r *Run) wait(h hint) (delay, wait time.Duration) {
	p := &r.policy
	r.retries++
	delay = delayOf(p.Schedule, r.retries)
	wait = p.jittered(delay, r.prev)
	r.prev = wait
	if wait > 0 && !r.normal {
		wait = r.prioritized(wait)
	}
	if h.given {
		wait = p.hinted(wait, h)
		if h.exact {
			r.retries, r.prev = 0, 0
		}
	}
	return delay, wait
}

// prioritized scales a wait by the priority of the call.
func (r *Run) prioritized(wait time.Duration) time.Duration {
	priority := priorityOf(r.ctx)
	if r.normal = priority == Normal; r.normal {
		return wait
	}
	wait = scale(wait, priority.waitFactor())
	if r.policy.MaxDelay > 0 {
		wait = min(wait, r.policy.MaxDelay)
	}
	return wait
}

// notifyRetry tells the observer of a failure and the retry to come. It is not
// inlined into next, nor notifyGiveUp into end, because an Event is large, and
// the stack of a call that waits or is cancelled has no room for one.
//
//go:noinline
func (r *Run) notifyRetry(v *verdict, delay, wait time.Duration) {
	r.announced = r.number
	r.notify(&Event{Kind: EventRetry, Err: r.last, Class: v.class, Delay: delay, Wait: wait, RetryAfter: v.hint.after})
}

// meetOpen is next where a breaker refused. The refusal was not an attempt.
func (r *Run) meetOpen(h hint) (time.Duration, Reason) {
	p := &r.policy
	r.number--
	switch {
	case !p.WaitOpen:
		return h.after, ReasonOpen
	case p.tooLong(h):
		return h.after, ReasonRetryAfter
	}
	wait := h.after
	if wait == 0 { // half-open, and all probes are out: to ask without a pause would be a busy loop
		wait = max(p.jittered(delayOf(p.Schedule, r.retries+1), r.prev), 10*time.Millisecond)
	}
	r.readClock()
	why := r.fits(wait)
	if why != ReasonSuccess || p.Budget == nil {
		return wait, why
	}
	a := Attempt{Number: r.number + 1, Kind: AttemptRetry, MaxAttempts: p.maxAttempts(), Now: r.now}
	if r.number == 0 {
		a.Kind = AttemptFirst
	}
	return r.reserve(a, wait)
}

// room reports whether time and budget allow a retry after wait, which the
// budget may lengthen.
func (r *Run) room(wait time.Duration, c Class) (time.Duration, Reason) {
	if wait > 0 && r.began.IsZero() || r.timed() {
		r.readClock()
	}
	if why := r.fits(wait); why != ReasonSuccess || r.policy.Budget == nil {
		return wait, why
	}
	return r.reserve(Attempt{
		Number:      r.number + 1,
		Kind:        AttemptRetry,
		MaxAttempts: r.policy.maxAttempts(),
		Class:       c,
		TimedOut:    r.timedOutForBudget,
		Now:         r.now,
	}, wait)
}

// timed reports whether the time of each retry is needed. Otherwise one reading
// of the clock, at the first wait, serves the whole call.
func (r *Run) timed() bool {
	p := &r.policy
	if p.MaxElapsed > 0 || p.Budget != nil || p.Observer != nil {
		return true
	}
	if r.unbounded {
		return false
	}
	_, bounded := r.ctx.Deadline()
	return bounded
}

func (r *Run) readClock() {
	r.now = clock.Now()
	if r.began.IsZero() {
		r.began = r.now
		r.monotonic = clock.Monotonic(&r.now)
		_, bounded := r.ctx.Deadline()
		r.unbounded = !bounded
	}
}

// reserve asks the budget for an attempt after at least wait, which the budget
// may lengthen.
func (r *Run) reserve(a Attempt, wait time.Duration) (time.Duration, Reason) {
	if !r.normal {
		a.Priority = priorityOf(r.ctx)
	}
	ticket, longer, ok := r.policy.Budget.Reserve(a)
	if !ok {
		return wait, ReasonBudget
	}
	wait = max(wait, longer)
	r.ticket, r.reserved = ticket, true
	why := r.fits(wait)
	if why != ReasonSuccess {
		r.settle(Result{Outcome: OutcomeNotSent})
	}
	return wait, why
}

// measured reports whether the time since began means anything. A reading that
// was taken after the first attempt had failed does not tell how long that
// attempt took.
func (r *Run) measured() bool {
	return !r.began.IsZero() && (r.number > 1 || r.began != r.now || r.policy.needsRun())
}

// fits reports whether an attempt after wait would start within the call's
// time.
func (r *Run) fits(wait time.Duration) Reason {
	p := &r.policy
	if p.MaxElapsed > 0 {
		left := p.MaxElapsed - r.now.Sub(r.began)
		if wait > left || wait == left && p.limitsTime() {
			return ReasonElapsed
		}
	}
	if wait > 0 && !r.unbounded {
		if deadline, ok := r.ctx.Deadline(); ok && wait >= deadline.Sub(r.now) {
			return ReasonDeadline
		}
	}
	return ReasonSuccess
}

// endOf returns the reason of a context's error.
func endOf(err error) Reason {
	if err == context.DeadlineExceeded {
		return ReasonDeadline
	}
	return ReasonCanceled
}

// stop ends the call after a failure.
func (r *Run) stop(why Reason, v verdict, wait time.Duration) {
	if why == ReasonOpen && r.number == 0 { // there is nothing to add
		r.end(why, v.class, r.last)
		return
	}
	if why != ReasonPermanent {
		r.giveUp(why, v.class, wait)
		return
	}
	err := r.last
	if !v.marked {
		err = inferred(err)
	}
	r.end(why, v.class, err)
}

// giveUp ends the call with an *Error.
func (r *Run) giveUp(why Reason, c Class, wait time.Duration) {
	e := r.newError(r.policy.Name, r.number-r.base, r.policy.maxAttempts(), why)
	e.wait, e.timedOut = wait, r.timedOut
	switch why {
	case ReasonElapsed:
		e.limit = r.policy.MaxElapsed
	case ReasonRetryAfter:
		e.limit = r.policy.maxRetryAfter()
	case ReasonDeadline:
		if deadline, ok := r.ctx.Deadline(); ok {
			e.limit = deadline.Sub(r.now)
		}
	}
	if r.measured() {
		e.Elapsed = clock.Now().Sub(r.began)
	}
	r.end(why, c, e)
}

// end ends every call that fails.
func (r *Run) end(why Reason, c Class, err error) {
	r.releaseTimer()
	r.over, r.err = true, err
	if r.policy.Observer != nil {
		r.notifyGiveUp(why, c, err)
	}
}

// notifyGiveUp tells the observer that the call failed.
//
//go:noinline
func (r *Run) notifyGiveUp(why Reason, c Class, err error) {
	e := &Event{Kind: EventGiveUp, Reason: why, Err: r.last, Class: c, Waiting: r.number > 0 && r.announced == r.number}
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
	if r.measured() {
		e.Elapsed = clock.Now().Sub(r.began)
	}
	e.Header = headerOf(e.Err)
	r.policy.Observer.tell(r.ctx, e)
}
