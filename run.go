package backoff

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Run is one call under a [Policy]: it counts the attempts, decides after each
// failure, and holds all the state there is. It is for one goroutine.
//
// As a range loop:
//
//	r := policy.Start(ctx)
//	for range r.Attempts() {
//		v, err := fetch(r.Context())
//		if err == nil {
//			return v, nil
//		}
//		r.Fail(err)
//	}
//	return zero, r.Err()
//
// A caller with a loop of its own asks Retry after each attempt, and sleeps itself.
type Run struct {
	policy  *Policy
	ctx     context.Context
	attempt context.Context // of the attempt under way, where it has one of its own
	cancel  context.CancelFunc
	key     string // made for the call, under Keyed
	last    error  // of the last attempt
	err     error  // of the call, once it is over
	began   time.Time
	now     time.Time     // the last reading of the clock
	prev    time.Duration // the jitter's last wait
	hint    hint          // of the server's last answer
	slept   time.Duration // before the attempt under way, if anybody observes
	told    int           // the attempt after which another one was announced
	number  int           // of attempts begun
	paid    int           // of these, by Progress
	step    int           // retries since the schedule began
	timer   *time.Timer   // from the first wait to the end
	ticket  Ticket
	barred  *OpenError // by which the last attempt was refused
	booked  bool       // the ticket is out
	opened  bool       // the first attempt was asked for
	running bool       // an attempt is under way
	failed  bool       // Fail was called for it
	usual   bool       // the context asks for no patience, as it said at the last wait
	endless bool       // the context has no deadline, as it said when the clock was first read
	real    bool       // the clock has monotonic readings: no bubble of testing/synctest
	cut     bool       // the last attempt, by AttemptTimeout
	late    bool       // it, or by whoever else keeps its time; for Budget
	over    bool
}

var errUnreported = errors.New("attempt ended without Run.Fail")

// Attempts returns the attempts of the call, numbered from 1, for a range loop that sleeps between
// them. Leaving the loop means success, unless Fail was called for the attempt;
// reaching the end of its body is a failure, whether Fail was called or not. The loop
// ends by itself when the policy gives up; then Err says why. The sequence is for single
// use: once over, it is empty until Reset.
func (r *Run) Attempts() iter.Seq[int] {
	return func(yield func(int) bool) {
		p := r.policy
		if r.opened || p.watched() || p.guarded() || p.unsound() || r.ctx.Err() != nil {
			r.each(yield, false)
			return
		}
		// As in Do: nothing is held that a panic would leave behind.
		r.opened, r.running, r.number = true, true, 1
		switch {
		case yield(1):
			r.each(yield, true)
		case r.failed:
			r.leave()
		default:
			r.running, r.over = false, true
		}
	}
}

// each is the loop; if an attempt was made already, from the end of its body.
func (r *Run) each(yield func(int) bool, made bool) {
	for ; made || r.begin(); made = false {
		if !made && !r.body(yield) {
			r.leave()
			return
		}
		if !r.running { // Reset: what ended was the first attempt of the new call
			r.enrol()
			r.number, r.running = 1, true
		}
		err := r.last
		if !r.failed {
			err = errUnreported
		}
		if wait, ok := r.Retry(err); !ok || !r.sleep(wait) {
			return
		}
	}
}

// body is call for the body of a loop.
func (r *Run) body(yield func(int) bool) bool {
	if !r.held() {
		return yield(r.number)
	}
	returned := false
	defer func() {
		if !returned {
			r.abandon()
		}
	}()
	more := yield(r.number)
	returned = true
	return more
}

// Fail reports that the attempt under way failed, with err. Called more than once,
// the last one stands.
func (r *Run) Fail(err error) {
	if err == nil {
		err = errUnreported
	}
	r.last, r.failed = err, true
}

// Err returns why the call failed: nil while it goes on and after success.
func (r *Run) Err() error { return r.err }

// Context returns the context for the attempt under way: that of the call, under the
// policy's AttemptTimeout and with the call's idempotency key, if it has these. It
// ends with the attempt.
func (r *Run) Context() context.Context {
	if r.attempt == nil && r.key != "" {
		r.attempt = WithIdempotencyKey(r.ctx, r.key)
	}
	if r.attempt != nil {
		return r.attempt
	}
	return r.ctx
}

// Admit asks for the first attempt, for a caller with a loop of its own: whether it
// may be made, and after what pause. It is false for an invalid policy, an ended
// context, and a budget that refuses; then Err tells. Calling it is optional: without
// it, the first Retry asks in hindsight, so that the budget's books are right.
func (r *Run) Admit() (pause time.Duration, ok bool) {
	if r.over || r.opened {
		return 0, !r.over
	}
	pause = r.open()
	if !r.over && r.ctx.Err() != nil {
		r.cancelled()
	}
	return pause, !r.over
}

// Begin sleeps for the pause that Admit or Retry returned and begins the next attempt, for a
// caller with a loop of its own that can wait here. It returns false, and ends the call, if
// the context ended or the budget does not let the attempt depart. Calling it is
// optional: without it the caller sleeps, and Retry takes note of the attempt in hindsight.
func (r *Run) Begin(pause time.Duration) bool { return r.sleep(pause) && r.begin() }

// Retry reports how an attempt ended and decides what follows: another attempt after
// pause, or the end, of which Err tells. The caller sleeps, and ends the sleep if its context
// does. A nil err is success; with a Budget or an Observer, report that too.
//
// It has the shape of a gax.Retryer.
func (r *Run) Retry(err error) (pause time.Duration, ok bool) {
	if r.over {
		return 0, false
	}
	if !r.running { // the caller's own loop: no begin
		r.catchUp(err)
	}
	switch {
	case r.over:
		return 0, false
	case err == nil:
		r.succeed()
		return 0, false
	}
	return r.fail(err)
}

// catchUp asks for an attempt that was made without begin. A refusal ends the call,
// unless the attempt succeeded: then only the budget's books are put right.
func (r *Run) catchUp(err error) {
	r.number++
	asked := r.opened
	r.opened = true
	switch {
	case err == nil && !asked && r.policy.Budget != nil:
		r.ticket, _, r.booked = r.policy.Budget.Reserve(Attempt{Number: 1, Kind: AttemptFirst})
	case err == nil:
	case !asked:
		r.last = err
		r.open()
	case r.booked:
		r.last = err
		r.depart()
	}
}

// Progress says that the call has achieved something that a retry will build on, such
// as a chunk of a transfer: attempts, elapsed time and schedule start again, with the
// attempt under way as the first.
func (r *Run) Progress() {
	r.paid, r.step, r.prev = r.number, 0, 0
	if r.running {
		r.paid--
	}
	r.began = clock.Now()
}

// Reset makes the Run as new, for a loop that lives longer than one call: a
// reconnect loop resets after a connection that held.
func (r *Run) Reset() {
	r.abandon()
	*r = Run{policy: r.policy, ctx: r.ctx}
}

// begin makes the next attempt ready, or reports that there is none.
func (r *Run) begin() bool {
	if !r.opened && !r.sleep(r.open()) {
		return false
	}
	if r.over {
		return false
	}
	if r.ctx.Err() != nil {
		r.cancelled()
		return false
	}
	if r.booked && !r.depart() {
		return false
	}
	r.number++
	r.running, r.failed = true, false
	if r.policy.AttemptTimeout != nil {
		r.limit()
	}
	return true
}

// depart tells the budget that the attempt it granted is about to be made.
func (r *Run) depart() bool {
	b, ok := r.policy.Budget.(Confirmer)
	if !ok || b.Confirm(r.ticket) {
		return true
	}
	r.settle(OutcomeNotSent)
	r.giveUp(ReasonBudget, ClassUnknown, 0)
	return false
}

// open does what must be done before the first attempt, and returns how long a
// budget wants it to wait.
func (r *Run) open() time.Duration {
	p := r.policy
	r.opened = true
	if !p.elaborate() {
		r.booked = p.Budget != nil // granted without being asked
		return 0
	}
	if err := p.Validate(); err != nil {
		r.end(ReasonInvalid, ClassPermanent, err)
		return 0
	}
	r.enrol()
	if p.Budget == nil || r.ctx.Err() != nil {
		return 0
	}
	wait, why := r.reserve(Attempt{Number: 1, Kind: AttemptFirst, Now: r.now}, 0)
	if why != ReasonSuccess {
		r.giveUp(why, ClassUnknown, wait)
		return 0
	}
	return wait
}

// enrol begins a call under an elaborate policy.
func (r *Run) enrol() {
	r.opened = true
	r.read()
	if r.policy.Idempotency == Keyed && IdempotencyKey(r.ctx) == "" {
		r.key = rand.Text()
	}
}

// limit gives the attempt a context that ends with its time.
func (r *Run) limit() {
	d := delayOf(r.policy.AttemptTimeout, r.number-r.paid)
	if d == 0 {
		return
	}
	if r.policy.MaxElapsed > 0 {
		d = min(d, r.policy.MaxElapsed-clock.Now().Sub(r.began))
	}
	r.attempt, r.cancel = context.WithTimeoutCause(r.Context(), d, ErrAttemptTimeout)
}

// sleep waits, and reports whether an attempt may follow.
//
// What is on the stack here, and in the frames above, every call that waits has for
// itself: some 20 bytes more, and its stack would be twice as large. The benchmark of
// 100,000 waiting calls guards it.
func (r *Run) sleep(wait time.Duration) bool {
	r.slept = 0
	if wait <= 0 {
		return true
	}
	if r.timer == nil { // the call has the same one for all its waits
		r.timer = timerFor(wait, r.real)
	} else {
		r.timer.Reset(wait)
	}
	select {
	case <-r.timer.C:
		if r.policy.Observer != nil {
			r.wake()
		}
		return true
	case <-r.ctx.Done():
		r.timer.Stop()
		r.timer = nil // not put back: after a mass cancellation the pool would hold them all
		if r.policy.Observer != nil {
			r.wake()
		}
		r.cancelled()
		return false
	}
}

// disarm puts the timer back, at the end of the call.
func (r *Run) disarm() {
	if r.timer != nil && r.real {
		timers.Put(r.timer)
	}
	r.timer = nil
}

//go:noinline
func (r *Run) wake() { r.slept = clock.Now().Sub(r.now) }

// cancelled ends a call whose context ended while no attempt was under way.
func (r *Run) cancelled() {
	r.settle(OutcomeNotSent)
	r.now = clock.Now() // what was slept counts as elapsed
	r.giveUp(endOf(r.ctx.Err()), ClassUnknown, 0)
}

func (r *Run) succeed() {
	r.settle(OutcomeSuccess)
	r.disarm()
	r.over = true
	if r.policy.Observer != nil {
		r.notify(&Event{Kind: EventSuccess})
	}
}

// leave ends a range loop whose body was left.
func (r *Run) leave() {
	if !r.failed {
		r.succeed()
		return
	}
	v := judge(r.policy.Classify, r.last)
	r.settle(outcomeOf(v, r.timedOut(r.last), r.ctx.Err() != nil))
	r.end(ReasonAbandoned, v.class, r.last)
}

// abandon settles an attempt that ended in no other way: by a panic, a Goexit, or a
// Reset.
func (r *Run) abandon() {
	if r.running || r.booked {
		r.settle(OutcomeTransient)
	}
}

// settle ends the attempt under way: its context, and its ticket.
func (r *Run) settle(o Outcome) {
	r.running = false
	if r.attempt != nil || r.booked {
		r.release(o)
	}
}

func (r *Run) release(o Outcome) {
	if r.cancel != nil {
		r.cancel()
		r.cancel = nil
	}
	r.attempt = nil
	if r.booked {
		r.booked = false
		r.policy.Budget.Done(r.ticket, o)
	}
}

// call makes an attempt. What an attempt holds is given back also if op panics; the
// defer is here, and not in the loops, because those are on the stack of every call
// that waits.
func (r *Run) call(op func(context.Context) error) error {
	if !r.held() {
		return op(r.ctx)
	}
	returned := false
	defer func() {
		if !returned {
			r.abandon()
		}
	}()
	err := op(r.Context())
	returned = true
	return err
}

// held reports whether the attempt under way has anything of its own: a context, or
// a ticket that must be given back.
func (r *Run) held() bool { return r.attempt != nil || r.booked || r.key != "" }

// runs are reused, and not on the stack: with a Run on it, the stack of every call
// that waits would be twice as large.
var runs = sync.Pool{New: func() any { return new(Run) }}

// discard returns the call's error and puts its Run back.
func (r *Run) discard() error {
	err := r.err
	*r = Run{}
	runs.Put(r)
	return err
}
