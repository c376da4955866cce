package backoff

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultMaxAttempts   = 4
	defaultMaxRetryAfter = 5 * time.Minute
)

// A Policy says when and how often to retry a call. The zero value is safe and
// ready to use; every field has a default.
//
// A Policy is data. It holds nothing of the calls made under it, and calls
// never write to it. Any number of goroutines may share one. Copy it to vary
// it:
//
//	patient := policy
//	patient.MaxAttempts = 10
type Policy struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name is the operation, as errors and events should show it.
	Name string
	// MaxAttempts limits the attempts of a call, the first included: it is one
	// more than the MaxRetries of other libraries. 0 means 4, and 1 means no
	// retries. A negative number means no limit: then the context, MaxElapsed
	// or a Budget must end the call. ByClass may set another limit for a class
	// of failures, below or above this one.
	MaxAttempts int
	// MaxElapsed limits the time from the start of a call to the start of its
	// last attempt. A call does not wait for a retry that would start later. A
	// retry that would start exactly then is made, unless an attempt timeout
	// would leave it no time. MaxElapsed does not interrupt an attempt: for a
	// timeout of the whole call, give its context a deadline. 0 and negative
	// mean no limit. So do not set it to what is left of a time, which may be
	// nothing: make the end of that time the deadline of the context.
	MaxElapsed time.Duration
	// AttemptTimeout limits the time of each attempt, as the per-try timeout
	// of Envoy does. The attempt's context ends after it, or when MaxElapsed
	// is over if that is sooner. An attempt that its timeout ended is retried;
	// one that the caller's context ended is not. The context of an attempt is
	// cancelled when the attempt returns, so what the attempt returns must not
	// depend on it. A little above the 99.5th percentile of what the operation
	// takes is a good limit. 0 and negative mean no limit.
	AttemptTimeout time.Duration
	// AttemptTimeoutSchedule limits the time of the n-th attempt to
	// AttemptTimeoutSchedule.Delay(n), for timeouts that grow. A delay of 0
	// means no limit. nil means AttemptTimeout; setting both is invalid.
	AttemptTimeoutSchedule Schedule
	// Schedule is the delay before each retry. The same delay every time is
	// Constant(100*time.Millisecond); a time.Duration alone is not a Schedule.
	// nil means Exponential{}.
	Schedule Schedule
	// ByClass has another Schedule, MaxAttempts or Jitter for what follows a
	// failure of a class: as a rule longer waits and more attempts
	// after ClassThrottled. A class that it does not have is treated as
	// the fields of the policy say. MaxDelay, what a server asks for and all
	// other limits apply as always. A key must be a class that may be
	// retried; ClassUnknown is one.
	//
	// A Do or Attempts that has nothing else to check reads it only
	// after an attempt has failed. It then ends the call with an [*Error] that
	// matches the attempt's and says what Validate says. A copy of the policy
	// shares the map, which must not be written while calls run: to vary it, set
	// another map. nil means none.
	ByClass map[Class]ClassLimits
	// Jitter spreads the delay. nil means FullJitter, from 0 up to the delay. With
	// EqualJitter, from its half, the waits grow; NoJitter waits for the delay.
	Jitter Jitter
	// MaxDelay bounds the wait, after jitter. The Max of a schedule bounds the
	// delay before jitter, which keeps the spread. MaxDelay does not shorten
	// the wait that a server asked for. 0 and negative mean no limit.
	MaxDelay time.Duration
	// MaxRetryAfter is the longest wait that a server may ask for. If it asks
	// for more, the call ends; a [Supervisor] waits that long instead. 0 means 5
	// minutes, a negative value no limit.
	MaxRetryAfter time.Duration
	// Classify sorts errors into classes. If you have a func(error) bool that
	// says whether to retry, set RetryIf(isTransient). nil means
	// DefaultClassifier.
	Classify Classifier
	// Idempotency says whether the operation may be sent again. nil means
	// Idempotent to Do, but not to packages that know more: backoffhttp then asks
	// the request, and backoffsql does not repeat a COMMIT without an answer.
	Idempotency Idempotency
	// Budget bounds the retries of all calls that share it, as &RetryBudget{}
	// does: a pointer, because calls share its state. nil means none.
	Budget Budget
	// ShortenLastWait makes a wait that would pass MaxElapsed end with it, for
	// one more attempt at the end. By default the call ends at once instead. No
	// wait becomes shorter than a server asked for. It does nothing without
	// MaxElapsed, nor with an attempt timeout, which would leave that attempt
	// no time.
	ShortenLastWait bool
	// Observer is called for every retry, every reconnect and the end of every
	// call. It is what other libraries call OnRetry. nil means none.
	Observer Observer
	// Rand draws the numbers for jitter, uniformly from [0,1). It must be safe
	// for concurrent use. nil means math/rand/v2.
	Rand func() float64

	// persists says that only an error that the operation has marked, or that Classify
	// names, ends a call, and with an *Error. A Supervisor sets it.
	persists bool
}

// ClassLimits is what a [Policy] does after a failure of one [Class], in place
// of what it does after others. The zero value changes nothing.
type ClassLimits struct {
	_ [0]func() // no unkeyed literals, no ==

	// Schedule is the delay before the retry that follows the failure. It gets
	// the number that Policy.Schedule would get, which counts the retries of the
	// call and not the failures of the class: after two transient failures the
	// first throttled one is followed by Schedule.Delay(3). nil means
	// Policy.Schedule.
	Schedule Schedule
	// MaxAttempts limits the attempts of the call, however the earlier ones
	// failed, if the last one failed with the class. With 10 here and 3 in the
	// policy, a call goes on after its fifth attempt was throttled, and ends
	// after its fifth attempt failed otherwise. 0 means Policy.MaxAttempts. A
	// negative number means no limit, as there.
	MaxAttempts int
	// Jitter spreads the delay before the retry that follows the failure. nil
	// means Policy.Jitter.
	Jitter Jitter
}

// Do calls op until op succeeds, must not be repeated, or a limit of the policy
// is reached. It waits between attempts, and blocks until the call is over. It
// returns nil as soon as op does, even if ctx has ended meanwhile: a result
// must not be lost. If ctx has ended before the first attempt, Do does not call
// op.
//
// A definitive error is returned as op returned it. If Classify finds it
// permanent and DefaultClassifier does not, Do marks it [Permanent], so that
// policies around this one do not retry it; [Cause] removes the mark. Any
// other error is an [*Error]. It matches op's last error, and says why the
// call ended. Do refuses an invalid policy with the error of Validate, before
// the first attempt; see ByClass for the one exception.
//
// op gets ctx, or a context derived from it where AttemptTimeout or [Keyed]
// need one. A panic in op passes through. While op succeeds, Do allocates
// nothing, takes no lock and starts no timer; op stays on the caller's stack.
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
	return p.AttemptTimeout <= 0 && p.AttemptTimeoutSchedule == nil && p.MaxElapsed <= 0 && p.Idempotency == nil &&
		(p.Schedule == nil && p.Jitter == nil || valid(p.Schedule, p.Jitter)) &&
		(p.Budget == nil || p.Budget.GrantsFirst()) && ctx.Err() == nil
}

// startTime returns when a call begins, if an observer is to know.
func (p *Policy) startTime() (now time.Time) {
	if p.Observer != nil {
		now = clock.Now()
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
		elapsed := clock.Now().Sub(began)
		p.Observer.Notify(ctx, Event{Kind: EventSuccess, Name: p.Name, Attempt: 1, MaxAttempts: p.maxAttempts(), Elapsed: elapsed})
	}
}

// Wrap returns op under the policy, for callers who want a function.
func (p Policy) Wrap(op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return p.Do(ctx, op) }
}

// Start returns a new [Run], for callers that cannot pass their operation as a
// function. The Run holds a copy of the policy.
func (p Policy) Start(ctx context.Context) *Run {
	return &Run{policy: p, count: count{limit: p.maxAttempts()}, ctx: ctx}
}

// WaitBefore returns a wait before the given retry, counted from 1, jittered and
// bounded by MaxDelay; 0 for numbers below 1. It knows Schedule and not ByClass,
// because it does not know the failure: see [Policy.Decide]. Many clients take such a
// func(int) time.Duration. Every call draws again, and as if it were the first
// retry of its call, so a jitter that looks at the previous wait sees none.
func (p Policy) WaitBefore(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	return p.jittered(p.Jitter, delayOf(p.Schedule, retry), 0)
}

// Retryable reports whether an error is of a class that may be retried. It is
// false for nil. Many clients take such a func(error) bool.
func (p Policy) Retryable(err error) bool {
	return judge(p.Classify, err).class.Retryable()
}

// Validate reports every field that has a value it must not have, and that
// value, or returns nil. Every way of running a call asks it first. WaitBefore,
// Decide and Retryable do not, because they cannot return an error.
func (p Policy) Validate() error {
	var both error
	if p.AttemptTimeoutSchedule != nil && p.AttemptTimeout != 0 {
		both = invalid("Policy.AttemptTimeout", "is "+p.AttemptTimeout.String()+" beside an AttemptTimeoutSchedule, want one of them")
	}
	return errors.Join(
		checkSchedule("Policy.Schedule", p.Schedule),
		checkSchedule("Policy.AttemptTimeoutSchedule", p.AttemptTimeoutSchedule),
		both,
		p.checkByClass(),
		checkJitter("Policy.Jitter", p.Jitter),
		validate(p.Budget),
	)
}

// validate is v.Validate, if v has that.
func validate(v any) error {
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
		wrong = errors.Join(wrong, final, checkSchedule(field+".Schedule", own.Schedule), checkJitter(field+".Jitter", own.Jitter))
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

// limitReached reports whether so many attempts are all that a limit allows.
func limitReached(attempts, limit int) bool { return limit > 0 && attempts >= limit }

// maxAttempts returns the limit of attempts, negative if there is none.
func (p *Policy) maxAttempts() int { return limits.Or(p.MaxAttempts, defaultMaxAttempts) }

// timeLimit returns the time that the n-th attempt may take, 0 for no limit.
func (p *Policy) timeLimit(n int) time.Duration {
	if p.AttemptTimeoutSchedule != nil {
		return delayOf(p.AttemptTimeoutSchedule, n)
	}
	return max(0, p.AttemptTimeout)
}

// limitsTime reports whether any attempt has a time limit.
func (p *Policy) limitsTime() bool { return p.AttemptTimeout > 0 || p.AttemptTimeoutSchedule != nil }
