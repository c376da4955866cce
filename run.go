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

// A Run is one call under a [Policy]: it counts the attempts, decides after
// each failure, and holds all the state of the call. It is for one goroutine.
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
// A caller with a loop of its own calls Retry after each attempt, and sleeps
// itself.
type Run struct {
	ending
	policy  Policy
	attempt context.Context // of the attempt under way, where it has one of its own
	cancel  context.CancelFunc
	key     string // idempotency key made for the call, under Keyed

	number    int           // of attempts begun
	base      int           // attempts that Progress no longer counts
	retries   int           // since the schedule began
	announced int           // the attempt after which the observer heard of another one
	began     time.Time     // the call, or its last Progress
	now       time.Time     // the last reading of the clock
	prev      time.Duration // the last wait, for the jitter
	slept     time.Duration // before the attempt under way, if there is an observer
	timer     *time.Timer   // from the first wait to the end of the call
	ticket    Ticket        // of the attempt under way, or of the one to come

	err error // of the call, once it is over

	started           bool // the budget was asked for the first attempt
	reserved          bool // the ticket is not given back yet
	running           bool // an attempt is under way
	failed            bool // Fail was called for it
	over              bool // the call has ended
	timedOut          bool // AttemptTimeout ended the last attempt
	timedOutForBudget bool // it did, or the operation said ErrAttemptTimeout itself
	normal            bool // the context had no priority of its own at the last wait
	unbounded         bool // the context had no deadline when the clock was first read
	monotonic         bool // the clock has monotonic readings: this is no bubble of testing/synctest
}

var errUnreported = errors.New("attempt ended without Run.Fail")

// Attempts returns the attempts of the call, numbered from 1, for a range loop.
// The loop sleeps between them. To leave the loop means success, unless Fail
// was called for the attempt. To reach the end of its body means failure,
// whether Fail was called or not. The loop ends when the policy gives up; then
// Err says why. The sequence is for single use: once it is over, it is empty
// until Reset.
func (r *Run) Attempts() iter.Seq[int] {
	return func(yield func(int) bool) {
		p := &r.policy
		if r.started || p.hearsSuccess() || p.limitsAttempts() || p.invalid() || r.ctx.Err() != nil {
			r.each(yield, false)
			return
		}
		// As in Do: the call holds nothing that a panic would leave behind.
		r.started, r.running, r.number = true, true, 1
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

// each is the loop. If made is true, the first attempt has reached the end of
// its body already.
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

// body is call for a range loop: it runs one iteration, and gives back what the
// attempt holds if that panics.
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

// Fail reports that the attempt under way failed with err. If it is called more
// than once, the last error counts.
func (r *Run) Fail(err error) {
	if err == nil {
		err = errUnreported
	}
	r.last, r.failed = err, true
}

// Err returns why the call failed. It is nil while the call goes on and after
// success.
func (r *Run) Err() error { return r.err }

// Context returns the context for the attempt under way: that of the call,
// under the policy's AttemptTimeout and with the call's idempotency key if
// there are such. It ends with the attempt.
func (r *Run) Context() context.Context {
	if r.attempt == nil && r.key != "" {
		r.attempt = WithIdempotencyKey(r.ctx, r.key)
	}
	if r.attempt != nil {
		return r.attempt
	}
	return r.ctx
}

// Admit asks for the first attempt, for a caller with a loop of its own:
// whether the caller may make it, and after what pause. Admit returns false if
// the policy is invalid, the context has ended, or the budget refuses; then Err
// says why. Calling Admit is optional. Without it, the first Retry asks the
// budget afterwards, so that the budget counts right.
func (r *Run) Admit() (pause time.Duration, ok bool) {
	if r.over || r.started {
		return 0, !r.over
	}
	pause = r.start()
	if !r.over && r.ctx.Err() != nil {
		r.cancelled()
	}
	return pause, !r.over
}

// Begin sleeps for the pause that Admit or Retry returned, and begins the next
// attempt, for a caller with a loop of its own that can block. It returns
// false, and ends the call, if the context ends or the budget does not confirm
// the attempt. Calling Begin is optional. Without it the caller sleeps, and
// Retry counts the attempt afterwards.
func (r *Run) Begin(pause time.Duration) bool { return r.sleep(pause) && r.begin() }

// Retry reports how an attempt ended, and decides what follows: another attempt
// after pause, or the end of the call, which Err explains. The caller sleeps,
// and ends the sleep if its context ends. A nil err is success; with a Budget
// or an Observer, report success too.
//
// Retry has the shape of a gax.Retryer.
func (r *Run) Retry(err error) (pause time.Duration, ok bool) {
	if r.over {
		return 0, false
	}
	if !r.running { // the caller's own loop did not call Begin
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

// catchUp asks for an attempt that was made without begin. A refusal ends the
// call, unless the attempt succeeded: then only the budget's count is put
// right.
func (r *Run) catchUp(err error) {
	r.number++
	asked := r.started
	r.started = true
	switch {
	case err == nil && !asked && r.policy.Budget != nil:
		r.ticket, _, r.reserved = r.policy.Budget.Reserve(r.ask(AttemptFirst))
	case err == nil:
	case !asked:
		r.last = err
		r.start()
	case r.reserved:
		r.last = err
		r.confirm()
	}
}

// Progress reports that the call has achieved something that a retry builds on,
// such as a chunk of a transfer. Attempts, elapsed time and schedule start
// again, with the attempt under way as the first.
func (r *Run) Progress() {
	r.base, r.retries, r.prev = r.number, 0, 0
	if r.running {
		r.base--
	}
	r.began = clock.Now()
}

// Reset makes the Run as new, for a loop that lives longer than one call. A
// reconnect loop calls Reset after a connection that lasted.
func (r *Run) Reset() {
	r.abandon()
	*r = Run{policy: r.policy, ending: ending{ctx: r.ctx}}
}

// resume continues a call whose first attempt was made without a Run, and
// failed.
func (r *Run) resume(p *Policy, ctx context.Context) {
	r.policy, r.ctx, r.number = *p, ctx, 1
	r.started, r.reserved = true, p.Budget != nil
}

// begin makes the next attempt ready, or reports that there is none.
func (r *Run) begin() bool {
	if !r.started && !r.sleep(r.start()) {
		return false
	}
	if r.over {
		return false
	}
	if r.ctx.Err() != nil {
		r.cancelled()
		return false
	}
	if r.reserved && !r.confirm() {
		return false
	}
	r.number++
	r.running, r.failed = true, false
	if r.policy.limitsTime() {
		r.limitTime()
	}
	return true
}

// proceed sleeps for wait and begins the next attempt, in the loop of redo.
func (r *Run) proceed(wait time.Duration) bool {
	if wait > 0 || r.reserved {
		return r.sleep(wait) && r.begin()
	}
	r.number++ // fail has just looked at all that begin looks at
	r.slept = 0
	return true
}

// confirm tells the budget that the attempt it granted is about to be made.
func (r *Run) confirm() bool {
	if confirm(r.policy.Budget, r.ticket) {
		return true
	}
	r.settle(Result{Outcome: OutcomeNotSent})
	r.giveUp(ReasonBudget, ClassUnknown, 0)
	return false
}

// start does what must be done before the first attempt, and returns how long a
// budget makes it wait.
func (r *Run) start() time.Duration {
	p := &r.policy
	r.started = true
	if !p.needsRun() {
		r.reserved = p.Budget != nil // granted without being asked
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
	a := r.ask(AttemptFirst)
	a.Now = r.now
	wait, why := r.reserve(a, 0)
	if why != ReasonSuccess {
		r.giveUp(why, ClassUnknown, wait)
		return 0
	}
	return wait
}

// enrol begins a call under a policy that needs a Run.
func (r *Run) enrol() {
	r.started = true
	r.readClock()
	if r.policy.Idempotency == Keyed && IdempotencyKey(r.ctx) == "" {
		r.key = rand.Text()
	}
}

// ask returns what the budget is asked for, before the first attempt.
func (r *Run) ask(kind AttemptKind) Attempt {
	return Attempt{Number: 1, Kind: kind, MaxAttempts: r.policy.maxAttempts()}
}

// limitTime gives the attempt a context that ends after the attempt timeout.
func (r *Run) limitTime() {
	d := r.policy.timeLimit(r.number - r.base)
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
// Every call that waits has this frame, and those above it, on its own stack.
// Some 20 bytes more, and that stack would double. The benchmark of 100,000
// waiting calls guards it.
func (r *Run) sleep(wait time.Duration) bool {
	r.slept = 0
	if wait <= 0 {
		return true
	}
	if r.timer == nil { // one timer for all waits of the call
		r.timer = clock.NewTimer(wait, r.monotonic)
	} else {
		r.timer.Reset(wait)
	}
	select {
	case <-r.timer.C:
		if r.policy.Observer != nil {
			r.woken()
		}
		return true
	case <-r.ctx.Done():
		r.timer.Stop()
		r.timer = nil // not put back: after a mass cancellation the pool would hold all of them
		if r.policy.Observer != nil {
			r.woken()
		}
		r.cancelled()
		return false
	}
}

// releaseTimer puts the timer back, at the end of the call.
func (r *Run) releaseTimer() {
	if r.timer != nil && r.monotonic {
		clock.PutTimer(r.timer)
	}
	r.timer = nil
}

// woken measures the sleep that has just ended.
//
//go:noinline
func (r *Run) woken() { r.slept = clock.Now().Sub(r.now) }

// cancelled ends a call whose context ended while no attempt was under way.
func (r *Run) cancelled() {
	r.settle(Result{Outcome: OutcomeNotSent})
	r.now = clock.Now() // what was slept counts as elapsed
	r.giveUp(endOf(r.ctx.Err()), ClassUnknown, 0)
}

// succeed ends the call with success.
func (r *Run) succeed() {
	r.settle(Result{})
	r.releaseTimer()
	r.over = true
	if r.policy.Observer != nil {
		r.notify(&Event{Kind: EventSuccess})
	}
}

// leave ends the call when the body of a range loop leaves it.
func (r *Run) leave() {
	if !r.failed {
		r.succeed()
		return
	}
	v := judge(r.policy.Classify, r.last)
	r.settle(v.result(r.attempt != nil && r.attemptTimedOut(r.last), r.ctx.Err() != nil))
	r.end(ReasonAbandoned, v.class, r.last)
}

// abandon settles an attempt that ended in no other way: by a panic, a Goexit,
// or Reset.
func (r *Run) abandon() {
	if r.running || r.reserved {
		r.settle(Result{Outcome: OutcomeTransient})
	}
}

// settle ends the attempt under way: its context, and its ticket.
func (r *Run) settle(result Result) {
	r.running = false
	if r.attempt != nil || r.reserved {
		r.release(result)
	}
}

// release ends the attempt's context, and gives the budget its ticket back.
func (r *Run) release(result Result) {
	if r.cancel != nil {
		r.cancel()
		r.cancel = nil
	}
	r.attempt = nil
	if r.reserved {
		r.reserved = false
		r.policy.Budget.Done(r.ticket, result)
	}
}

// call makes an attempt, and gives back what the attempt holds if op panics.
// The defer is here, and not in the loops, because the loops are on the stack
// of every call that waits.
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

// held reports whether the attempt under way has a context of its own, or a
// ticket that must be given back.
func (r *Run) held() bool { return r.attempt != nil || r.reserved || r.key != "" }

// runs are reused. They are not on the stack, because with a Run on it the
// stack of every call that waits would double.
var runs = sync.Pool{New: func() any { return new(Run) }}

// discard returns the call's error and puts its Run back.
func (r *Run) discard() error {
	err := r.err
	*r = Run{}
	runs.Put(r)
	return err
}
