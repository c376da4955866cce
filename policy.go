package backoff

import (
	"context"
	"strconv"
	"time"

	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/force"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultMaxAttempts   = 4
	defaultMaxRetryAfter = 5 * time.Minute
)

// A Policy says when and how often to retry a call. The zero value is safe and
// ready to use.
//
// A Policy is data: calls never write to it, and any number of goroutines may
// share one. Copy it to vary it:
//
//	patient := policy
//	patient.MaxAttempts = 10
type Policy struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name of the operation in errors and events.
	Name string

	// Most attempts of a call, the first included. Defaults to 4; 1 means no
	// retries, negative no limit.
	MaxAttempts int

	// Longest time from the start of a call to the start of its last attempt. 0
	// and negative mean no limit. A call ends early if its next attempt would
	// start later. MaxElapsed interrupts an attempt only if attempts have a
	// timeout: for a timeout of the whole call, give its context a deadline.
	MaxElapsed time.Duration

	// Longest time of an attempt. 0 and negative mean no limit. An attempt that
	// timed out is retried. With a limit, the context of an attempt also ends
	// with MaxElapsed, and when the attempt returns: its result must not depend
	// on that context.
	AttemptTimeout time.Duration

	// Longest time of the n-th attempt: AttemptTimeoutSchedule.Delay(n), where
	// 0 means no limit. Defaults to AttemptTimeout; setting both is invalid.
	AttemptTimeoutSchedule Schedule

	// Delay before each retry. Defaults to Exponential{}. The same delay each
	// time is Constant(100*time.Millisecond).
	Schedule Schedule

	// Schedule, MaxAttempts and Jitter after failures of a class, such as
	// longer waits after ClassThrottled; nil means none. The keys must be
	// classes that may be retried (see [Class.Retryable]). The map must not be
	// written while calls run, and copies of the policy share it.
	//
	// A call may find out only after its first failure that ByClass is invalid.
	// It then ends with an [*Error] that also matches that failure.
	ByClass map[Class]ClassLimits

	// Spread of the delay. Defaults to FullJitter, from 0 up to the delay.
	// EqualJitter waits for half of it at least, NoJitter for all of it.
	Jitter Jitter

	// Longest wait after jitter, unless a server asks for a longer one. 0 and
	// negative mean no limit. The Max of a schedule bounds the delay before
	// jitter.
	MaxDelay time.Duration

	// Longest wait that a server may ask for. Defaults to 5 minutes; negative
	// means no limit. If it asks for more, the call ends; a [Supervisor] waits
	// MaxRetryAfter.
	MaxRetryAfter time.Duration

	// Classifier of errors. Defaults to DefaultClassifier. RetryIf makes a
	// Classifier of a func(error) bool.
	Classify Classifier

	// Rule for sending the operation again. Defaults to Idempotent. Packages
	// that know more have other defaults: backoffhttp asks the request, and
	// backoffsql does not repeat a COMMIT that was not answered.
	Idempotency Idempotency

	// Bound on the retries of all calls that share it, such as &RetryBudget{};
	// nil means none.
	Budget Budget

	// Whether a wait that would pass MaxElapsed is cut short there, for one more attempt.
	// By default the call ends instead. No wait becomes shorter than a server asked for.
	// It has no effect without MaxElapsed, or if attempts have a timeout.
	ShortenLastWait bool

	// Receiver of every retry, every reconnect and the end of every call; nil
	// means none. Other libraries call it OnRetry.
	Observer Observer

	// Source of numbers for jitter, uniform in [0,1). Defaults to math/rand/v2.
	// It must be safe for concurrent use.
	Rand func() float64

	// Whether only an error that the operation has marked, or that Classify
	// names, ends a call, and with an *Error. A Supervisor sets it.
	persists bool
}

// ClassLimits replaces fields of a [Policy] after a failure of one [Class]. The
// zero value replaces none.
type ClassLimits struct {
	_ [0]func() // no unkeyed literals, no ==

	// Delay before the retry that follows. Defaults to Policy.Schedule. All
	// retries of the call count: after two transient failures and a throttled
	// one, it is Schedule.Delay(3) of the throttled class.
	Schedule Schedule

	// Most attempts of the call, if its last one failed with the class.
	// Defaults to Policy.MaxAttempts; negative means no limit. All attempts
	// count, however they failed.
	MaxAttempts int

	// Spread of that delay. Defaults to Policy.Jitter.
	Jitter Jitter
}

// Do calls op until op succeeds, must not be repeated, or a limit of the policy
// is reached. It sleeps between attempts. It returns nil as soon as op does,
// even if ctx has ended meanwhile. If ctx has ended before the first attempt,
// Do does not call op.
//
// A permanent error is returned as op returned it, or as the Last of an [*Error]
// if ctx has ended meanwhile. If Classify finds it permanent and
// DefaultClassifier does not, Do marks it [Permanent], so that policies around
// this one do not retry it; [Cause] removes the mark. Any other error is an
// [*Error], which matches op's last error and says why the call ended. Do
// refuses an invalid policy with the error of Validate, before the first
// attempt; see ByClass for the one exception.
//
// op gets ctx, or a context derived from it for AttemptTimeout and [Keyed]. A
// panic in op passes through. While op succeeds, Do allocates nothing, takes no
// lock and starts no timer.
func (p Policy) Do(ctx context.Context, op func(context.Context) error) error {
	return p.do(ctx, op)
}

// do is Do without a copy of the policy.
func (p *Policy) do(ctx context.Context, op func(context.Context) error) error {
	if !p.simple(ctx) {
		return p.run(ctx, op, nil, time.Time{})
	}
	began := p.startTime()
	err := op(ctx)
	switch {
	case err != nil:
		return p.run(ctx, op, err, began)
	case p.Budget != nil || p.Observer != nil:
		p.tellSuccess(ctx, began)
	}
	return nil
}

// simple reports whether the first attempt needs no Run: there is nothing to
// refuse, to ask or to limit before it.
func (p *Policy) simple(ctx context.Context) bool {
	return !force.On.Load() && p.AttemptTimeout <= 0 && p.AttemptTimeoutSchedule == nil && p.MaxElapsed <= 0 && p.Idempotency == nil &&
		(p.Schedule == nil && p.Jitter == nil || valid(p.Schedule, p.Jitter)) &&
		(p.Budget == nil || !badfield.IsNil(p.Budget) && p.Budget.GrantsFirst()) && ctx.Err() == nil
}

// startTime returns when a call begins, if an observer is to know.
func (p *Policy) startTime() (now time.Time) {
	if p.Observer != nil {
		now = clock.Real()
	}
	return now
}

// tellSuccess tells the budget and the observer that a first attempt succeeded,
// for which Reserve was not called. It is not inlined, because an Event is large and
// its caller waits on its stack.
//
//go:noinline
func (p *Policy) tellSuccess(ctx context.Context, began time.Time) {
	if p.Budget != nil {
		p.Budget.Done(Ticket{}, Result{})
	}
	if p.Observer != nil {
		elapsed := clock.Real().Sub(began)
		p.Observer.Notify(ctx, Event{Kind: EventSuccess, Name: p.Name, Attempt: 1, MaxAttempts: p.maxAttempts(), Elapsed: elapsed})
	}
}

// Wrap returns op under the policy, for callers who want a function.
func (p Policy) Wrap(op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return p.Do(ctx, op) }
}

// Start returns a new [Run] with a copy of the policy, for a loop of the
// caller's own.
func (p Policy) Start(ctx context.Context) *Run {
	return &Run{policy: p, count: count{limit: p.maxAttempts()}, ctx: ctx}
}

// WaitBefore returns a wait before the given retry, counted from 1: the delay
// of Schedule, jittered and bounded by MaxDelay. It is 0 for numbers below 1.
// Each call draws a new wait, and gives the jitter no previous one. ByClass
// does not count, because the failure is not known: see [Policy.Decide]. Many
// clients take such a func(int) time.Duration.
func (p Policy) WaitBefore(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	return p.jittered(p.Jitter, delayOf(p.Schedule, retry), 0)
}

// Retryable reports whether an error is of a class that may be retried, whatever
// Idempotency says. It is false for nil. Many clients take a func(error) bool.
func (p Policy) Retryable(err error) bool {
	return judge(p.Classify, err).class.Retryable()
}

// Validate reports every invalid field with its value, or returns nil. All ways
// of running a call ask it first, but not WaitBefore, Decide and Retryable, which
// cannot return an error.
func (p Policy) Validate() error {
	var both error
	if p.AttemptTimeoutSchedule != nil && p.AttemptTimeout != 0 {
		both = invalid("Policy.AttemptTimeout", "is "+p.AttemptTimeout.String()+" beside an AttemptTimeoutSchedule, want one of them")
	}
	return join(
		checkSchedule("Policy.Schedule", p.Schedule),
		checkSchedule("Policy.AttemptTimeoutSchedule", p.AttemptTimeoutSchedule),
		both,
		p.checkByClass(),
		checkJitter("Policy.Jitter", p.Jitter),
		validate("Policy.Idempotency", p.Idempotency),
		validate("Policy.Budget", p.Budget),
	)
}

// validate is v.Validate, if v has that. A nil pointer is invalid.
func validate(field string, v any) error {
	if badfield.IsNil(v) {
		return invalid(field, badfield.HoldsNil)
	}
	if v, ok := v.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// checkByClass is Validate for ByClass.
func (p *Policy) checkByClass() (wrong error) {
	for class, own := range p.ByClass {
		if class.Retryable() && valid(own.Schedule, own.Jitter) {
			continue
		}
		field := "Policy.ByClass[" + class.String() + "]"
		var final error
		if !class.Retryable() {
			final = invalid(field, "is class "+strconv.Itoa(int(class))+", want one that is retried")
		}
		wrong = join(wrong, final, checkSchedule(field+".Schedule", own.Schedule), checkJitter(field+".Jitter", own.Jitter))
	}
	return wrong
}

// limitsFor returns what holds after a failure of class c.
func (p *Policy) limitsFor(c Class) ClassLimits {
	var own ClassLimits
	if p.ByClass != nil { // to look into nil costs more
		own = p.ByClass[c]
	}
	if own.Schedule == nil {
		own.Schedule = p.Schedule
	}
	if own.Jitter == nil {
		own.Jitter = p.Jitter
	}
	own.MaxAttempts = limits.Or(own.MaxAttempts, p.maxAttempts())
	return own
}

// maxAttempts returns the limit of attempts, negative if there is none.
func (p *Policy) maxAttempts() int { return limits.Or(p.MaxAttempts, defaultMaxAttempts) }

// attemptTimeout returns the time that the n-th attempt may take, 0 for no limit.
func (p *Policy) attemptTimeout(n int) time.Duration {
	if p.AttemptTimeoutSchedule != nil {
		return delayOf(p.AttemptTimeoutSchedule, n)
	}
	return max(0, p.AttemptTimeout)
}

// hasAttemptTimeout reports whether any attempt has a time limit.
func (p *Policy) hasAttemptTimeout() bool {
	return p.AttemptTimeout > 0 || p.AttemptTimeoutSchedule != nil
}
