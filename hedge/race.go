package hedge

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge/internal/lazyctx"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
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

func (c *contest[T]) run(a *attempt) {
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

// goOn is the Reason of a call that has not ended.
const goOn backoff.Reason = 0

// race is one hedged call: its attempts, and when the next one starts. mu
// guards the fields below it until the call is over.
type race struct {
	ctx    context.Context // of the call
	parent context.Context // of the attempts: ctx, with the key
	hedge  *Hedge
	runner runner
	began  time.Time
	sent   time.Time     // when the first attempt was sent
	delay  time.Duration // before each hedge
	keep   bool          // the winner's context must outlive the call

	mu          sync.Mutex
	first       attempt
	winner      *attempt // that ended the call with success
	attempts    [mostAttempts]*attempt
	number      int            // of attempts sent
	running     int            // attempts that have no result yet
	unsent      int            // attempts that a breaker refused
	alarm       *clock.Alarm   // for the next hedge
	earliest    time.Time      // for the next hedge, as a server or the Budget said
	ticket      backoff.Ticket // of the attempt about to be sent
	granted     bool           // the next hedge is paid for, and only has to wait
	unpaid      bool           // there was nothing to pay a hedge with
	last        *failure       // of the last attempt that the context did not interrupt, or of the first; nil if none failed
	interrupted *failure       // after last, by the end of the context
	refusal     *failure       // by which a breaker refused an attempt
	retryAfter  time.Duration  // what the server asked for
	why         backoff.Reason // why there are no more hedges; goOn while there may be
	err         error          // of the call
	over        bool
	done        chan struct{} // closed when over, if the caller waits
	crashed     bool          // an attempt ended the call by a panic or a Goexit
	panicked    any           // the value of that panic; nil for a Goexit
}

// A runner makes the attempts of a race. That is its contest, or the simulator.
type runner interface {
	run(*attempt)      // makes an attempt, and finishes it
	launch(*attempt)   // runs an attempt beside those under way
	arm(time.Duration) // sets the alarm for the next hedge
}

// attempt is one attempt, and its context.
type attempt struct {
	lazyctx.Context
	number int
	ticket backoff.Ticket
	sent   time.Time
	over   bool // it has returned; guarded by the race
}

// attemptKey is the key by which a context finds its attempt.
type attemptKey struct{}

// Value implements context.Context.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// call is Value for a value of any type.
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
	r.hedge, r.ctx, r.parent, r.began = h, ctx, ctx, clock.Now()
	if err := h.Validate(); err != nil {
		r.end(err)
		return false
	}
	r.sent = r.began
	if h.Idempotency == backoff.Keyed && backoff.IdempotencyKey(ctx) == "" {
		r.parent = backoff.WithIdempotencyKey(ctx, "")
	}
	if why := r.askFirst(); why != goOn {
		r.giveUp(why)
		return false
	}
	r.delay = h.delay(r.left(r.sent))
	r.count(&r.first, r.sent)
	return true
}

// askFirst asks the Budget for the first attempt, and waits if the Budget says
// so.
func (r *race) askFirst() (why backoff.Reason) {
	b := r.hedge.Budget
	if err := r.ctx.Err(); err != nil {
		return endOf(err)
	}
	if b == nil {
		return goOn
	}
	ticket, wait, ok := b.Reserve(r.ask(r.began))
	if !ok {
		return backoff.ReasonBudget
	}
	for why == goOn && wait > 0 {
		switch {
		case wait >= r.left(r.sent):
			why = backoff.ReasonDeadline
		case !clock.Sleep(r.ctx, wait):
			why = endOf(r.ctx.Err())
		default:
			r.sent = clock.Now()
			if ticket, wait, ok = b.Pace(ticket); !ok {
				why = backoff.ReasonBudget
			}
		}
	}
	if why == goOn && !b.Confirm(ticket) {
		why = backoff.ReasonBudget
	}
	if why == goOn {
		r.ticket = ticket
		return why
	}
	b.Done(ticket, backoff.Result{NotSent: true})
	return why
}

// ask returns what the Budget is asked for.
func (r *race) ask(now time.Time) backoff.Attempt {
	return backoff.Attempt{
		Number:      r.number + 1,
		Hedge:       r.number > 0,
		Class:       r.last.class(),
		Priority:    backoff.PriorityOf(r.ctx),
		MaxAttempts: r.hedge.maxAttempts(),
		Now:         now,
		Paced:       true,
	}
}

// begin is what every goroutine of a call runs: an attempt, or an alarm that
// may lead to one. A panic that is the caller's own goes on by itself.
func (r *race) begin(al *clock.Alarm, a *attempt) {
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
func (r *race) crash(a *attempt, value any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a != nil && !a.over {
		result := backoff.Result{Failed: true, Class: backoff.ClassRetryable}
		if r.over {
			result.Canceled = true
		}
		r.uncount(a, result)
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
func (r *race) count(a *attempt, now time.Time) {
	a.Parent, a.number, a.ticket, a.sent = r.parent, r.number, r.ticket, now
	r.attempts[r.number] = a
	r.number++
	r.running++
}

// uncount counts an attempt that has returned.
func (r *race) uncount(a *attempt, result backoff.Result) {
	a.over = true
	r.running--
	if r.hedge.Budget != nil {
		r.hedge.Budget.Done(a.ticket, result)
	}
}

// finish takes the end of an attempt, and reports whether it ended the call. If
// it did, finish calls take, which keeps the attempt's value.
func (r *race) finish(a *attempt, err error, take func()) bool {
	var f *failure
	if err != nil {
		f = r.hedge.judge(err)
	}
	now := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		r.uncount(a, backoff.Result{Failed: true, Canceled: true})
		return false
	case err != nil:
		r.fail(a, f, now)
	default:
		r.win(a, now)
	}
	if r.over {
		take()
	}
	return r.over
}

// win ends the call with the success of an attempt.
func (r *race) win(a *attempt, now time.Time) {
	r.measure(a, now)
	r.hedge.account.calls.Add(1)
	if a != &r.first {
		r.hedge.wins.Add(1)
	}
	r.uncount(a, backoff.Result{Took: now.Sub(a.sent)})
	r.stop(backoff.ReasonAttempts) // the budget may panic, and there is no winner then
	r.winner = a
	r.end(nil)
}

// measure takes the latency of the first attempt when winner wins. A first
// attempt that was beaten counts as well, or none would seem slow. It counts
// with the time it had, or with the delay if that is longer, because it would
// have taken longer than both.
func (r *race) measure(winner *attempt, now time.Time) {
	h := r.hedge
	if h.Delay != 0 || r.first.over {
		return
	}
	d := now.Sub(r.sent)
	if winner != &r.first {
		d = max(d, h.delay(maxDuration))
	}
	h.slow.add(d, now, h.MaxExtraLoad)
}

// failure is the error of an attempt, and what it means.
type failure struct {
	backoff.Decision // after one attempt of many
	err              error
	told             bool // the server said when to retry
}

// judge says what the error of an attempt means.
func (h *Hedge) judge(err error) *failure {
	rules := backoff.Policy{MaxAttempts: -1, MaxRetryAfter: h.MaxRetryAfter, Classify: h.Classify}
	_, told := backoff.RetryAfterOf(err)
	return &failure{Decision: rules.Decide(1, err), err: err, told: told}
}

// unwrap returns the error, nil if there is none.
func (f *failure) unwrap() error {
	if f == nil {
		return nil
	}
	return f.err
}

// class returns the class of the error.
func (f *failure) class() backoff.Class {
	if f == nil {
		return backoff.ClassUnknown
	}
	return f.Class
}

// refused reports whether a breaker refused the attempt.
func (f *failure) refused() bool { return f.Reason == backoff.ReasonOpen }

// fail decides what follows a failed attempt.
func (r *race) fail(a *attempt, f *failure, now time.Time) {
	ended := r.ctx.Err()
	switch {
	case ended != nil && r.last != nil:
		r.interrupted = f
	case !f.refused() || a == &r.first:
		r.last = f // after a refusal, the service's last answer stays
	}
	if f.told && r.why != backoff.ReasonRetryAfter { // then it is known why there are no more hedges
		r.retryAfter = f.RetryAfter
	}
	result := f.Result()
	switch {
	case f.refused():
		r.unsent++
		result = backoff.Result{NotSent: true}
	case ended != nil:
		result.Canceled = true
		fallthrough
	default:
		result.Took = now.Sub(a.sent)
	}
	r.uncount(a, result)
	a.Cancel(nil)
	if ended != nil {
		r.giveUp(endOf(ended))
	} else {
		r.next(f, now)
	}
	r.finishIfIdle()
}

// next decides, after a failure, whether the next hedge is sent.
func (r *race) next(f *failure, now time.Time) {
	switch {
	case f.refused():
		r.stop(backoff.ReasonOpen)
		r.refusal, r.why = f, backoff.ReasonOpen // also if this was the last attempt
	case f.Class == backoff.ClassPermanent && r.running > 0 && errtree.Is(f.err, backoff.ErrBudget):
		r.stop(backoff.ReasonBudget)
	case f.Class == backoff.ClassPermanent:
		r.end(r.endCall(backoff.Error{Reason: backoff.ReasonPermanent, Last: f.err}, f.Class))
	case f.Class == backoff.ClassOverloaded, f.Class == backoff.ClassThrottled && !f.told:
		r.stop(backoff.ReasonOverloaded)
	case f.Reason == backoff.ReasonRetryAfter:
		r.stop(backoff.ReasonRetryAfter)
	default:
		r.putOff(now.Add(f.RetryAfter))
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
	if r.why != goOn || !r.granted && !r.earliest.After(now) && !r.grant(now) {
		return
	}
	wait := r.earliest.Sub(now)
	switch {
	case wait <= 0:
		r.send(now)
	case r.fits(now, wait):
		r.runner.arm(wait)
	default:
		r.stop(backoff.ReasonDeadline)
	}
}

// send sends the hedge that was granted.
func (r *race) send(now time.Time) {
	if b := r.hedge.Budget; b != nil && !b.Confirm(r.ticket) {
		r.refuse()
		return
	}
	r.granted, r.unpaid = false, false
	r.hedge.hedges.Add(1)
	a := new(attempt)
	r.count(a, now)
	r.runner.launch(a)
	r.scheduleNext(now)
}

// scheduleNext arranges for the attempt after the one just made ready.
func (r *race) scheduleNext(now time.Time) {
	r.disarm()
	switch {
	case r.number >= r.hedge.maxAttempts():
		r.why = backoff.ReasonAttempts
	case r.hedge.Delay < 0:
		r.sendSoon(now)
	case r.delay > 0 && r.fits(now, r.delay):
		r.runner.arm(r.delay)
	}
}

// grant asks for the next hedge, or stops the hedging.
func (r *race) grant(now time.Time) bool {
	h, class := r.hedge, r.last.class()
	if r.running > 0 { // and may have been sent
		class = backoff.ClassUnknown
	}
	switch ended := r.ctx.Err(); {
	case ended != nil:
		r.stop(endOf(ended))
	case !r.fits(now, 0):
		r.stop(backoff.ReasonDeadline)
	case h.Idempotency != nil && !h.Idempotency.Repeatable(r.ctx, class):
		if r.running == 0 { // otherwise it may be sent when the others have failed
			r.stop(backoff.ReasonNotIdempotent)
		}
	case !h.account.take(h.MaxExtraLoad):
		r.postpone(now)
	case !r.reserve(now):
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
		h.account.giveBack()
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

// postpone asks again later for a hedge that no success pays for yet, as long as an
// attempt is under way. Each time it waits twice as long.
func (r *race) postpone(now time.Time) {
	if r.delay *= 2; r.running == 0 || r.delay <= 0 || !r.fits(now, r.delay) {
		r.refuse()
		return
	}
	r.unpaid = true
	r.runner.arm(r.delay)
}

// refuse stops the hedging because there is nothing to pay for it.
func (r *race) refuse() {
	r.unpaid = true
	r.stop(backoff.ReasonBudget)
}

// stop says that no more hedges are sent, and why. Attempts under way go on.
func (r *race) stop(why backoff.Reason) {
	if r.why == goOn {
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
	r.hedge.account.giveBack()
	if r.hedge.Budget != nil {
		r.hedge.Budget.Done(r.ticket, backoff.Result{NotSent: true})
	}
}

// giveUp ends the call with a *backoff.Error.
func (r *race) giveUp(why backoff.Reason) {
	last, then := r.last.unwrap(), r.interrupted
	if why == backoff.ReasonOpen {
		then = r.refusal
	} else if after, _ := backoff.RetryAfterOf(last); why == backoff.ReasonRetryAfter && after < r.retryAfter {
		last = backoff.RetryAfter(last, r.retryAfter) // as the server said to another attempt
	}
	note := ""
	if why == backoff.ReasonBudget {
		note = "MaxExtraLoad counts, too"
	}
	err := r.endCall(backoff.Error{
		Attempts:    r.number - r.unsent,
		Reason:      why,
		Last:        last,
		Note:        note,
		Interrupted: then.unwrap(),
	}, r.last.class())
	if r.interrupted != nil && err.(*backoff.Error).Interrupted == nil { // it was an answer that came in time
		r.last = r.interrupted
	}
	r.end(err)
}

// endCall returns the error of a call that ends with e, whose last error is of
// class c.
func (r *race) endCall(e backoff.Error, c backoff.Class) error {
	h := r.hedge
	p := backoff.Policy{
		Name:        h.Name,
		MaxAttempts: h.maxAttempts(),
		Idempotency: h.Idempotency,
		Classify:    func(error) backoff.Class { return c }, // which h.Classify has said
	}
	if h.Idempotency == backoff.Keyed {
		p.Idempotency = underKey(backoff.IdempotencyKey(r.parent))
	}
	return p.GiveUp(r.ctx, e)
}

// underKey is the Idempotency of a call with this key.
type underKey string

// Repeatable implements [backoff.Idempotency].
func (underKey) Repeatable(context.Context, backoff.Class) bool { return true }

// MadeKey says that another call, under another key, must not repeat this one.
func (k underKey) MadeKey() string { return string(k) }

// endOf returns the reason of a context's error.
func endOf(err error) backoff.Reason {
	if err == context.DeadlineExceeded {
		return backoff.ReasonDeadline
	}
	return backoff.ReasonCanceled
}

// end ends every call.
func (r *race) end(err error) {
	r.stop(backoff.ReasonAttempts)
	if r.over, r.err = true, err; r.unpaid {
		r.hedge.refused.Add(1)
	}
	for _, a := range r.attempts[:r.number] {
		switch {
		case !a.over:
			a.Cancel(errLost)
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
		e := backoff.Event{Kind: backoff.EventHedgeLost, Attempt: n + 1, Delay: r.delay}
		if r.attempts[n] == r.winner {
			e.Kind = backoff.EventHedgeWon
		}
		r.observe(e)
	}
	if r.unpaid {
		r.observe(backoff.Event{Kind: backoff.EventRefused, Reason: backoff.ReasonBudget})
	}
	if !r.crashed {
		r.observe(r.endEvent())
	}
}

// endEvent is the event of the call's end.
func (r *race) endEvent() backoff.Event {
	e := backoff.Event{Kind: backoff.EventSuccess, Attempt: r.number - r.unsent, Elapsed: clock.Now().Sub(r.began)}
	if r.err == nil {
		return e
	}
	e.Kind, e.Err, e.Class, e.RetryAfter, e.Reason = backoff.EventGiveUp, r.last.unwrap(), r.last.class(), r.retryAfter, backoff.ReasonPermanent
	if gave, ok := r.err.(*backoff.Error); ok && gave != nil {
		e.Reason, e.RetryAfter = gave.Reason, gave.RetryAfter()
	} else if r.number == 0 {
		e.Err, e.Class, e.Reason = r.err, backoff.ClassPermanent, backoff.ReasonInvalid
	}
	return e
}

func (r *race) observe(e backoff.Event) {
	e.Name, e.MaxAttempts = r.hedge.Name, r.hedge.maxAttempts()
	r.hedge.Observer.Notify(r.ctx, e)
}

// launch runs an attempt beside those under way.
func (r *race) launch(a *attempt) { go r.begin(nil, a) }

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
func (s *steered) run(a *attempt) {
	s.driver.Send(func(err error) {
		s.finish(a, err, func() {})
		s.tellOver()
	})
}

func (s *steered) launch(a *attempt) { s.run(a) }

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
