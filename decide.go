package backoff

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// fail decides after a failure. The order of its questions is the library's
// behaviour; there is no other place that asks them.
func (r *Run) fail(err error) (time.Duration, bool) {
	r.cut = r.timedOut(err)
	ended := r.ctx.Err()
	var v verdict
	if r.held() {
		r.guardedJudge(&v, err)
	} else {
		v.judge(r.policy.Classify, err)
	}
	r.cut = r.cut || v.ended && ended == nil && r.shortened()
	r.late = r.cut || r.attempt == nil && r.policy.Budget != nil && errors.Is(err, ErrAttemptTimeout)
	r.hint = v.hint
	if r.barred = v.open; v.open == nil || r.number == 1 {
		r.last = err // else the last answer of the service stands
	}
	if r.cut && (!v.marked || v.ended) { // also where a classifier lists what it retries
		v.class = ClassRetryable
	}
	r.running = false
	if r.attempt != nil || r.booked {
		r.release(outcomeOf(v, r.late, ended != nil))
	}
	wait, why := r.next(&v, ended)
	if why != ReasonSuccess {
		r.stop(why, v, wait)
		return 0, false
	}
	return wait, true
}

// guardedJudge asks for the verdict, and gives back what the attempt holds also if the
// user's classifier panics.
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

// timedOut reports whether it was the attempt's own time that ended it. The error
// alone does not tell: whoever waits under a context reports its end in his own way.
func (r *Run) timedOut(err error) bool {
	if r.attempt == nil || context.Cause(r.attempt) != ErrAttemptTimeout {
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

// shortened reports whether the attempt has less time than the call. A policy inside may
// then have given up before the attempt's time was over, for it had no use for the rest.
func (r *Run) shortened() bool {
	if r.cancel == nil {
		return false
	}
	own, _ := r.attempt.Deadline()
	outer, bounded := r.ctx.Deadline()
	return !bounded || own.Before(outer)
}

// next returns the wait before the next attempt, or why there is none.
func (r *Run) next(v *verdict, ended error) (time.Duration, Reason) {
	p := r.policy
	switch {
	case ended != nil:
		return 0, endOf(ended)
	case v.open != nil:
		return r.meetOpen(v.hint)
	case v.class == ClassPermanent:
		return 0, ReasonPermanent
	case v.class == ClassOverloaded:
		return 0, ReasonOverloaded
	case p.spent(r.number - r.paid):
		return 0, ReasonAttempts
	case p.Idempotency != nil && !p.Idempotency.Repeatable(r.ctx, v.class):
		return 0, ReasonNotIdempotent
	case p.overlong(v.hint):
		return v.hint.after, ReasonRetryAfter
	}
	r.step++
	delay := delayOf(p.Schedule, r.step)
	wait := p.jittered(delay, r.prev)
	r.prev = wait
	if wait > 0 && !r.usual {
		wait = r.impatient(wait)
	}
	if v.hint.given {
		wait = p.hinted(wait, v.hint)
		if v.hint.exact {
			r.step, r.prev = 0, 0
		}
	}
	if (r.endless || wait == 0) && !p.watched() && !p.guarded() {
		return wait, ReasonSuccess // neither time nor budget matter
	}
	wait, why := r.room(wait, v.class)
	if why == ReasonSuccess && p.Observer != nil {
		r.notifyRetry(v, delay, wait)
	}
	return wait, why
}

// impatient is the wait of a call that is more or less urgent than others.
func (r *Run) impatient(wait time.Duration) time.Duration {
	factor := patience(r.ctx)
	if r.usual = factor == 1; r.usual {
		return wait
	}
	wait = scale(wait, factor)
	if r.policy.MaxDelay > 0 {
		wait = min(wait, r.policy.MaxDelay)
	}
	return wait
}

// notifyRetry is kept out of next, and notifyGiveUp out of end, because an Event is
// large, and a call that waits or is cancelled has no room for one on its stack.
//
//go:noinline
func (r *Run) notifyRetry(v *verdict, delay, wait time.Duration) {
	r.told = r.number
	r.notify(&Event{Kind: EventRetry, Err: r.last, Class: v.class, Delay: delay, Wait: wait, RetryAfter: v.hint.after})
}

// meetOpen is next where a breaker refused. The refusal was no attempt.
func (r *Run) meetOpen(h hint) (time.Duration, Reason) {
	p := r.policy
	r.number--
	switch {
	case !p.WaitOpen:
		return h.after, ReasonOpen
	case p.overlong(h):
		return h.after, ReasonRetryAfter
	}
	wait := h.after
	if wait == 0 { // half-open, with all probes out; asking without a pause would be a busy loop
		wait = max(p.jittered(delayOf(p.Schedule, r.step+1), r.prev), 10*time.Millisecond)
	}
	r.read()
	why := r.fits(wait)
	if why != ReasonSuccess || p.Budget == nil {
		return wait, why
	}
	a := Attempt{Number: r.number + 1, Kind: AttemptRetry, Now: r.now}
	if r.number == 0 {
		a.Kind = AttemptFirst
	}
	return r.reserve(a, wait)
}

// room reports whether time and budget allow a retry after wait, which the budget
// may stretch.
func (r *Run) room(wait time.Duration, c Class) (time.Duration, Reason) {
	if wait > 0 && r.began.IsZero() || r.timed() {
		r.read()
	}
	if why := r.fits(wait); why != ReasonSuccess || r.policy.Budget == nil {
		return wait, why
	}
	return r.reserve(Attempt{Number: r.number + 1, Kind: AttemptRetry, Class: c, TimedOut: r.late, Now: r.now}, wait)
}

// timed reports whether anybody needs the time of each retry. Else one reading, at the
// first wait, serves the whole call.
func (r *Run) timed() bool {
	p := r.policy
	if p.MaxElapsed > 0 || p.Budget != nil || p.Observer != nil {
		return true
	}
	if r.endless {
		return false
	}
	_, bounded := r.ctx.Deadline()
	return bounded
}

// read reads the clock.
func (r *Run) read() {
	r.now = clock.Now()
	if r.began.IsZero() {
		r.began = r.now
		r.real = monotonic(&r.now)
		_, bounded := r.ctx.Deadline()
		r.endless = !bounded
	}
}

// reserve asks the budget for an attempt after at least wait, which it may stretch.
func (r *Run) reserve(a Attempt, wait time.Duration) (time.Duration, Reason) {
	if a.Patience = 1; !r.usual {
		a.Patience = patience(r.ctx)
	}
	ticket, longer, ok := r.policy.Budget.Reserve(a)
	if !ok {
		return wait, ReasonBudget
	}
	wait = max(wait, longer)
	r.ticket, r.booked = ticket, true
	why := r.fits(wait)
	if why != ReasonSuccess {
		r.settle(OutcomeNotSent)
	}
	return wait, why
}

// measured reports whether the time since began tells anything. What was read when the first
// attempt had failed, for what to do next, tells nothing of that attempt.
func (r *Run) measured() bool {
	return !r.began.IsZero() && (r.number > 1 || r.began != r.now || r.policy.elaborate())
}

// fits reports whether an attempt after wait would still be within the call's time.
func (r *Run) fits(wait time.Duration) Reason {
	p := r.policy
	if p.MaxElapsed > 0 {
		left := p.MaxElapsed - r.now.Sub(r.began)
		if wait > left || wait == left && p.AttemptTimeout != nil {
			return ReasonElapsed
		}
	}
	if wait > 0 && !r.endless {
		if deadline, ok := r.ctx.Deadline(); ok && wait >= deadline.Sub(r.now) {
			return ReasonDeadline
		}
	}
	return ReasonSuccess
}

func endOf(err error) Reason {
	if err == context.DeadlineExceeded {
		return ReasonDeadline
	}
	return ReasonCanceled
}

// stop ends the call after a failure.
func (r *Run) stop(why Reason, v verdict, wait time.Duration) {
	if why == ReasonOpen && r.number == 0 { // nothing to add
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
	e := &Error{
		Name:       r.policy.Name,
		Attempts:   r.number - r.paid,
		Reason:     why,
		Last:       r.last,
		retryAfter: r.hint.after,
		ctx:        r.ctx,
		wait:       wait,
		timedOut:   r.cut,
		open:       r.barred,
		single:     r.policy.maxAttempts() == 1,
	}
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

// end is where every call that fails comes to.
func (r *Run) end(why Reason, c Class, err error) {
	r.disarm()
	r.over, r.err = true, err
	if r.policy.Observer != nil {
		r.notifyGiveUp(why, c, err)
	}
}

//go:noinline
func (r *Run) notifyGiveUp(why Reason, c Class, err error) {
	e := &Event{Kind: EventGiveUp, Reason: why, Err: r.last, Class: c, Waiting: r.number > 0 && r.told == r.number}
	if gave, ok := err.(*Error); ok {
		e.RetryAfter = gave.retryAfter
	} else if why == ReasonInvalid {
		e.Err = err
	}
	r.notify(e)
}

func (r *Run) notify(e *Event) {
	e.Name = r.policy.Name
	e.Attempt = r.number - r.paid
	e.Slept = r.slept
	e.MaxAttempts = r.policy.maxAttempts()
	if r.measured() {
		e.Elapsed = clock.Now().Sub(r.began)
	}
	e.Header = headerOf(e.Err)
	r.policy.Observer.tell(r.ctx, e)
}

func outcomeOf(v verdict, timedOut, ended bool) Outcome {
	switch {
	case v.open != nil:
		return OutcomeNotSent
	case ended:
		return OutcomeCanceled
	case timedOut:
		return OutcomeTimeout
	}
	switch v.class {
	case ClassPermanent:
		if v.gaveUp {
			return OutcomeTransient
		}
		return OutcomeDefinitive
	case ClassThrottled, ClassOverloaded:
		return OutcomeThrottled
	}
	return OutcomeTransient
}
