package backoff

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"time"
	"unsafe"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/force"
	"github.com/gobackoff/backoff/internal/waker"
)

// A Run is one call under a [Policy], for a loop of the caller's own. It is for
// one goroutine.
//
// As a range loop:
//
//	r := policy.Start(ctx)
//	for ctx := range r.Attempts() {
//		v, err := fetch(ctx)
//		if err == nil {
//			return v, nil
//		}
//		r.Fail(err)
//	}
//	return zero, r.Err()
//
// Begin and Retry are for a loop that does something between an attempt and the
// wait after it. Every attempt begins with Begin, which returns its context:
//
//	r := policy.Start(ctx)
//	ctx, ok := r.Begin(0)
//	for ok {
//		var wait time.Duration
//		if wait, ok = r.Retry(save(ctx)); ok {
//			log.Print("retry in ", wait)
//			ctx, ok = r.Begin(wait)
//		}
//	}
//	return r.Err()
type Run struct {
	ctx    context.Context // context of the call
	policy Policy          // copy, never changed
	phase  runPhase        // where in the call it is
	began  time.Time       // start of the call or its last Progress; zero while nobody needs it
	count                  // attempts so far
	waits                  // waits so far, which the next one depends on
	draft  Error           // error of the call, as far as it is known
	err    error           // Fail's, while an attempt runs; error of the call, once it is over

	// The attempt under way, or the one to come.
	attempt context.Context    // its context, if that is not the call's
	cancel  context.CancelFunc // ends that context, if there is an attempt timeout
	key     string             // idempotency key made for the call
	grant                      // what the budget granted
	slept   time.Duration      // wait before it, if there is an observer
	timer   *time.Timer        // timer of the wait under way
	rise    func() bool        // ends that wait, and reports whether it was ended early; nil if no signal can
}

// runPhase is where in its call a [Run] is.
type runPhase uint8

const (
	starting runPhase = iota // the first attempt was not asked for
	waiting                  // an attempt may follow
	running                  // an attempt is under way
	over                     // the call has ended
)

// A count is how many attempts a call has made, and may make.
type count struct {
	_ [0]func() // no ==, which every program would have the code of

	number int // attempts begun
	base   int // attempts that Progress no longer counts
	limit  int // most attempts, by the last failure; negative if there is no limit
}

// made returns how many attempts count.
func (c *count) made() int { return c.number - c.base }

// A grant is what a budget granted to an attempt.
type grant struct {
	_ [0]func() // no ==

	ticket Ticket    // what the budget wants back
	held   bool      // whether the budget waits for it
	asked  bool      // whether Reserve was called for it
	sent   time.Time // start of the attempt; zero if it is not measured
}

var errUnreported = errors.New("the program did not say why (Run.Fail)")

// runs are reused. They are not on the stack, because with a Run on it the
// stack of every call that waits would double.
var runs = sync.Pool{New: func() any { return &pooled{unsafe.Pointer(new(bareRun))} }}

// A pooled Run hides its type. The methods of a type in an interface, and those of
// its fields, become part of every program: here 5 KiB.
type pooled struct{ run unsafe.Pointer }

// bareRun is a Run without methods, which clearing a Run would link as well.
type bareRun Run

// run makes the attempts of a call, or those after the first one if that failed
// with err. began is when it began.
func (p *Policy) run(ctx context.Context, op func(context.Context) error, err error, began time.Time) error {
	if m, ok := err.(*marked); ok && m.class == ClassPermanent && p.Budget == nil && p.Observer == nil && ctx.Err() == nil {
		return err // as decide would, for a fifth of the cost
	}
	from := runs.Get().(*pooled)
	r := (*Run)(from.run)
	r.policy, r.limit, r.ctx = *p, p.maxAttempts(), ctx
	if err != nil {
		r.first()
		r.began, r.err = began, err
	}
	defer r.discard(from)
	for wait, ok := r.next(); ok && r.sleep(wait) && r.begin(); wait, ok = r.next() {
		if ctx, r.err = force.Attempt(r.context()); r.err == nil {
			r.err = force.Result(ctx, op(ctx))
		}
		if r.err == nil {
			r.finish()
			break
		}
	}
	return r.err
}

// discard puts the Run back if the call has ended. It has not if op, or a
// function of the policy, panicked.
func (r *Run) discard(from *pooled) {
	r.settleUnfinished()
	if r.phase == over {
		*(*bareRun)(r) = bareRun{}
		runs.Put(from)
	}
}

// Attempts returns the attempts of the call for a range loop, each as its
// context. That is the context of the call, with the timeout of the policy and
// the idempotency key of the call, if they have one. With a timeout it ends
// with the attempt.
//
// The loop sleeps between attempts. It ends when the policy gives up; then Err
// says why. Leaving the loop means success, unless Fail was called for the
// attempt. Reaching the end of its body means failure, whether Fail was called
// or not. The sequence is for single use: afterwards it is empty, until Reset.
func (r *Run) Attempts() iter.Seq[context.Context] {
	return func(yield func(context.Context) bool) {
		if r.phase == starting && r.policy.simple(r.ctx) {
			r.first()
			r.began = r.policy.startTime()
			if !yield(r.context()) {
				r.finish()
				return
			}
		}
		r.each(yield)
	}
}

// each makes the attempts, or those after the first one.
func (r *Run) each(yield func(context.Context) bool) {
	defer r.settleUnfinished() // where a function of the user panics
	for wait, ok := r.next(); ok && r.sleep(wait) && r.begin(); wait, ok = r.next() {
		var ctx context.Context
		if ctx, r.err = force.Attempt(r.context()); r.err == nil && !yield(ctx) {
			r.finish()
			return
		}
	}
}

// next ends the attempt under way, if there is one. It reports whether another
// one may follow, and after what wait.
func (r *Run) next() (wait time.Duration, ok bool) {
	if r.phase != running {
		return r.admit()
	}
	return r.fail(cmp.Or(r.err, errUnreported))
}

// first begins the first attempt under a simple policy.
func (r *Run) first() {
	r.phase, r.number, r.held = running, 1, r.policy.Budget != nil
}

// Fail reports that the attempt under way failed with err. If it is called more
// than once, the last error counts.
func (r *Run) Fail(err error) {
	if r.phase != over {
		r.err = cmp.Or(err, errUnreported)
	}
}

// Err returns why the call failed. It is nil while the call goes on and after
// success.
func (r *Run) Err() error {
	if r.phase != over {
		return nil
	}
	return r.err
}

// Attempt returns the number of the attempt under way, or of the last one, from
// 1. It is 0 before the first. Progress does not set it back.
func (r *Run) Attempt() int { return r.number }

// context returns the context for the present attempt.
func (r *Run) context() context.Context {
	if r.attempt == nil && r.key != "" {
		r.attempt = WithIdempotencyKey(r.ctx, r.key)
	}
	if r.attempt == nil {
		return r.ctx
	}
	return r.attempt
}

// admit asks for the first attempt, if that was not done. It reports whether an
// attempt may be made, and how long the budget makes the first one wait.
func (r *Run) admit() (pause time.Duration, ok bool) {
	if r.phase == starting {
		pause = r.start(true)
	}
	if r.phase != over && r.ctx.Err() != nil {
		r.endBetweenAttempts(endOf(r.ctx.Err()), 0)
	}
	return pause, r.phase != over
}

// Begin waits, and begins an attempt: the first one, for which wait is 0, or
// the next one, after the wait that Retry returned. A budget may make the wait
// longer. Begin returns the context of the attempt, as Attempts yields it. If
// there is no attempt, ok is false, and Err says why: the policy is invalid,
// the context ended, no time is left, or the budget refused.
func (r *Run) Begin(wait time.Duration) (ctx context.Context, ok bool) {
	defer r.settleUnless(&ok)
	if r.phase == running {
		r.end(ReasonInvalid, ClassPermanent, invalid("Run.Begin", "was called before Run.Retry"))
	}
	first, admitted := r.admit()
	if ok = admitted && r.sleep(max(wait, first)) && r.begin(); !ok {
		return r.ctx, false
	}
	ctx, _ = force.Attempt(r.context()) // that the attempt is made cannot be helped
	return ctx, true
}

// begin begins the next attempt, if the budget confirms it and there is time
// for it.
func (r *Run) begin() bool {
	if r.asked && !r.policy.Budget.Confirm(r.ticket) {
		r.endBetweenAttempts(ReasonBudget, 0)
		return false
	}
	if r.policy.hasAttemptTimeout() && r.elapsedLeft() <= 0 { // the wait ended late, and the attempt would have no time
		r.endBetweenAttempts(ReasonElapsed, 0)
		return false
	}
	r.phase, r.err = running, nil
	if r.number++; r.cancel == nil {
		r.attempt = nil // which has the key, and that knows its request
	}
	if r.asked && r.sent.IsZero() { // it has waited
		r.sent = clock.Now()
	}
	if r.policy.hasAttemptTimeout() {
		r.startAttemptTimeout()
	}
	return true
}

// Retry reports how the attempt under way ended, nil for success, and decides
// what follows: another attempt after wait, or the end of the call, which Err
// explains. It does not sleep: Begin does. Without Begin before it, Retry ends
// the call with an error.
func (r *Run) Retry(err error) (wait time.Duration, ok bool) {
	if r.phase < running {
		r.end(ReasonInvalid, ClassPermanent, invalid("Run.Retry", "was called without Run.Begin"))
	}
	return r.Tried(err)
}

// Tried is Retry for an attempt that was made without Begin, by the loop of
// another library. The attempt had neither the timeout of the policy nor its
// key. A Budget is asked afterwards, so that the count is right.
func (r *Run) Tried(err error) (wait time.Duration, ok bool) {
	defer r.settleUnless(&ok)
	if r.phase < running {
		r.catchUp(err)
	}
	switch {
	case r.phase == over:
		return 0, false
	case err == nil:
		r.err = nil
		r.finish()
		return 0, false
	}
	return r.fail(err)
}

// catchUp asks for an attempt that was made without Begin. A refusal ends the
// call, unless the attempt succeeded: then only the budget learns of it.
func (r *Run) catchUp(err error) {
	r.number++
	switch {
	case r.phase == starting && err != nil:
		r.draft.Last = err
		r.start(false)
	case r.phase == starting && r.policy.Budget != nil && r.policy.Budget.Validate() == nil:
		a := r.ask(1, new(verdict))
		a.Paced = false
		r.ticket, _, r.held = r.policy.Budget.Reserve(a)
	case err != nil && r.asked && !r.policy.Budget.Confirm(r.ticket):
		r.draft.Last = err
		r.endBetweenAttempts(ReasonBudget, 0)
	}
	if r.phase != over {
		r.phase, r.asked = running, false // when it began is not known
	}
}

// Progress reports that the call has achieved something that a retry builds on,
// such as a chunk of a transfer. Attempts, elapsed time and schedule start
// again, with the attempt under way as the first.
func (r *Run) Progress() {
	r.base, r.limit, r.retries, r.prev, r.atOnce = r.number, r.policy.maxAttempts(), 0, 0, false
	if r.phase == running {
		r.base--
	}
	r.began = clock.Real()
}

// Reset makes the Run as new, for a reconnect loop after a connection that
// lasted.
func (r *Run) Reset() {
	r.settleUnfinished()
	inAttempt := r.phase == running
	*r = Run{policy: r.policy, count: count{limit: r.policy.maxAttempts()}, ctx: r.ctx}
	if inAttempt { // what ends now is the first attempt of the new call
		r.phase, r.number = running, 1
		r.began, r.key = clock.Real(), keyFor(r.ctx, r.policy.Idempotency)
	}
}

// start does what must be done before the first attempt, and returns how long a
// budget makes it wait.
func (r *Run) start(paced bool) (pause time.Duration) {
	r.phase = waiting
	p := &r.policy
	if r.began.IsZero() { // otherwise Progress has set it
		r.began = p.startTime()
	}
	if p.simple(r.ctx) && p.checkByClass() == nil {
		r.held = p.Budget != nil // without being asked
		return 0
	}
	if err := p.Validate(); err != nil {
		r.end(ReasonInvalid, ClassPermanent, err)
		return 0
	}
	if r.ctx.Err() != nil {
		return 0
	}
	if r.key = keyFor(r.ctx, p.Idempotency); r.began.IsZero() {
		r.began = clock.Real()
	}
	if force.On.Load() {
		r.ctx = force.OnStart(r.ctx, r.limit, p.MaxElapsed, p.repeatable(r.ctx, ClassUnknown))
	}
	if p.Budget == nil {
		return 0
	}
	a := r.ask(1, new(verdict))
	a.Paced = paced
	pause, why := r.reserve(a, 0, cmp.Or(max(p.MaxElapsed, 0), maxDuration)) // the call begins now
	if why != goOn {
		r.endBetweenAttempts(why, pause)
	}
	return pause
}

// startAttemptTimeout gives the attempt a context that ends after the attempt timeout.
func (r *Run) startAttemptTimeout() {
	d := r.policy.attemptTimeout(r.made())
	if d == 0 {
		return
	}
	r.attempt, r.cancel = context.WithTimeoutCause(r.context(), min(d, r.elapsedLeft()), ErrAttemptTimeout)
}

// age returns how long ago the call began, or 0 if the clock was not read yet.
//
//go:noinline
func (r *Run) age() time.Duration {
	if r.began.IsZero() {
		return 0
	}
	return clock.Real().Sub(r.began)
}

// sleep waits, and reports whether an attempt may follow. If the context has
// ended, it ends the call.
//
// Every call that waits has this frame, and those above it, on its own stack.
// Some 20 bytes more, and that stack would double. So the timer is in the Run.
// The benchmark of 100,000 waiting calls guards it.
func (r *Run) sleep(wait time.Duration) bool {
	for r.lives() {
		if wait <= 0 {
			return true
		}
		r.timer = clock.NewTimer(wait, clock.Monotonic(&r.began))
		r.lieDown(wait)
		select {
		case <-r.timer.C:
			if r.rise == nil && clock.Monotonic(&r.began) {
				clock.PutTimer(r.timer)
			}
		case <-r.ctx.Done():
			r.timer.Stop() // not kept: after a mass cancellation the pool would hold all of them
		}
		r.getUp()
		wait = r.budgetWait()
	}
	return false
}

// lives reports whether the call goes on. It does not if the caller's context has ended.
func (r *Run) lives() bool {
	if r.phase != over && r.ctx.Err() != nil {
		r.endBetweenAttempts(endOf(r.ctx.Err()), 0)
	}
	return r.phase != over
}

// budgetWait returns how much longer the budget makes a call wait whose wait is over.
//
//go:noinline
func (r *Run) budgetWait() (wait time.Duration) {
	if !r.asked || r.ctx.Err() != nil {
		return 0
	}
	ok := false
	r.ticket, wait, ok = r.policy.Budget.Pace(r.ticket)
	why := ReasonBudget
	if ok {
		why = r.timeFor(wait, r.elapsedLeft())
	}
	if r.sure = wait; ok && wait <= 0 || why == goOn { // the attempt that goes now was found to have time before its wait
		return wait
	}
	r.endBetweenAttempts(why, wait)
	return 0
}

// lieDown is called before a sleep.
//
//go:noinline
func (r *Run) lieDown(wait time.Duration) {
	if nap := waker.Nap.Load(); nap != nil {
		r.rise = (*nap)(r.ctx, r.timer, wait, r.sure, delayOf(r.policy.Schedule, 1))
	}
	r.measureSleep()
}

// getUp is called after a sleep. If it was ended early, the schedule begins anew.
//
//go:noinline
func (r *Run) getUp() {
	if r.rise != nil && r.rise() {
		r.retries, r.prev, r.refusals = 1, 0, 0
	}
	r.timer, r.rise = nil, nil
	r.measureSleep()
}

//go:noinline
func (r *Run) measureSleep() {
	if r.policy.Observer != nil {
		r.slept = r.age() - r.slept
	}
}

// endBetweenAttempts ends a call while no attempt is under way. wait is what the
// next attempt would have to wait.
func (r *Run) endBetweenAttempts(why Reason, wait time.Duration) {
	r.settle(Result{NotSent: true})
	r.giveUp(why, ClassUnknown, wait)
}

// finish ends the call after an attempt that needs no other: it succeeded, or
// the body of a range loop left the loop after Fail.
func (r *Run) finish() {
	if r.err == nil {
		r.settle(Result{})
		r.phase = over
		if r.policy.Observer != nil {
			r.notify(&Event{Kind: EventSuccess})
		}
		return
	}
	var v verdict
	r.noteFailure(&v, r.err)
	r.settle(v.result())
	r.draft.Last = r.err // also after a refusal
	r.end(ReasonAbandoned, v.class, r.err)
}

// settleUnfinished settles an attempt that ended in no other way: by a panic, a Goexit,
// or Reset.
func (r *Run) settleUnfinished() { r.settle(Result{Failed: true}) }

// settleUnless is settleUnfinished for a step after which no attempt is under way.
func (r *Run) settleUnless(on *bool) {
	if !*on {
		r.settleUnfinished()
	}
}

// settle ends the attempt under way.
func (r *Run) settle(result Result) {
	if r.attempt != nil || r.held {
		r.release(result)
	}
}

// release ends the context of the attempt, and gives the budget its ticket
// back.
func (r *Run) release(result Result) {
	if r.cancel != nil {
		r.cancel()
	}
	r.attempt, r.cancel = nil, nil
	if r.held {
		if r.asked && !result.NotSent {
			result.Took = clock.Now().Sub(r.sent)
		}
		r.held, r.asked = false, false
		r.policy.Budget.Done(r.ticket, result)
	}
}
