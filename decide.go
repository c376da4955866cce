package backoff

import (
	"cmp"
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
	"github.com/gobackoff/backoff/internal/fault"
)

// fail decides what follows an attempt that failed with err: another one after
// a wait, or the end of the call.
func (r *Run) fail(err error) (wait time.Duration, again bool) {
	var v verdict
	r.noteFailure(&v, err)
	r.settle(v.result())
	if r.draft.Interrupted != nil {
		v.class = ClassUnknown // it is not that of the last error
	}
	wait, why := r.decide(&v)
	switch {
	case why == goOn:
		r.phase, r.slept = waiting, 0
		if wait > 0 && r.began.IsZero() {
			r.began = clock.Real() // the timer needs it, see clock.Monotonic
		}
		return wait, true
	case r.policy.persists:
		r.giveUp(why, v.class, wait)
	case why == ReasonOpen && r.number == 0 && v.class == ClassPermanent, why == ReasonPermanent && !v.judged: // there is nothing to add
		r.end(why, v.class, r.draft.Last)
	case why == ReasonPermanent:
		r.end(why, v.class, inferred(r.draft.Last))
	default:
		r.giveUp(why, v.class, wait)
	}
	return 0, false
}

// noteFailure judges the error of the attempt that has ended, and takes note of it.
func (r *Run) noteFailure(v *verdict, err error) {
	_, bounded := r.ctx.Deadline()
	v.ended, v.persists, v.waits = r.ctx.Err(), r.policy.persists, r.policy.MaxAttempts < 0 && (bounded || r.policy.MaxElapsed > 0)
	v.judge(r.policy.Classify, err)
	if bounded && v.ended == nil && r.cancel == nil && !v.marked && !v.judged && errtree.Find(err, evidence.InVain) {
		v.ended = context.DeadlineExceeded // which would have passed before the call could go
	}
	r.readTimeout(v)
	v.said = v.fault()
	r.draft.note(v, r.count, v.ended != nil && v.interruptedByContext())
	if v.hint = r.policy.capped(v.hint); v.open == nil {
		r.refusals, r.waitedOpen = 0, 0
	} else { // it was no attempt
		r.number--
		r.phase = waiting
	}
}

// readTimeout finds out whether an attempt timeout ended the attempt. Such an
// attempt may be retried, whatever a classifier says, unless a mark forbids it.
func (r *Run) readTimeout(v *verdict) {
	v.timedOut = r.cancel != nil && r.timeoutEnded(v)
	v.innerTimedOut = r.policy.Budget != nil && r.attempt == nil && errtree.Is(v.err, ErrAttemptTimeout)
	if v.timedOut && (!v.marked || v.outOfTime != nil) && !v.innerForbidsRetry() {
		v.class = ClassRetryable
	}
}

// timeoutEnded reports whether AttemptTimeout ended the attempt. The context
// alone does not tell, because the attempt may have failed before it ended. Nor
// does the error, because operations report the end of their context in many
// ways.
func (r *Run) timeoutEnded(v *verdict) bool {
	if v.outOfTime != nil && v.ended == nil { // a policy inside had no use for the rest of the time
		own, _ := r.attempt.Deadline()
		outer, bounded := r.ctx.Deadline()
		return !bounded || own.Before(outer)
	}
	return context.Cause(r.attempt) == ErrAttemptTimeout && errtree.Find(v.err, func(err error) bool {
		return errtree.IsTimeout(err) || errtree.Matches(err, context.Canceled) || errtree.Matches(err, ErrAttemptTimeout)
	})
}

// innerForbidsRetry reports whether an inner policy that ran out of time also ends this call:
// its last error was permanent, it may not repeat, or it sent a key that a new call
// would not reuse.
func (v *verdict) innerForbidsRetry() bool {
	var last verdict
	binds := func(err error) bool {
		e, ok := err.(*Error)
		if !ok || e == nil {
			return false
		}
		if err := cmp.Or(e.Interrupted, e.Last); err != nil {
			last = verdict{seen: last.seen} // errtree.Most is for all errors together
			last.read(err, false)
		}
		return last.answered() || e.Reason == ReasonNotIdempotent || e.mustNotRepeat
	}
	return v.outOfTime != nil && (errtree.Find(v.err, binds) || errtree.Find(v.outOfTime, binds))
}

// decide returns the wait before the next attempt, or why there is none. This
// is the only place that decides after a failure, and the order of its
// questions is the library's behaviour: first what ends the call whatever the
// wait, then the wait, then time and budget for it. While no attempt is under way,
// endBetweenAttempts ends a call: begin and budgetWait ask time and budget again.
// Package hedge decides for itself.
func (r *Run) decide(v *verdict) (time.Duration, Reason) {
	p := &r.policy
	if why := r.endReason(v); why != goOn {
		return 0, why
	}
	left := r.elapsedLeft() // read once: a wait that is cut to it must fit into it
	delay, wait := r.nextWait(v, left)
	if v.open != nil && r.waitedTooLong() {
		return 0, ReasonOpen
	}
	why := r.timeFor(wait, left)
	if why == goOn && p.Budget != nil {
		wait, why = r.reserve(r.ask(r.number+1, v), wait, left)
	}
	if why == goOn && p.Observer != nil {
		r.notifyWait(v, delay, wait)
	}
	return wait, why
}

// endReason returns why a call ends after a failure, whatever the wait, or goOn.
func (r *Run) endReason(v *verdict) Reason {
	p := &r.policy
	if p.ByClass != nil && r.number == 1 {
		if r.draft.invalid = p.checkByClass(); r.draft.invalid != nil {
			return ReasonInvalid
		}
	}
	switch {
	case v.ended != nil:
		return endOf(v.ended)
	case v.open == nil:
		r.limit = p.limitsFor(v.class).MaxAttempts
	}
	return p.endReason(r.ctx, v, r.made(), r.limit)
}

// endReason returns why a call ends after a failure, whatever the time and the
// budget, or goOn.
func (p *Policy) endReason(ctx context.Context, v *verdict, attempts, limit int) Reason {
	switch {
	case v.open != nil && !p.persists && v.class == ClassPermanent:
		return ReasonOpen
	case v.open != nil: // the other limits are for attempts that were made
	case v.class == ClassPermanent:
		return ReasonPermanent
	case v.class == ClassOverloaded:
		return ReasonOverloaded
	case limit > 0 && attempts >= limit:
		return ReasonAttempts
	case !p.repeatable(ctx, v.class):
		return ReasonNotIdempotent
	}
	if v.hint.given && p.capRetryAfter(v.hint.after) < v.hint.after {
		return ReasonRetryAfter
	}
	return goOn
}

// ask returns what the budget is asked for before the given attempt.
func (r *Run) ask(number int, v *verdict) Attempt {
	a := Attempt{
		Number:      number,
		Class:       v.class,
		Priority:    PriorityOf(r.ctx),
		TimedOut:    v.timedOut || v.innerTimedOut,
		MaxAttempts: r.limit,
		Now:         clock.Now(),
		Paced:       true,
	}
	a.Deadline, _ = r.ctx.Deadline()
	if v.open != nil {
		a.Class = ClassUnknown
	}
	if v.said == fault.Chosen {
		a.Number = 1
	}
	return a
}

// reserve asks the budget for an attempt after at least wait, which the budget
// may lengthen.
func (r *Run) reserve(a Attempt, wait, elapsedLeft time.Duration) (time.Duration, Reason) {
	a.Wait = wait
	ticket, longer, ok := r.policy.Budget.Reserve(a)
	if !ok {
		return wait, ReasonBudget
	}
	r.grant = grant{ticket: ticket, held: true, asked: true}
	r.sure = max(r.sure, longer)
	if wait = max(wait, longer); wait <= 0 {
		r.sent = a.Now
	}
	why := r.timeFor(wait, elapsedLeft)
	if why != goOn {
		r.settle(Result{NotSent: true})
	}
	return wait, why
}

// giveUp ends the call with an *Error.
func (r *Run) giveUp(why Reason, c Class, wait time.Duration) {
	e := r.draft
	e.Attempts, e.Reason, e.failure.class, e.early = r.made(), why, c, wait > 0
	asks := r.phase == running && why != ReasonNotIdempotent // otherwise it was asked when the attempt failed
	r.policy.complete(&e, r.ctx, r.limit, r.key, asks)
	r.end(why, c, &e)
}

// complete fills in what the error of a call has of its policy and its context.
// limit is the most attempts, and key what the policy made for the call. asks
// says whether the Idempotency is still to be asked about the last failure.
func (p *Policy) complete(e *Error, ctx context.Context, limit int, key string, asks bool) {
	e.Name = cmp.Or(e.Name, p.Name)
	e.single = limit == 1 && e.Attempts == 1 // ByClass may have allowed more
	e.endedBy(ctx)
	c := e.failure.class
	if !c.Retryable() && e.contextError() != nil {
		c = ClassUnknown // of an attempt that was interrupted, and may have been done
	}
	e.mustNotRepeat = p.mustNotRepeat(ctx, key, c, asks)
}

// end ends every call that fails.
//
//go:noinline
func (r *Run) end(why Reason, c Class, err error) {
	if r.policy.Observer != nil {
		r.notifyGiveUp(why, c, err)
	}
	r.phase, r.err = over, err
}

// endOf returns the reason of a context's error.
func endOf(err error) Reason {
	if err == context.DeadlineExceeded {
		return ReasonDeadline
	}
	return ReasonCanceled
}

// A Decision is what a policy does after a failure.
type Decision struct {
	_ [0]func() // no unkeyed literals, no ==

	Wait       time.Duration // wait before the retry
	Again      bool          // whether to retry
	Class      Class         // class of the failure
	Reason     Reason        // why there is no retry; if there is one, 0, or ReasonOpen if the wait is for a circuit
	RetryAfter time.Duration // wait that the server asked for; 0 for none

	result Result
}

// Result returns the Result of the failed attempt for [Budget.Done].
func (d Decision) Result() Result { return d.result }

// Decide says, for a loop that keeps its own count, whether to make the given
// retry after err, and after what wait. retry counts from 1; less counts as 1.
// Decide knows neither time nor budget: for those see [Policy.Start].
func (p Policy) Decide(retry int, err error) Decision {
	v := verdict{persists: p.persists}
	v.judge(p.Classify, err)
	d := Decision{Class: v.class, RetryAfter: v.hint.after, result: v.result()}
	v.hint = p.capped(v.hint)
	retry = max(retry, 1)
	after := p.limitsFor(v.class)
	d.Reason = p.endReason(context.Background(), &v, retry, after.MaxAttempts)
	d.Again = d.Reason == goOn
	if d.Again && v.open != nil {
		d.Reason = ReasonOpen
	}
	if d.Again && (!v.atOnce || retry > 1 || v.hint.given) {
		d.Wait = p.withRetryAfter(p.jittered(after.Jitter, delayOf(after.Schedule, retry), 0), v.hint, maxDuration)
	}
	return d
}

// GiveUp builds the error that Do would return, for loops built on Decide.
//
//	d := p.Decide(n, err)
//	if !d.Again {
//		return p.GiveUp(ctx, backoff.Error{Attempts: n, Reason: d.Reason, Last: err})
//	}
//
// If the end of ctx interrupted the last attempt, or a breaker refused it, set
// Interrupted to its error, and Last to the error of the attempt before.
// ReasonCanceled may stand for any end of ctx: GiveUp makes it ReasonDeadline
// after a deadline. GiveUp returns an [*Error], but for ReasonPermanent it
// returns e.Last, as Do does.
func (p Policy) GiveUp(ctx context.Context, e Error) error {
	if e.Reason == ReasonPermanent && e.Last != nil {
		return inferred(e.Last)
	}
	ended, errs := ctx.Err(), [...]error{e.Last, e.Interrupted}
	e.Last, e.Interrupted, e.failure = nil, nil, failure{timedOut: e.failure.timedOut}
	for i, err := range errs {
		if err != nil {
			v := verdict{ended: ended}
			v.timedOut = e.failure.timedOut
			v.judge(p.Classify, err)
			refused := e.Reason == ReasonOpen && v.open != nil
			e.note(&v, count{number: i + 1}, !refused && (ended == nil || v.interruptedByContext()))
		}
	}
	if ended != nil && e.Reason == ReasonCanceled {
		e.Reason = endOf(ended)
	}
	e.early = ended == nil && untilDeadline(ctx) > 0
	p.complete(&e, ctx, p.limitsFor(e.failure.class).MaxAttempts, "", true)
	return &e
}
