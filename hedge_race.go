package backoff

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/steer"
)

// contest is a race for a value of type T.
type contest[T any] struct {
	race
	op      func(context.Context) (T, error)
	discard func(T)
	value   T // of the attempt that ended the call
}

// run makes an attempt, and reports whether it ended the call.
func (c *contest[T]) run(a *hedgeAttempt) bool {
	value, err := c.op(a)
	decided := c.finish(a, err, func() { c.value = value })
	if !decided && err == nil && c.discard != nil {
		c.discard(value)
	}
	return decided
}

// race is one hedged call: its attempts, and when the next one starts. mu
// guards the fields below it.
type race struct {
	ending   // ctx has the call's key; mu guards the rest of it
	hedge    *Hedge
	runner   interface{ run(*hedgeAttempt) bool } // the contest around this race
	began    time.Time
	sent     time.Time     // when the first attempt was sent
	deadline time.Time     // of ctx, if it has one
	delay    time.Duration // before each hedge
	keep     bool          // the winner's context must outlive the call

	mu       sync.Mutex
	first    hedgeAttempt
	attempts [mostHedgeAttempts]*hedgeAttempt
	number   int           // of attempts sent
	running  int           // attempts that have no result yet
	unsent   int           // attempts that a breaker refused
	alarm    *alarm        // for the next hedge
	earliest time.Time     // for the next hedge, as a server or the Budget said
	ticket   Ticket        // of the attempt about to be sent
	granted  bool          // the next hedge is paid for, and only has to wait
	unpaid   bool          // there was nothing to pay a hedge with
	class    Class         // of the last attempt that failed
	wait     time.Duration // the wait that there was no time for
	why      Reason        // why there are no more hedges; ReasonSuccess while there may be
	err      error         // of the call
	winner   int8          // the number of the attempt whose value was taken
	over     bool
	done     chan struct{} // closed when over, if the caller waits
	crashed  bool          // an attempt ended the call by a panic or a Goexit
	panicked any           // the value of that panic; nil for a Goexit
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
	if key := keyFor(ctx, h.Idempotency); key != "" {
		r.ctx = withKey(ctx, key)
	}
	if why := r.askFirst(); why != ReasonSuccess {
		r.giveUp(why)
		return false
	}
	r.delay = h.delay(r.left(r.sent))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(&r.first)
	r.scheduleNext(r.sent)
	return true
}

// askFirst asks the Budget for the first attempt, and waits if the Budget says
// so.
func (r *race) askFirst() Reason {
	if err := r.ctx.Err(); err != nil {
		return endOf(err)
	}
	if r.hedge.Budget == nil {
		return ReasonSuccess
	}
	ticket, wait, ok := r.hedge.Budget.Reserve(r.ask(AttemptFirst, r.began))
	if !ok {
		return ReasonBudget
	}
	r.ticket = ticket
	why := ReasonSuccess
	if wait > 0 {
		why = r.sleep(wait)
	}
	if why == ReasonSuccess && !confirm(r.hedge.Budget, ticket) {
		why = ReasonBudget
	}
	if why != ReasonSuccess {
		r.hedge.Budget.Done(ticket, Result{Outcome: OutcomeNotSent})
	}
	return why
}

// ask returns what the Budget is asked for.
func (r *race) ask(kind AttemptKind, now time.Time) Attempt {
	return Attempt{
		Number:      r.number + 1,
		Kind:        kind,
		Class:       r.class,
		Priority:    priorityOf(r.ctx),
		MaxAttempts: r.hedge.maxAttempts(),
		Now:         now,
	}
}

// sleep waits before the first attempt.
func (r *race) sleep(wait time.Duration) Reason {
	if wait >= r.left(r.began) {
		r.wait = wait
		return ReasonDeadline
	}
	if !clock.Sleep(r.ctx, wait) {
		return endOf(r.ctx.Err())
	}
	r.sent = clock.Now()
	return ReasonSuccess
}

// begin is what every goroutine of a call runs: an attempt, or an alarm that
// may lead to one.
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
		r.end(nil, nil)
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
func (r *race) count(a *hedgeAttempt) {
	a.Context, a.number, a.ticket = r.ctx, r.number, r.ticket
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
	r.hedge.calls.Add(1)
	if a != &r.first {
		r.hedge.wins.Add(1)
	}
	r.uncount(a, Result{})
	r.end(nil, a)
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
		d = max(d, time.Duration(h.measured.Load()))
	}
	h.observe(d, now)
}

// fail decides what follows a failed attempt.
func (r *race) fail(a *hedgeAttempt, err error, v verdict, now time.Time) {
	v.ended = r.ctx.Err()
	if v.open == nil || a == &r.first {
		r.last, r.class = err, v.class // after a refusal, the service's last answer stays
	}
	if v.hint.given {
		r.retryAfter = v.hint.after
	}
	if v.open != nil {
		r.unsent++
		r.uncount(a, Result{Outcome: OutcomeNotSent})
	} else {
		r.uncount(a, v.result())
	}
	a.end()
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
	case v.class == ClassPermanent && r.running > 0 && errors.Is(err, ErrBudget):
		r.stop(ReasonBudget)
	case v.class == ClassPermanent:
		r.endDefinitive(v)
	case v.class == ClassOverloaded, v.class == ClassThrottled && !v.hint.given:
		r.stop(ReasonOverloaded)
	case v.hint.given && limit > 0 && v.hint.after > limit:
		r.stop(ReasonRetryAfter)
	default:
		r.notBefore(now.Add(v.hint.after))
		r.sendSoon(now)
	}
}

// endDefinitive ends the call with its last error as it is.
func (r *race) endDefinitive(v verdict) {
	err := r.last
	if !v.marked {
		err = inferred(err)
	}
	r.end(err, nil)
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

// sendSoon sends the next hedge as soon as it may be sent.
func (r *race) sendSoon(now time.Time) {
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
		if a := r.prepare(now); a != nil {
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

// prepare makes the next hedge ready. It returns nil if there is no further
// hedge, which r.why explains, or if the hedge has to wait.
func (r *race) prepare(now time.Time) *hedgeAttempt {
	if !r.granted && !r.grant(now) {
		return nil
	}
	r.granted = true
	if !confirm(r.hedge.Budget, r.ticket) {
		r.refuse()
		return nil
	}
	r.granted = false
	r.hedge.hedges.Add(1)
	a := new(hedgeAttempt)
	r.count(a)
	r.scheduleNext(now)
	return a
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
		r.arm(r.delay)
	}
}

// grant reports whether the next hedge may be sent now.
func (r *race) grant(now time.Time) bool {
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

// refuse stops the hedging because there is nothing to pay for it.
func (r *race) refuse() {
	r.hedge.refused.Add(1)
	r.unpaid = true
	r.stop(ReasonBudget)
}

// reserve asks the Budget for the next hedge.
func (r *race) reserve(now time.Time) bool {
	h := r.hedge
	ticket, wait, ok := h.Budget.Reserve(r.ask(AttemptHedge, now))
	if !ok {
		h.refund()
		r.refuse()
		return false
	}
	r.ticket = ticket
	if wait > 0 {
		r.granted = true
		r.notBefore(now.Add(wait))
		r.sendSoon(now)
	}
	return wait <= 0
}

// stop says that no more hedges are sent, and why. Attempts under way go on.
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
		r.hedge.Budget.Done(r.ticket, Result{Outcome: OutcomeNotSent})
	}
}

// giveUp ends the call with an *Error.
func (r *race) giveUp(why Reason) {
	now := clock.Now()
	e := r.newError(r.hedge.Name, r.number-r.unsent, r.hedge.maxAttempts(), why)
	e.Elapsed = now.Sub(r.began)
	switch {
	case why == ReasonRetryAfter:
		e.limit = r.hedge.maxRetryAfter()
	case why == ReasonDeadline && r.ctx.Err() == nil:
		e.wait, e.limit = r.wait, r.left(now)
	}
	r.end(e, nil)
}

// end ends every call, with the winner if there is one.
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
	r.mu.Lock()
	sent, unpaid, crashed := r.number, r.unpaid, r.crashed
	end := r.endEvent()
	r.mu.Unlock()
	for n := 1; n < sent; n++ {
		e := Event{Kind: EventHedgeLost, Attempt: n + 1, Delay: r.delay}
		if end.Kind == EventSuccess && n == int(r.winner) {
			e.Kind = EventHedgeWon
		}
		r.observe(e)
	}
	if unpaid {
		r.observe(Event{Kind: EventRefused, Reason: ReasonBudget})
	}
	if !crashed {
		r.observe(end)
	}
}

// endEvent is the event of the call's end.
func (r *race) endEvent() Event {
	e := Event{Kind: EventSuccess, Attempt: r.number - r.unsent, Elapsed: clock.Now().Sub(r.began)}
	if r.err == nil {
		return e
	}
	e.Kind, e.Err, e.Class, e.RetryAfter, e.Reason = EventGiveUp, r.last, r.class, r.retryAfter, ReasonPermanent
	if gave, ok := r.err.(*Error); ok {
		e.Reason = gave.Reason
	} else if r.number == 0 {
		e.Err, e.Class, e.Reason = r.err, ClassPermanent, ReasonInvalid
	}
	e.Header = headerOf(e.Err)
	return e
}

func (r *race) observe(e Event) {
	e.Name, e.MaxAttempts = r.hedge.Name, r.hedge.maxAttempts()
	r.hedge.Observer.tell(r.ctx, &e)
}

// steered is a hedged call in the simulator, which drives it.
type steered struct {
	race
	driver steer.Driver
	told   bool // the driver heard that the call is over
}

// Steer begins a call for the simulator of this module, the only one that can
// make a driver. Use [HedgeValue] instead.
//
// Steer is a method, and not a hook that the simulator sets, because programs
// that do not call a method do not carry its code.
func (h *Hedge) Steer(ctx context.Context, d steer.Driver) {
	s := &steered{driver: d}
	s.runner = s
	if s.start(ctx, h) {
		s.run(&s.first)
	} else {
		d.Over(s.err)
	}
}

// run sends an attempt. Its result comes later.
func (s *steered) run(a *hedgeAttempt) bool {
	s.driver.Send(func(err error) {
		s.finish(a, err, func() {})
		s.tellOver()
	})
	return false
}

// tellOver tells the driver once that the call is over.
func (s *steered) tellOver() {
	if s.over && !s.told {
		s.told = true
		s.driver.Over(s.err)
	}
}

// An alarm sends the next hedge. Each hedge has an alarm of its own, so that an
// alarm that goes off while it is being replaced is recognized as an old one.
type alarm struct {
	race  *race
	timer *time.Timer
}

// alarms are reused if they did not go off, and most do not.
var alarms sync.Pool

// ring is called when the alarm goes off.
func (al *alarm) ring() { al.race.begin(al, nil) }

// wake returns the hedge that an alarm has to send, or nil.
func (r *race) wake(al *alarm) *hedgeAttempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alarm != al { // replaced, or stopped too late
		return nil
	}
	r.alarm = nil
	a := r.prepare(clock.Now())
	r.finishIfIdle()
	return a
}

// arm sets the alarm for the next hedge.
func (r *race) arm(d time.Duration) {
	r.disarm()
	if s, ok := r.runner.(*steered); ok {
		al := &alarm{race: r}
		r.alarm = al
		s.driver.Arm(d, func() { al.ring(); s.tellOver() })
		return
	}
	if r.reusable() {
		r.alarm, _ = alarms.Get().(*alarm)
	}
	if r.alarm != nil {
		r.alarm.race = r
		r.alarm.timer.Reset(d)
		return
	}
	r.alarm = &alarm{race: r}
	r.alarm.timer = time.AfterFunc(d, r.alarm.ring)
}

// disarm stops the alarm.
func (r *race) disarm() {
	al := r.alarm
	if al == nil {
		return
	}
	r.alarm = nil
	if al.timer != nil && al.timer.Stop() && r.reusable() {
		al.race = nil
		alarms.Put(al)
	}
}

// reusable reports whether timers may outlive the call.
func (r *race) reusable() bool { return clock.Monotonic(&r.began) }

// hedgeAttempt is one attempt, and its context. The context is that of the call
// until the operation asks for Done, or the attempt loses. Fast operations do
// not ask, and a context that can be cancelled costs more than the rest of
// their call.
type hedgeAttempt struct {
	context.Context
	mu     sync.Mutex                 // held to change own
	own    atomic.Pointer[ownContext] // nil until somebody asks
	number int
	ticket Ticket
	over   bool // guarded by the race
}

// ownContext is the context that an attempt gets when it asks.
type ownContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// canceledUnused is the own context of attempts that ended before they asked.
var canceledUnused = func() *ownContext {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	return &ownContext{ctx, cancel}
}()

// hedgeKey is the key by which a context finds its attempt.
type hedgeKey struct{}

// Done implements context.Context.
func (a *hedgeAttempt) Done() <-chan struct{} { return a.derive().Done() }

// Err implements context.Context.
func (a *hedgeAttempt) Err() error {
	if own := a.own.Load(); own != nil {
		return own.Err()
	}
	return a.Context.Err()
}

// Value implements context.Context. Package context looks up the nearest
// cancelable context by a key of its own. Value answers with the attempt's own
// context, so that the cause is found, and derived contexts need no goroutine.
func (a *hedgeAttempt) Value(key any) any {
	if key == (hedgeKey{}) {
		return a
	}
	if own := a.own.Load(); own != nil && own != canceledUnused {
		return own.Value(key)
	}
	return a.Context.Value(key)
}

// derive returns the attempt's own context, and makes it if there is none.
func (a *hedgeAttempt) derive() *ownContext {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.own.Load()
	if own == nil {
		ctx, cancel := context.WithCancelCause(a.Context)
		own = &ownContext{ctx, cancel}
		a.own.Store(own)
	}
	return own
}

// lose ends the context of an attempt under way.
func (a *hedgeAttempt) lose() { a.derive().cancel(errHedgeLost) }

// end ends the context of an attempt that has returned.
func (a *hedgeAttempt) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if own := a.own.Load(); own != nil {
		own.cancel(nil)
		return
	}
	a.own.Store(canceledUnused)
}
