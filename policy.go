package backoff

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"math/bits"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

const (
	defaultMaxAttempts = 4
	defaultMaxHint     = 5 * time.Minute
)

// A Policy says how a call is carried through failure. The zero value is safe and
// usable; every field has a default.
//
// A Policy is data: it holds nothing of the calls made under it and is never written
// to. Share one among any number of goroutines; copy it to vary it:
//
//	patient := policy
//	patient.MaxAttempts = 10
type Policy struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name is the operation, as it should stand in errors and events.
	Name string
	// MaxAttempts limits the attempts of a call, the first included. 0 means 4, 1
	// means no retries, and a negative number no limit: then the context, MaxElapsed
	// or a Budget must end the call.
	MaxAttempts int
	// MaxElapsed limits the time from the beginning of a call to the beginning of
	// its last attempt. It does not interrupt an attempt; AttemptTimeout does, and is
	// cut to the time left. A retry that would begin later is not waited for, one
	// that would begin exactly then is made, unless AttemptTimeout would leave it no time. 0 and
	// negative mean no limit.
	MaxElapsed time.Duration
	// AttemptTimeout limits each attempt by its context, such as Constant(2 * time.Second):
	// AttemptTimeout.Delay(1) is the time of the first one, and so on; 0 leaves one unlimited. What it ends is retried,
	// unlike what the caller's context ends. The context of an attempt is cancelled
	// when the attempt returns, so what it returns must not depend on it. nil means no limit.
	AttemptTimeout Schedule
	// Schedule is the delay before each retry. nil means Exponential{}.
	Schedule Schedule
	// Jitter spreads the delay. nil means FullJitter.
	Jitter Jitter
	// MaxDelay bounds the wait after jitter; the schedule's own Max bounds the delay
	// before it, which keeps the spread. Hints are bounded by MaxHint instead. 0 and
	// negative mean no limit.
	MaxDelay time.Duration
	// MaxHint is the longest wait that a server may ask for. A longer one ends the
	// call. 0 means 5 minutes, a negative one no limit.
	MaxHint time.Duration
	// Classify sorts errors. nil means DefaultClassifier.
	Classify Classifier
	// Idempotency says whether the operation may be sent again. nil means Idempotent.
	Idempotency Idempotency
	// Budget bounds the retries of all calls that share it. nil means none.
	Budget Budget
	// WaitOpen makes a call that meets an open [Breaker] inside the policy wait until the
	// circuit may be tried again, if that fits MaxHint, MaxElapsed and the context's deadline;
	// else, and by default, it ends the call. What the breaker refuses counts as no attempt, and
	// takes nothing from the budget.
	WaitOpen bool
	// Healthy is how long a run under Keep must last for the schedule to start again. 0
	// means 2 minutes, a negative number that every run is healthy.
	Healthy time.Duration
	// Observer is told of retries, reconnects and ends. nil means none.
	Observer Observer
	// Rand draws the numbers for jitter, uniformly from [0,1). It must be safe for
	// concurrent use. nil means math/rand/v2.
	Rand func() float64
}

// Do calls op until it succeeds, may not be repeated, or the policy's limits are
// reached, waiting in between; it blocks until then. It returns nil as soon as op
// does, even if ctx ended meanwhile, as a result must not be lost. If ctx has ended
// before the first attempt, op is not called.
//
// A definitive error comes back as it is, marked [Permanent]: errors.Is and errors.As see
// through the mark, == does not. Otherwise the error is an [*Error]: it matches op's last
// error, and tells why the call ended. An invalid policy is refused before the first
// attempt, with the error of Validate.
//
// op gets ctx, or a context derived from it where AttemptTimeout or [Keyed] ask for
// one. A panic in op passes through. While op succeeds Do allocates nothing, takes no
// lock, and arms no timer; op stays on the caller's stack.
func (p *Policy) Do(ctx context.Context, op func(context.Context) error) error {
	if p.watched() || p.guarded() || p.unsound() || ctx.Err() != nil {
		return p.doWatched(ctx, op)
	}
	if err := op(ctx); err != nil {
		return p.redo(ctx, op, err)
	}
	return nil
}

// doWatched is Do where something has to be done before or after the first attempt.
func (p *Policy) doWatched(ctx context.Context, op func(context.Context) error) error {
	if p.elaborate() || ctx.Err() != nil {
		return p.do(ctx, op)
	}
	if err := op(ctx); err != nil {
		return p.redo(ctx, op, err)
	}
	if !p.tryPay() {
		p.pay()
	}
	if p.Observer != nil {
		p.notifyFirst(ctx)
	}
	return nil
}

// pay tells a budget that was not asked of a first attempt that succeeded. Where tryPay
// did that, there is nothing left to do.
func (p *Policy) pay() { p.Budget.(*RetryBudget).earned.Add() }

func (p *Policy) tryPay() bool {
	b, ok := p.Budget.(*RetryBudget)
	return !ok || b.earned.TryAdd()
}

// notifyFirst tells the observer of a first attempt that succeeded. It is kept out of its
// callers, as notifyRetry is out of next.
//
//go:noinline
func (p *Policy) notifyFirst(ctx context.Context) {
	p.Observer.tell(ctx, &Event{Kind: EventSuccess, Name: p.Name, Attempt: 1, MaxAttempts: p.maxAttempts()})
}

// Wrap returns op under the policy, for those who want a function.
func (p *Policy) Wrap(op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return p.Do(ctx, op) }
}

// elaborate reports whether a call needs anything done before its first attempt. The
// ways of running ask its parts, which are small enough to be inlined.
func (p *Policy) elaborate() bool { return p.guarded() || p.demanding() || p.unsound() }

func (p *Policy) guarded() bool {
	return p.AttemptTimeout != nil || p.Idempotency != nil || p.MaxElapsed > 0
}

// watched reports whether anybody is to be told of a success.
func (p *Policy) watched() bool { return p.Budget != nil || p.Observer != nil }

func (p *Policy) demanding() bool { return p.Budget != nil && !undemanding(p.Budget) }

// unsound reports whether Validate has something to say of Schedule or Jitter.
func (p *Policy) unsound() bool {
	return (p.Schedule != nil || p.Jitter != nil) && !sound(p.Schedule, p.Jitter)
}

// undemanding reports whether a budget grants first attempts without being asked.
func undemanding(budget Budget) bool {
	b, ok := budget.(*RetryBudget)
	return ok && b != nil && b.Ratio >= 0 && b.Ratio <= maxRatio && b.Window >= 0 && b.Floor >= 0
}

// do is Do with everything there may be to do.
func (p *Policy) do(ctx context.Context, op func(context.Context) error) error {
	var r Run
	r.policy, r.ctx = p, ctx
	for r.begin() {
		wait, ok := r.Retry(r.call(op))
		if !ok || !r.sleep(wait) {
			break
		}
	}
	return r.err
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

// redo goes on after a first failure under a policy that is not elaborate.
func (p *Policy) redo(ctx context.Context, op func(context.Context) error, err error) error {
	if m, ok := err.(*marked); ok && m.class == ClassPermanent && !p.watched() && ctx.Err() == nil {
		return err // to which all that follows would come
	}
	r := runs.Get().(*Run)
	r.policy, r.ctx, r.number = p, ctx, 1
	r.opened, r.running, r.booked = true, true, p.Budget != nil
	for {
		switch wait, ok := r.fail(err); {
		case !ok:
			return r.discard()
		case wait == 0 && !r.booked: // begin, less what fail has just looked at
			r.number++
			r.running, r.slept = true, 0
		case !r.sleep(wait) || !r.begin():
			return r.err // not put back: after a mass cancellation the pool would hold them all
		}
		if !r.held() {
			err = op(r.ctx)
		} else {
			err = r.call(op)
		}
		if err == nil {
			r.succeed()
			return r.discard()
		}
	}
}

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

// Start returns a new [Run], for callers that cannot give their operation away as a
// function.
func (p *Policy) Start(ctx context.Context) *Run { return &Run{policy: p, ctx: ctx} }

// Delay returns a wait before the given retry, counted from 1, jittered and bounded by
// MaxDelay; 0 for numbers below 1. It is the func(int) time.Duration that many
// clients take. Every call draws afresh and as if it were the first of its kind, so
// a jitter that looks at the previous wait loses its memory here.
func (p *Policy) Delay(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	return p.jittered(delayOf(p.Schedule, retry), 0)
}

// Retryable reports whether an error is of a class that may be retried; false for
// nil. It is the func(error) bool that many clients take.
func (p *Policy) Retryable(err error) bool {
	return judge(p.Classify, err).class.Retryable()
}

// Decide is the policy for a loop that keeps its own count: whether to make the
// given retry, counted from 1 (and taken as 1 below), after err, and after what wait.
// It knows the limit of attempts, classes, hints, and the schedule, but neither time
// nor budget; for those see [Policy.Start].
func (p *Policy) Decide(retry int, err error) (wait time.Duration, again bool) {
	v := judge(p.Classify, err)
	retry = max(retry, 1)
	if !v.class.Retryable() || p.spent(retry) || p.overlong(v.hint) ||
		p.Idempotency != nil && !p.Idempotency.Repeatable(context.Background(), v.class) {
		return 0, false
	}
	return p.hinted(p.jittered(delayOf(p.Schedule, retry), 0), v.hint), true
}

// Validate says what is wrong with the policy, naming the field and its value, or
// returns nil. Every way of running a call asks it first; Delay, Decide and Retryable,
// which have no way to return an error, do not.
func (p *Policy) Validate() error {
	if err := checkSchedule("Policy.Schedule", p.Schedule); err != nil {
		return err
	}
	if err := checkSchedule("Policy.AttemptTimeout", p.AttemptTimeout); err != nil {
		return err
	}
	if isImpossible(p.Jitter) {
		return invalid("Policy.Jitter", "has impossible bounds: DecorrelatedJitter wants 0 <= base <= max, UniformJitter 0 <= lo <= hi, AddedJitter 0 or more, SlottedJitter more than 0")
	}
	return validate(p.Budget)
}

// spent reports whether so many attempts are all that are allowed.
func (p *Policy) spent(attempts int) bool {
	limit := p.maxAttempts()
	return limit > 0 && attempts >= limit
}

func (p *Policy) maxAttempts() int {
	switch {
	case p.Idempotency != nil && p.Idempotency == NeverRetry:
		return 1
	case p.MaxAttempts == 0:
		return defaultMaxAttempts
	}
	return p.MaxAttempts
}

func (p *Policy) overlong(h hint) bool {
	limit := p.maxHint()
	return h.given && limit > 0 && h.after > limit
}

func (p *Policy) maxHint() time.Duration {
	if p.MaxHint == 0 {
		return defaultMaxHint
	}
	return p.MaxHint
}

// jittered turns a delay into a wait.
func (p *Policy) jittered(delay, prev time.Duration) time.Duration {
	switch {
	case p.Jitter != nil:
		if isNoJitter(p.Jitter) && p.MaxDelay <= 0 {
			return delay // without a draw: there is nothing to spread
		}
		return p.with(delay, prev, p.draw())
	case delay == 0:
		return 0
	case p.Rand != nil || p.MaxDelay > 0:
		return p.with(delay, prev, p.draw())
	}
	wait, _ := bits.Mul64(mathrand.Uint64(), uint64(delay)) // FullJitter, in integers
	return time.Duration(wait)
}

// with is jittered for the given draw.
func (p *Policy) with(delay, prev time.Duration, u float64) time.Duration {
	var wait time.Duration
	if p.Jitter == nil {
		wait = FullJitter(delay, prev, u)
	} else {
		wait = max(0, p.Jitter(delay, prev, u))
	}
	if p.MaxDelay > 0 {
		wait = min(wait, p.MaxDelay)
	}
	return wait
}

// hinted stretches a wait to what a server asked for, and beyond it by the longer of
// the policy's own wait and a random part of a tenth of the hint.
func (p *Policy) hinted(wait time.Duration, h hint) time.Duration {
	switch {
	case !h.given:
		return wait
	case h.exact:
		return h.after
	}
	return saturatingAdd(h.after, max(wait, scale(h.after/10, p.draw())))
}

func (p *Policy) draw() float64 {
	if p.Rand == nil {
		return mathrand.Float64()
	}
	return unit(p.Rand())
}

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
	factor  float64       // of the wait, by WithPatience; 0 as long as nobody asked
	slept   time.Duration // before the attempt under way, if anybody observes
	told    int           // the attempt after which another one was announced
	number  int           // of attempts begun
	paid    int           // of these, by Progress
	step    int           // retries since the schedule began
	timer   *time.Timer   // from the first wait to the end
	ticket  Ticket
	booked  bool       // the ticket is out
	opened  bool       // the first attempt was asked for
	running bool       // an attempt is under way
	failed  bool       // Fail was called for it
	endless bool       // the context has no deadline, as it said when the clock was first read
	real    bool       // the clock has monotonic readings: no bubble of testing/synctest
	cut     bool       // the last attempt, by AttemptTimeout
	late    bool       // it, or by whoever else keeps its time; for Budget
	barred  *OpenError // by which the last attempt was refused
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
		r.ticket, _, r.booked = r.policy.Budget.Reserve(Attempt{Number: 1, Kind: KindFirst})
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
	b, ok := r.policy.Budget.(Departures)
	if !ok || b.Depart(r.ticket) {
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
	wait, why := r.reserve(Attempt{Number: 1, Kind: KindFirst, Now: r.now}, 0)
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
		return v.hint.after, ReasonHint
	}
	r.step++
	delay := delayOf(p.Schedule, r.step)
	wait := p.jittered(delay, r.prev)
	r.prev = wait
	if wait > 0 && r.factor != 1 {
		wait = r.impatient(wait)
	}
	if v.hint.given {
		wait = p.hinted(wait, v.hint)
		if v.hint.exact {
			r.step, r.prev = 0, 0
		}
	}
	if (r.endless || wait == 0 && r.began.IsZero()) && !p.watched() && !p.guarded() {
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
	if r.patience() == 1 {
		return wait
	}
	wait = scale(wait, r.factor)
	if r.policy.MaxDelay > 0 {
		wait = min(wait, r.policy.MaxDelay)
	}
	return wait
}

// patience asks the context once: it goes through all the contexts that there are.
func (r *Run) patience() float64 {
	if r.factor == 0 {
		r.factor = patience(r.ctx)
	}
	return r.factor
}

// notifyRetry is kept out of next, and notifyGiveUp out of end, because an Event is
// large, and a call that waits or is cancelled has no room for one on its stack.
//
//go:noinline
func (r *Run) notifyRetry(v *verdict, delay, wait time.Duration) {
	r.told = r.number
	r.notify(&Event{Kind: EventRetry, Err: r.last, Class: v.class, Delay: delay, Wait: wait, Hint: v.hint.after})
}

// meetOpen is next where a breaker refused. The refusal was no attempt.
func (r *Run) meetOpen(h hint) (time.Duration, Reason) {
	p := r.policy
	r.number--
	switch {
	case !p.WaitOpen:
		return h.after, ReasonOpen
	case p.overlong(h):
		return h.after, ReasonHint
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
	a := Attempt{Number: r.number + 1, Kind: KindRetry, Now: r.now}
	if r.number == 0 {
		a.Kind = KindFirst
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
	return r.reserve(Attempt{Number: r.number + 1, Kind: KindRetry, Class: c, TimedOut: r.late, Now: r.now}, wait)
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
	a.Patience = r.patience()
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
	r.arm(wait)
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

// arm sets the call's timer. It has the same one for all its waits.
func (r *Run) arm(wait time.Duration) {
	if r.timer != nil {
		r.timer.Reset(wait)
	} else {
		r.timer = timerFor(wait, r.real)
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

func endOf(err error) Reason {
	if err == context.DeadlineExceeded {
		return ReasonDeadline
	}
	return ReasonCanceled
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
		Name:     r.policy.Name,
		Attempts: r.number - r.paid,
		Reason:   why,
		Last:     r.last,
		Hint:     r.hint.after,
		ctx:      r.ctx,
		wait:     wait,
		timedOut: r.cut,
		open:     r.barred,
		single:   r.policy.maxAttempts() == 1,
	}
	switch why {
	case ReasonElapsed:
		e.limit = r.policy.MaxElapsed
	case ReasonHint:
		e.limit = r.policy.maxHint()
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
		e.Hint = gave.Hint
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
