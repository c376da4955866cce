package backoff

import (
	"context"
	"math/bits"
	mathrand "math/rand/v2"
	"time"
)

const (
	defaultMaxAttempts   = 4
	defaultMaxRetryAfter = 5 * time.Minute
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
	// before it, which keeps the spread. Hints are bounded by MaxRetryAfter instead. 0 and
	// negative mean no limit.
	MaxDelay time.Duration
	// MaxRetryAfter is the longest wait that a server may ask for. A longer one ends the
	// call. 0 means 5 minutes, a negative one no limit.
	MaxRetryAfter time.Duration
	// Classify sorts errors. nil means DefaultClassifier.
	Classify Classifier
	// Idempotency says whether the operation may be sent again. nil means Idempotent.
	Idempotency Idempotency
	// Budget bounds the retries of all calls that share it. nil means none.
	Budget Budget
	// WaitOpen makes a call that meets an open [Breaker] inside the policy wait until the
	// circuit may be tried again, if that fits MaxRetryAfter, MaxElapsed and the context's deadline;
	// else, and by default, it ends the call. What the breaker refuses counts as no attempt, and
	// takes nothing from the budget.
	WaitOpen bool
	// Healthy is how long a run under Keep must last for the schedule to start again. 0
	// means 2 minutes, a negative number that every run is healthy.
	ResetAfter time.Duration
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

// redo goes on after a first failure under a policy that is not elaborate.
func (p *Policy) redo(ctx context.Context, op func(context.Context) error, err error) error {
	if m, ok := err.(*marked); ok && m.class == ClassPermanent && !p.watched() && ctx.Err() == nil {
		return err // to which all that follows would come
	}
	r := runs.Get().(*Run)
	r.policy, r.ctx, r.number = p, ctx, 1
	r.opened, r.booked = true, p.Budget != nil
	for {
		switch wait, ok := r.fail(err); {
		case !ok:
			return r.discard()
		case wait == 0 && !r.booked: // begin, less what fail has just looked at
			r.number++
			r.slept = 0
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
	limit := p.maxRetryAfter()
	return h.given && limit > 0 && h.after > limit
}

func (p *Policy) maxRetryAfter() time.Duration {
	if p.MaxRetryAfter == 0 {
		return defaultMaxRetryAfter
	}
	return p.MaxRetryAfter
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
