package backoff

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/lazyctx"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/steer"
)

// contest is a race for a value of type T.
type contest[T any] struct {
	race
	op      func(context.Context) (T, error)
	discard func(T)
	value   T    // of the attempt that ended the call
	passed  bool // to the caller
}

func (c *contest[T]) run(a *hedgeAttempt) {
	value, err := c.op(a)
	kept := false
	defer func() { // also where the classifier or the budget panics
		if !kept && err == nil && c.discard != nil {
			c.discard(value)
		}
	}()
	kept = c.finish(a, err, func() { c.value = value })
}

// drop discards the value of a call that was won, where something panicked or
// left the caller's goroutine before the caller had the value.
func (c *contest[T]) drop() {
	if c.passed || c.winner == nil || c.discard == nil {
		return
	}
	defer c.winner.Cancel(nil)
	c.discard(c.value)
}

// race is one hedged call: its attempts, and when the next one starts. mu
// guards the fields below it until the call is over.
type race struct {
	outcome // ctx has the call's key; mu guards the rest of it
	hedge   *Hedge
	runner  runner
	began   time.Time
	sent    time.Time     // when the first attempt was sent
	delay   time.Duration // before each hedge
	keep    bool          // the winner's context must outlive the call
	key     string        // the idempotency key made for the call

	mu       sync.Mutex
	first    hedgeAttempt
	winner   *hedgeAttempt // that ended the call with success
	attempts [mostHedgeAttempts]*hedgeAttempt
	number   int          // of attempts sent
	running  int          // attempts that have no result yet
	unsent   int          // attempts that a breaker refused
	alarm    *clock.Alarm // for the next hedge
	earliest time.Time    // for the next hedge, as a server or the Budget said
	ticket   Ticket       // of the attempt about to be sent
	granted  bool         // the next hedge is paid for, and only has to wait
	unpaid   bool         // there was nothing to pay a hedge with
	class    Class        // of the last attempt that failed
	early    bool         // there was no time for the next wait
	why      Reason       // why there are no more hedges; ReasonSuccess while there may be
	err      error        // of the call
	over     bool
	done     chan struct{} // closed when over, if the caller waits
	crashed  bool          // an attempt ended the call by a panic or a Goexit
	panicked any           // the value of that panic; nil for a Goexit
}

// A runner makes the attempts of a race. That is its contest, or the simulator.
type runner interface {
	run(*hedgeAttempt)    // makes an attempt, and finishes it
	launch(*hedgeAttempt) // runs an attempt beside those under way
	arm(time.Duration)    // sets the alarm for the next hedge
}

// hedgeAttempt is one attempt, and its context.
type hedgeAttempt struct {
	lazyctx.Context
	number int
	ticket Ticket
	sent   time.Time
	over   bool // it has returned; guarded by the race
}

// hedgeKey is the key by which a context finds its attempt.
type hedgeKey struct{}

// Value implements context.Context.
func (a *hedgeAttempt) Value(key any) any {
	if key == (hedgeKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// call is HedgeValue for a value of any type.
func (r *race) call(ctx context.Context, h *Hedge) {
	if d := steer.Of(ctx); d != nil {
		h.steer(ctx, d)
		return
	}
	started := r.start(ctx, h)
	defer r.notify()
	switch {
	case !started:
		return
	case h.Detach:
		go r.begin(nil, &r.first)
	default:
		r.begin(nil, &r.first)
	}
	r.await()
}

// start begins the call, or ends it and returns false.
func (r *race) start(ctx context.Context, h *Hedge) bool {
	r.hedge, r.ctx, r.began = h, ctx, clock.Now()
	if err := h.Validate(); err != nil {
		r.end(err)
		return false
	}
	r.sent = r.began
	if r.key = keyFor(ctx, h.Idempotency); r.key != "" {
		r.ctx = WithIdempotencyKey(ctx, r.key)
	}
	if why := r.askFirst(); why != ReasonSuccess {
		r.giveUp(why)
		return false
	}
	r.delay = h.delay(r.left(r.sent))
	r.count(&r.first, r.sent)
	return true
}

// askFirst asks the Budget for the first attempt, and waits if the Budget says
// so.
func (r *race) askFirst() (why Reason) {
	b := r.hedge.Budget
	if err := r.ctx.Err(); err != nil {
		return endOf(err)
	}
	if b == nil {
		return ReasonSuccess
	}
	ticket, wait, ok := b.Reserve(r.ask(r.began))
	if !ok {
		return ReasonBudget
	}
	for why == ReasonSuccess && wait > 0 {
		switch {
		case wait >= r.left(r.sent):
			r.early, why = true, ReasonDeadline
		case !clock.Sleep(r.ctx, wait):
			why = endOf(r.ctx.Err())
		default:
			r.sent = clock.Now()
			if ticket, wait, ok = b.Pace(ticket); !ok {
				why = ReasonBudget
			}
		}
	}
	if why == ReasonSuccess && !b.Confirm(ticket) {
		why = ReasonBudget
	}
	if why == ReasonSuccess {
		r.ticket = ticket
		return why
	}
	b.Done(ticket, Result{Outcome: OutcomeNotSent})
	return why
}

// ask returns what the Budget is asked for.
func (r *race) ask(now time.Time) Attempt {
	return Attempt{
		Number:      r.number + 1,
		Hedge:       r.number > 0,
		Class:       r.class,
		Priority:    priorityOf(r.ctx),
		MaxAttempts: r.hedge.maxAttempts(),
		Now:         now,
		Paced:       true,
	}
}

// begin is what every goroutine of a call runs: an attempt, or an alarm that
// may lead to one. A panic that is the caller's own goes on by itself.
func (r *race) begin(al *clock.Alarm, a *hedgeAttempt) {
	returned := false
	defer func() {
		switch {
		case returned:
		case a == &r.first && !r.hedge.Detach:
			r.crash(a, nil)
		default:
			r.crash(a, recover())
		}
	}()
	if a == &r.first {
		r.open()
	}
	if a != nil {
		r.runner.run(a)
	} else {
		r.wake(al)
	}
	returned = true
}

// open arranges for the second attempt.
func (r *race) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.scheduleNext(r.sent)
	}
}

// crash ends the call for an attempt that panicked with value, or left its
// goroutine if value is nil.
func (r *race) crash(a *hedgeAttempt, value any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a != nil && !a.over {
		v := verdict{class: ClassRetryable}
		if r.over {
			v.ended = context.Canceled
		}
		r.uncount(a, v.result())
	}
	if !r.over {
		r.crashed, r.panicked = true, value
		r.end(nil)
	} else if value != nil {
		r.hedge.panics.Add(1)
	}
}

// await returns when the call is over. It passes on the panic that ended the
// call.
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
	if r.crashed && r.panicked == nil {
		runtime.Goexit()
	} else if r.crashed {
		panic(r.panicked)
	}
}

// count counts an attempt that is about to run.
func (r *race) count(a *hedgeAttempt, now time.Time) {
	a.Parent, a.number, a.ticket, a.sent = r.ctx, r.number, r.ticket, now
	r.attempts[r.number] = a
	r.number++
	r.running++
}

// uncount counts an attempt that has returned.
func (r *race) uncount(a *hedgeAttempt, result Result) {
	a.over = true
	r.running--
	if r.hedge.Budget != nil {
		r.hedge.Budget.Done(a.ticket, result)
	}
}

// finish takes the end of an attempt, and reports whether it ended the call. If
// it did, finish calls take, which keeps the attempt's value.
func (r *race) finish(a *hedgeAttempt, err error, take func()) bool {
	var v verdict
	if err != nil {
		v = judge(r.hedge.Classify, err)
	}
	now := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		r.uncount(a, Result{Outcome: OutcomeCanceled})
		return false
	case err != nil:
		r.fail(a, err, v, now)
	default:
		r.win(a, now)
	}
	if r.over {
		take()
	}
	return r.over
}

// win ends the call with the success of an attempt.
func (r *race) win(a *hedgeAttempt, now time.Time) {
	r.measure(a, now)
	r.hedge.account.Calls.Add(1)
	if a != &r.first {
		r.hedge.wins.Add(1)
	}
	r.uncount(a, Result{Took: now.Sub(a.sent)})
	r.stop(ReasonAttempts) // the budget may panic, and there is no winner then
	r.winner = a
	r.end(nil)
}

// measure takes the latency of the first attempt when winner wins. A first
// attempt that was beaten counts as well, or none would seem slow. It counts
// with the time it had, or with the delay if that is longer, because it would
// have taken longer than both.
func (r *race) measure(winner *hedgeAttempt, now time.Time) {
	h := r.hedge
	if h.Delay != 0 || r.first.over {
		return
	}
	d := now.Sub(r.sent)
	if winner != &r.first {
		d = max(d, h.delay(maxDuration))
	}
	h.slow.Add(d, now, h.MaxExtraLoad)
}

// fail decides what follows a failed attempt.
func (r *race) fail(a *hedgeAttempt, err error, v verdict, now time.Time) {
	v.ended = r.ctx.Err()
	switch {
	case v.ended != nil && r.last != nil && v.interruptedByContext(err):
		r.interrupted = err
	case v.open == nil || a == &r.first:
		r.last, r.class = err, v.class // after a refusal, the service's last answer stays
	}
	if v.hint.given {
		r.retryAfter = v.hint.after
	}
	if v.open != nil {
		r.unsent++
		r.uncount(a, Result{Outcome: OutcomeNotSent})
	} else {
		result := v.result()
		result.Took = now.Sub(a.sent)
		r.uncount(a, result)
	}
	a.Cancel(nil)
	if v.ended != nil {
		r.giveUp(endOf(v.ended))
	} else {
		r.next(err, v, now)
	}
	r.finishIfIdle()
}

// next decides, after a failure, whether the next hedge is sent.
func (r *race) next(err error, v verdict, now time.Time) {
	switch limit := r.hedge.maxRetryAfter(); {
	case v.open != nil:
		r.stop(ReasonOpen)
		r.refused, r.why = v.open, ReasonOpen // also if this was the last attempt
	case v.class == ClassPermanent && r.running > 0 && errtree.Is(err, ErrBudget):
		r.stop(ReasonBudget)
	case v.class == ClassPermanent:
		if v.judged {
			err = inferred(err)
		}
		r.end(err)
	case v.class == ClassOverloaded, v.class == ClassThrottled && !v.hint.given:
		r.stop(ReasonOverloaded)
	case v.hint.given && limit > 0 && v.hint.after > limit:
		r.stop(ReasonRetryAfter)
	default:
		r.putOff(now.Add(v.hint.after))
		r.sendSoon(now)
	}
}

// finishIfIdle ends the call if there is nothing left to wait for.
func (r *race) finishIfIdle() {
	if !r.over && r.running == 0 && r.alarm == nil {
		r.giveUp(r.why)
	}
}

// notBefore puts off the next hedge until at, unless it is put off for longer.
func (r *race) notBefore(at time.Time) {
	if at.After(r.earliest) {
		r.earliest = at
	}
}

// putOff is notBefore for another reason than the Budget. What was granted for
// the next hedge goes back if that has to wait longer than the Budget knows.
func (r *race) putOff(at time.Time) {
	if r.granted && at.After(r.earliest) {
		r.giveBack()
	}
	r.notBefore(at)
}

// sendSoon sends the next hedge as soon as it may be sent.
func (r *race) sendSoon(now time.Time) {
	if r.why != ReasonSuccess || !r.granted && !r.earliest.After(now) && !r.grant(now) {
		return
	}
	wait := r.earliest.Sub(now)
	switch {
	case wait <= 0:
		r.send(now)
	case r.fits(now, wait):
		r.runner.arm(wait)
	default:
		r.early = true
		r.stop(ReasonDeadline)
	}
}

// send sends the hedge that was granted.
func (r *race) send(now time.Time) {
	if b := r.hedge.Budget; b != nil && !b.Confirm(r.ticket) {
		r.refuse()
		return
	}
	r.granted = false
	r.hedge.hedges.Add(1)
	a := new(hedgeAttempt)
	r.count(a, now)
	r.runner.launch(a)
	r.scheduleNext(now)
}

// scheduleNext arranges for the attempt after the one just made ready.
func (r *race) scheduleNext(now time.Time) {
	r.disarm()
	switch {
	case r.number >= r.hedge.maxAttempts():
		r.why = ReasonAttempts
	case r.hedge.Delay < 0:
		r.sendSoon(now)
	case r.delay > 0 && r.fits(now, r.delay):
		r.runner.arm(r.delay)
	}
}

// grant asks for the next hedge, or stops the hedging.
func (r *race) grant(now time.Time) bool {
	h, class := r.hedge, r.class
	if r.running > 0 { // and may have been sent
		class = ClassUnknown
	}
	switch ended := r.ctx.Err(); {
	case ended != nil:
		r.stop(endOf(ended))
	case !r.fits(now, 0):
		r.early = r.delay > 0
		r.stop(ReasonDeadline)
	case h.Idempotency != nil && !h.Idempotency.Repeatable(r.ctx, class):
		if r.running == 0 { // otherwise it may be sent when the others have failed
			r.stop(ReasonNotIdempotent)
		}
	case !h.account.Take(h.MaxExtraLoad) || !r.reserve(now):
		r.refuse()
	default:
		r.granted = true
	}
	return r.granted
}

// reserve asks the Budget for the next hedge.
func (r *race) reserve(now time.Time) bool {
	h := r.hedge
	if h.Budget == nil {
		return true
	}
	ticket, wait, ok := h.Budget.Reserve(r.ask(now))
	if !ok {
		h.account.GiveBack()
		return false
	}
	r.ticket = ticket
	r.notBefore(now.Add(wait))
	return true
}

// pace asks the Budget how much longer a hedge waits that was granted and whose
// wait is over. It reports whether the hedge may still be sent.
func (r *race) pace(now time.Time) bool {
	if !r.granted || r.hedge.Budget == nil {
		return true
	}
	own, wait, ok := r.hedge.Budget.Pace(r.ticket)
	r.ticket = own
	if !ok {
		r.refuse()
		return false
	}
	r.notBefore(now.Add(wait))
	return true
}

// refuse stops the hedging because there is nothing to pay for it.
func (r *race) refuse() {
	r.hedge.refused.Add(1)
	r.unpaid = true
	r.stop(ReasonBudget)
}

// stop says that no more hedges are sent, and why. Attempts under way go on.
func (r *race) stop(why Reason) {
	if r.why == ReasonSuccess {
		r.why = why
	}
	r.disarm()
	if r.granted {
		r.giveBack()
	}
}

// giveBack returns what was granted for the next hedge.
func (r *race) giveBack() {
	r.granted = false
	r.hedge.account.GiveBack()
	if r.hedge.Budget != nil {
		r.hedge.Budget.Done(r.ticket, Result{Outcome: OutcomeNotSent})
	}
}

// giveUp ends the call with an *Error.
func (r *race) giveUp(why Reason) {
	e := r.newError(r.hedge.Name, r.number-r.unsent, r.hedge.maxAttempts(), why)
	e.Elapsed, e.hedged = clock.Now().Sub(r.began), true
	e.early = why == ReasonDeadline && r.ctx.Err() == nil && r.early
	e.class = r.class
	if i := r.hedge.Idempotency; i != nil {
		e.repeat = &repeat{idempotency: i, key: r.key}
	}
	e.tell(r.ctx)
	r.end(e)
}

// end ends every call.
func (r *race) end(err error) {
	r.stop(ReasonAttempts)
	r.over, r.err = true, err
	for _, a := range r.attempts[:r.number] {
		switch {
		case !a.over:
			a.Cancel(errHedgeLost)
		case a != r.winner || !r.keep:
			a.Cancel(nil)
		}
	}
	if r.done != nil {
		close(r.done)
	}
}

// left returns how much time is left before the deadline.
func (r *race) left(now time.Time) time.Duration {
	if deadline, ok := r.ctx.Deadline(); ok {
		return deadline.Sub(now)
	}
	return maxDuration
}

// fits reports whether a hedge that starts after wait has time enough to be of
// use: as much as was too long for the attempts before it.
func (r *race) fits(now time.Time, wait time.Duration) bool {
	left := r.left(now)
	return limits.Add(wait, r.delay) <= left && wait < left
}

// notify tells the Observer of a call that is over.
func (r *race) notify() {
	if r.hedge.Observer == nil {
		return
	}
	for n := 1; n < r.number; n++ {
		e := Event{Kind: EventHedgeLost, Attempt: n + 1, Delay: r.delay}
		if r.attempts[n] == r.winner {
			e.Kind = EventHedgeWon
		}
		r.observe(e)
	}
	if r.unpaid {
		r.observe(Event{Kind: EventRefused, Reason: ReasonBudget})
	}
	if !r.crashed {
		r.observe(r.endEvent())
	}
}

// endEvent is the event of the call's end.
func (r *race) endEvent() Event {
	e := Event{Kind: EventSuccess, Attempt: r.number - r.unsent, Elapsed: clock.Now().Sub(r.began)}
	if r.err == nil {
		return e
	}
	e.Kind, e.Err, e.Class, e.RetryAfter, e.Reason = EventGiveUp, r.last, r.class, r.retryAfter, ReasonPermanent
	if gave, ok := r.err.(*Error); ok && gave != nil {
		e.Reason = gave.Reason
	} else if r.number == 0 {
		e.Err, e.Class, e.Reason = r.err, ClassPermanent, ReasonInvalid
	}
	e.Header = headerOf(e.Err)
	return e
}

func (r *race) observe(e Event) {
	e.Name, e.MaxAttempts = r.hedge.Name, r.hedge.maxAttempts()
	r.hedge.Observer.Notify(r.ctx, e)
}

// launch runs an attempt beside those under way.
func (r *race) launch(a *hedgeAttempt) { go r.begin(nil, a) }

// arm sets the alarm for the next hedge.
func (r *race) arm(d time.Duration) {
	r.disarm()
	r.alarm = clock.NewAlarm(d, r, clock.Monotonic(&r.began))
}

// disarm stops the alarm.
func (r *race) disarm() {
	if r.alarm != nil {
		r.alarm.Stop()
		r.alarm = nil
	}
}

// Ring is called when an alarm goes off.
func (r *race) Ring(al *clock.Alarm) { r.begin(al, nil) }

// wake sends the hedge for which an alarm goes off.
func (r *race) wake(al *clock.Alarm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alarm != al { // replaced, or stopped too late
		return
	}
	r.alarm, r.earliest = nil, time.Time{} // it has come
	if now := clock.Now(); r.pace(now) {
		r.sendSoon(now)
	}
	r.finishIfIdle()
}

// steered is a hedged call in the simulator, which drives it.
type steered struct {
	race
	driver steer.Driver
	told   bool // the driver heard that the call is over
}

// steer begins a call that d drives.
func (h *Hedge) steer(ctx context.Context, d steer.Driver) {
	s := &steered{driver: d}
	s.runner = s
	if s.start(ctx, h) {
		s.open()
		s.run(&s.first)
	}
	s.tellOver()
}

// run sends an attempt. Its result comes later.
func (s *steered) run(a *hedgeAttempt) {
	s.driver.Send(func(err error) {
		s.finish(a, err, func() {})
		s.tellOver()
	})
}

func (s *steered) launch(a *hedgeAttempt) { s.run(a) }

func (s *steered) arm(d time.Duration) {
	s.disarm()
	al := new(clock.Alarm)
	s.alarm = al
	s.driver.Arm(d, func() {
		s.Ring(al)
		s.tellOver()
	})
}

// tellOver tells the driver once that the call is over.
func (s *steered) tellOver() {
	if s.over && !s.told {
		s.told = true
		s.driver.Over(s.err)
	}
}
