package backoff

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// contest is a race that knows the type of what is raced for.
type contest[T any] struct {
	race
	op      func(context.Context) (T, error)
	discard func(T)
	value   T // of the attempt that ended the call
}

// run makes an attempt, and reports whether it ended the call.
func (c *contest[T]) run(a *hedgeAttempt) bool {
	value, err := c.op(a)
	decided := c.land(a, value, err)
	if !decided && err == nil && c.discard != nil {
		c.discard(value)
	}
	return decided
}

func (c *contest[T]) land(a *hedgeAttempt, value T, err error) bool {
	var v verdict
	if err != nil {
		v = judge(c.hedge.Classify, err)
	}
	now := clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	decided := c.finish(a, err, v, now)
	if decided {
		c.value = value
	}
	return decided
}

// race is one call: its attempts, and when the next one starts. What is below mu is
// guarded by it.
type race struct {
	hedge    *Hedge
	runner   interface{ run(*hedgeAttempt) bool } // the contest around this
	ctx      context.Context                      // of the call, with its key
	began    time.Time
	sent     time.Time // the first attempt
	deadline time.Time // of ctx, if it has one
	delay    time.Duration

	mu       sync.Mutex
	first    hedgeAttempt
	attempts [mostHedgeAttempts]*hedgeAttempt
	number   int           // of attempts sent
	running  int           // of these, have no result yet
	unsent   int           // of these, a breaker refused
	alarm    *alarm        // for the next hedge
	earliest time.Time     // for it, as a server or the Budget said
	ticket   Ticket        // of the attempt about to be sent
	wait     time.Duration // that there was no time for
	last     error
	open     *OpenError // that refused an attempt
	hint     time.Duration
	err      error         // of the call
	done     chan struct{} // closed when over, if the caller waits
	panic    any           // that broke the call
	why      Reason        // there are no more hedges; ReasonSuccess while there may be
	class    Class         // of last
	keep     bool          // the winner's context
	granted  bool          // the next hedge is paid for, and only has to wait
	over     bool
	broken   bool // by a panic or, if that is nil, by a Goexit
	refused  bool // a hedge, for want of something to pay it with
	winner   int8 // of a call that succeeded
}

// start begins the call, or reports that there is none.
func (r *race) start(ctx context.Context, h *Hedge) bool {
	r.hedge, r.ctx = h, ctx
	if r.err = h.Validate(); r.err != nil {
		return false
	}
	r.began = clock.Now()
	r.sent = r.began
	r.deadline, _ = ctx.Deadline()
	if h.Idempotency == Keyed && IdempotencyKey(ctx) == "" {
		r.ctx = WithIdempotencyKey(ctx, "")
	}
	if why := r.admit(); why != ReasonSuccess {
		r.giveUp(why)
		return false
	}
	r.delay = h.delay(r.left(r.sent))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(&r.first)
	r.lineUp(r.sent)
	return true
}

// admit asks for the first attempt, and waits if the Budget says so.
func (r *race) admit() Reason {
	if err := r.ctx.Err(); err != nil {
		return endOf(err)
	}
	if r.hedge.Budget == nil {
		return ReasonSuccess
	}
	ticket, wait, ok := r.hedge.Budget.Reserve(Attempt{Number: 1, Kind: AttemptFirst, Now: r.began})
	if !ok {
		return ReasonBudget
	}
	r.ticket = ticket
	why := ReasonSuccess
	if wait > 0 {
		why = r.sleep(wait)
	}
	if why == ReasonSuccess && !r.depart() {
		why = ReasonBudget
	}
	if why != ReasonSuccess {
		r.hedge.Budget.Done(ticket, OutcomeNotSent)
	}
	return why
}

// sleep waits before the first attempt.
func (r *race) sleep(wait time.Duration) Reason {
	if wait >= r.left(r.began) {
		r.wait = wait
		return ReasonDeadline
	}
	if !pause(r.ctx.Done(), wait, r.began) {
		return endOf(r.ctx.Err())
	}
	r.sent = clock.Now()
	return ReasonSuccess
}

// depart tells the Budget that the attempt it granted is about to be made.
func (r *race) depart() bool {
	b, ok := r.hedge.Budget.(Confirmer)
	return !ok || b.Confirm(r.ticket)
}

// begin is where every goroutine of a call starts: with an attempt, or with an alarm
// that may lead to one.
func (r *race) begin(al *alarm, a *hedgeAttempt) {
	returned := false
	defer func() {
		if !returned {
			r.crash(a, recover())
		}
	}()
	if al != nil {
		a = r.wake(al)
	}
	if a != nil {
		r.runner.run(a)
	}
	returned = true
}

// crash ends the call for the panic p of an attempt, or its Goexit if p is nil.
func (r *race) crash(a *hedgeAttempt, p any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a != nil && !a.over {
		r.leave(a, outcomeOf(verdict{class: ClassRetryable}, false, r.over))
	}
	if !r.over {
		r.broken, r.panic = true, p
		r.end(nil, nil)
	} else if p != nil {
		r.hedge.panics.Add(1)
	}
}

// await returns when the call is over. It lets out the panic that ended it.
func (r *race) await() {
	r.mu.Lock()
	if !r.over {
		r.done = make(chan struct{})
		r.mu.Unlock()
		select {
		case <-r.done:
		case <-r.ctx.Done():
		}
		r.mu.Lock()
	}
	if !r.over {
		r.giveUp(endOf(r.ctx.Err()))
	}
	r.mu.Unlock()
	if r.broken && r.panic == nil {
		runtime.Goexit()
	} else if r.broken {
		panic(r.panic)
	}
}

// enter counts an attempt that is about to run.
func (r *race) enter(a *hedgeAttempt) {
	a.Context, a.number, a.ticket = r.ctx, r.number, r.ticket
	r.attempts[r.number] = a
	r.number++
	r.running++
}

// leave counts an attempt that has returned.
func (r *race) leave(a *hedgeAttempt, o Outcome) {
	a.over = true
	r.running--
	if r.hedge.Budget != nil {
		r.hedge.Budget.Done(a.ticket, o)
	}
}

// finish takes the result of an attempt, and reports whether it ended the call.
func (r *race) finish(a *hedgeAttempt, err error, v verdict, now time.Time) bool {
	switch {
	case r.over:
		r.leave(a, OutcomeCanceled)
		return false
	case err != nil:
		r.fail(a, err, v, now)
		return r.over
	}
	r.measure(a, now)
	r.hedge.calls.Add(1)
	if a != &r.first {
		r.hedge.wins.Add(1)
	}
	r.leave(a, OutcomeSuccess)
	r.end(nil, a)
	return true
}

// measure takes the latency of the first attempt when winner wins. One that is beaten
// counts as well, or there would seem to be no slow ones: with the time it had, or the
// delay, as it would have taken longer than both.
func (r *race) measure(winner *hedgeAttempt, now time.Time) {
	h := r.hedge
	if h.Delay != 0 || r.first.over {
		return
	}
	d := now.Sub(r.sent)
	if winner != &r.first {
		d = max(d, time.Duration(h.measured.Load()))
	}
	h.observe(d, now)
}

// fail decides after a failure.
func (r *race) fail(a *hedgeAttempt, err error, v verdict, now time.Time) {
	ended := r.ctx.Err()
	if v.open == nil || a == &r.first {
		r.last, r.class = err, v.class // else the last answer of the service stands
	}
	if v.hint.given {
		r.hint = v.hint.after
	}
	if v.open != nil {
		r.unsent++
		r.leave(a, OutcomeNotSent)
	} else {
		r.leave(a, outcomeOf(v, false, ended != nil))
	}
	a.end()
	switch {
	case ended != nil:
		r.giveUp(endOf(ended))
	case v.open != nil:
		r.stop(ReasonOpen)
		r.open, r.why = v.open, ReasonOpen // also where this was the last attempt
	case v.class == ClassPermanent && r.running > 0 && errors.Is(err, ErrBudget):
		r.stop(ReasonBudget)
	case v.class == ClassPermanent:
		r.definitive(v)
	case v.class == ClassOverloaded, v.class == ClassThrottled && !v.hint.given:
		r.stop(ReasonOverloaded)
	case v.hint.given && r.hedge.maxRetryAfter() > 0 && v.hint.after > r.hedge.maxRetryAfter():
		r.stop(ReasonRetryAfter)
	default:
		r.postpone(now, v.hint.after)
		r.hurry(now)
	}
	r.settle()
}

// definitive ends the call with its last error as it is.
func (r *race) definitive(v verdict) {
	err := r.last
	if !v.marked {
		err = inferred(err)
	}
	r.end(err, nil)
}

// settle ends the call if nothing is left of it to wait for.
func (r *race) settle() {
	if !r.over && r.running == 0 && r.alarm == nil {
		r.giveUp(r.why)
	}
}

// postpone puts off the next hedge by wait from now, unless it is off for longer.
func (r *race) postpone(now time.Time, wait time.Duration) {
	if at := now.Add(wait); at.After(r.earliest) {
		r.earliest = at
	}
}

// hurry sends the next hedge as soon as it may be.
func (r *race) hurry(now time.Time) {
	if r.why != ReasonSuccess {
		return
	}
	wait := r.earliest.Sub(now)
	switch {
	case wait > 0 && r.fits(now, wait):
		r.arm(wait)
	case wait > 0:
		r.wait = wait
		r.stop(ReasonDeadline)
	default:
		if a := r.next(now); a != nil {
			r.launch(a)
		}
	}
}

// launch runs an attempt beside those under way.
func (r *race) launch(a *hedgeAttempt) {
	if s, ok := r.runner.(*steered); ok {
		s.run(a)
		return
	}
	go r.begin(nil, a)
}

// next makes the next hedge ready. It returns nil if there is none, of which why
// then tells, or if it has to wait.
func (r *race) next(now time.Time) *hedgeAttempt {
	if !r.granted && !r.ask(now) {
		return nil
	}
	r.granted = true
	if !r.depart() {
		r.refuse()
		return nil
	}
	r.granted = false
	r.hedge.hedges.Add(1)
	a := new(hedgeAttempt)
	r.enter(a)
	r.lineUp(now)
	return a
}

// lineUp arranges for the attempt after the one just made ready.
func (r *race) lineUp(now time.Time) {
	r.disarm()
	switch {
	case r.number >= r.hedge.maxAttempts():
		r.why = ReasonAttempts
	case r.hedge.Delay < 0:
		r.hurry(now)
	case r.delay > 0 && r.fits(now, r.delay):
		r.arm(r.delay)
	}
}

// ask reports whether the next hedge may be sent now.
func (r *race) ask(now time.Time) bool {
	h := r.hedge
	why := ReasonSuccess
	switch ended := r.ctx.Err(); {
	case ended != nil:
		why = endOf(ended)
	case !r.fits(now, 0):
		why, r.wait = ReasonDeadline, r.delay
	case h.Idempotency != nil && !h.Idempotency.Repeatable(r.ctx, r.class):
		why = ReasonNotIdempotent
	case !h.afford():
		r.refuse()
		return false
	case h.Budget != nil:
		return r.reserve(now)
	}
	r.stop(why)
	return why == ReasonSuccess
}

// refuse stops the hedging because there is nothing to pay it with.
func (r *race) refuse() {
	r.hedge.refused.Add(1)
	r.refused = true
	r.stop(ReasonBudget)
}

// reserve asks the Budget for the next hedge.
func (r *race) reserve(now time.Time) bool {
	h := r.hedge
	ticket, wait, ok := h.Budget.Reserve(Attempt{Number: r.number + 1, Kind: AttemptHedge, Class: r.class, Now: now})
	if !ok {
		h.refund()
		r.refuse()
		return false
	}
	r.ticket = ticket
	if wait > 0 {
		r.granted = true
		r.postpone(now, wait)
		r.hurry(now)
	}
	return wait <= 0
}

// stop says that no more hedges are sent, and why. Those under way go on.
func (r *race) stop(why Reason) {
	if why == ReasonSuccess {
		return
	}
	if r.why == ReasonSuccess {
		r.why = why
	}
	r.disarm()
	if !r.granted {
		return
	}
	r.granted = false
	r.hedge.refund()
	if r.hedge.Budget != nil {
		r.hedge.Budget.Done(r.ticket, OutcomeNotSent)
	}
}

// giveUp ends the call with an *Error.
func (r *race) giveUp(why Reason) {
	now := clock.Now()
	e := &Error{
		Name:       r.hedge.Name,
		Attempts:   r.number - r.unsent,
		Elapsed:    now.Sub(r.began),
		Reason:     why,
		Last:       r.last,
		retryAfter: r.hint,
		ctx:        r.ctx,
		open:       r.open,
		single:     r.hedge.maxAttempts() == 1,
	}
	switch {
	case why == ReasonRetryAfter:
		e.limit = r.hedge.maxRetryAfter()
	case why == ReasonDeadline && r.ctx.Err() == nil:
		e.wait, e.limit = r.wait, r.left(now)
	}
	r.end(e, nil)
}

// end is where every call comes to, with the winner if there is one.
func (r *race) end(err error, winner *hedgeAttempt) {
	r.stop(ReasonAttempts)
	r.over, r.err = true, err
	if winner != nil {
		r.winner = int8(winner.number)
	}
	for _, a := range r.attempts[:r.number] {
		switch {
		case !a.over:
			a.lose()
		case a != winner || !r.keep:
			a.end()
		}
	}
	if r.done != nil {
		close(r.done)
	}
}

// left returns how much time is left before the deadline.
func (r *race) left(now time.Time) time.Duration {
	if r.deadline.IsZero() {
		return maxDuration
	}
	return r.deadline.Sub(now)
}

// fits reports whether a hedge that starts after wait has time to be of use: as
// much as was thought too long for the attempts before it.
func (r *race) fits(now time.Time, wait time.Duration) bool {
	left := r.left(now)
	return saturatingAdd(wait, r.delay) <= left && wait < left
}
