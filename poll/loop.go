package poll

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/timeouts"
)

const (
	defaultMaxAttempts = 4
	withoutEnd         = -1 // as a MaxElapsed
	leastInterval      = 100 * time.Millisecond
)

// A poll is a [backoff.Run] to which a check that says "not yet" is an attempt
// that failed. It stands between the Run and the caller's budget and observer, to
// which it reports a success instead.
type poll struct {
	backoff.BudgetDefaults

	policy   backoff.Policy   // the caller's
	rules    backoff.Policy   // the Run's
	tell     backoff.Observer // the caller's
	timeouts backoff.Schedule // of the checks; nil if there are none

	failed int       // number of failed checks in a row, the last one included
	inRow  int       // 1 more than the failed checks before the last check
	last   verdict   // of the last check
	result error     // of a check that was done
	began  time.Time // the last check

	ask  backoff.Attempt // for which the budget is asked when the wait is over
	due  bool            // there is such an attempt
	held bool            // the budget waits for a ticket
}

func newPoll(policy backoff.Policy) *poll {
	p := &poll{
		policy:   policy,
		rules:    policy,
		timeouts: timeouts.Of(&policy),
	}
	r := &p.rules
	r.MaxAttempts = -1 // the poll counts itself
	r.Schedule = p.spaced(r.Schedule, false)
	r.ByClass = make(map[backoff.Class]backoff.ClassLimits)
	r.Classify = p.classify
	r.Idempotency = nil
	r.ShortenLastWait = true
	r.AttemptTimeout, r.AttemptTimeoutSchedule = 0, nil // or the check at MaxElapsed would have no time
	if r.MaxElapsed <= 0 {
		r.MaxElapsed = math.MaxInt64
	}
	if r.Jitter == nil {
		r.Jitter = backoff.EqualJitter
	}
	if r.Budget != nil {
		r.Budget = p
	}
	if r.Observer != nil {
		p.tell = r.Observer
		r.Observer = p.observe
	}
	return p
}

// until is Until. It calls answered after each check that answered.
func until(ctx context.Context, policy backoff.Policy, check func(context.Context) (bool, error), answered func()) error {
	p := newPoll(policy)
	if err := p.refuse(ctx); err != nil {
		return err
	}
	run := p.rules.Start(ctx)
	for range run.Attempts() {
		err := p.check(ctx, check)
		if p.last == pending || p.last == final {
			answered()
		}
		if err == nil {
			return nil // to leave the loop is success
		}
		p.setLimits()
		run.Fail(p.inexact(err))
	}
	if p.result != nil {
		return p.result
	}
	err := run.Err()
	if gave, ok := err.(*backoff.Error); ok && gave.RetryableError() { // the Run allowed one attempt, the policy a poll
		err = backoff.Policy{MaxAttempts: -1}.GiveUp(ctx, *gave)
	}
	return err
}

// check makes a check, and returns its error as the Run should see it: nil if
// the check was done.
func (p *poll) check(ctx context.Context, check func(context.Context) (bool, error)) error {
	p.last, p.inRow, p.began = nothing, p.failed+1, clock.Now()
	attempt, cancel := p.limitTime(ctx)
	defer cancel()
	done, err := check(attempt)
	if done {
		p.last, p.result = final, err
		err = backoff.Permanent(err)
	} else if notYet := asNotYet(err); notYet != nil {
		p.last, err = pending, notYet
		if ctx.Err() != nil { // the Run takes any other error for one that the end of ctx caused
			err = backoff.Permanent(err)
		}
	} else {
		p.last = failure // for the classifier
		p.last, err = p.judge(err, timedOut(attempt, err))
	}
	switch p.last {
	case refusal:
	case pending:
		p.failed = 0
	default:
		p.failed++
	}
	return err
}

// limitTime returns the context of a check.
func (p *poll) limitTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.timeouts != nil {
		if limit := p.timeouts.Delay(p.inRow); limit > 0 {
			return context.WithTimeoutCause(ctx, limit, backoff.ErrAttemptTimeout)
		}
	}
	return ctx, func() {}
}

// limit returns how many checks in a row may fail. c is the class of the last
// one, if it failed. A negative number means no limit.
func (p *poll) limit(c backoff.Class) int {
	most := limits.Or(p.policy.MaxAttempts, defaultMaxAttempts)
	if p.last == failure {
		most = limits.Or(p.policy.ByClass[c].MaxAttempts, most)
	}
	return most
}

// spaced returns a schedule for the Run, nil for nil. That of a class counts the
// failed checks in a row. A delay of 0 becomes what leastInterval leaves after the
// check.
func (p *poll) spaced(s backoff.Schedule, ofClass bool) backoff.Schedule {
	if s == nil {
		return nil
	}
	return backoff.ScheduleFunc(func(n int) time.Duration {
		if ofClass {
			n = p.failed
		}
		return cmp.Or(max(0, s.Delay(n)), p.rest())
	})
}

// rest returns how long to wait if nothing asks for a wait.
func (p *poll) rest() time.Duration { return leastInterval - clock.Now().Sub(p.began) }

// inexact returns the error of a check without a [backoff.RetryExactlyAfter] that
// would make the poll spin: it becomes a [backoff.RetryAfter].
func (p *poll) inexact(err error) error {
	if after, ok := backoff.RetryAfterOf(err); ok && after < p.rest() && p.last != final {
		return backoff.RetryAfter(err, after)
	}
	return err
}

// setLimits sets what follows the last check. The Run knows the class
// of a failure, and counts all checks; so its limit is 1 once enough have
// failed.
func (p *poll) setLimits() {
	clear(p.rules.ByClass)
	if p.last != failure {
		return
	}
	for c := backoff.ClassUnknown; c.Retryable(); c++ {
		of := p.policy.ByClass[c]
		own := backoff.ClassLimits{Schedule: p.spaced(of.Schedule, true), Jitter: of.Jitter}
		if most := p.limit(c); most > 0 && p.failed >= most {
			own.MaxAttempts = 1
		}
		p.rules.ByClass[c] = own
	}
}

// refuse returns why there is no first check, or nil, and notifies the observer.
func (p *poll) refuse(ctx context.Context) error {
	err := p.policy.Validate()
	_, bounded := ctx.Deadline()
	switch limit := p.policy.MaxElapsed; {
	case err != nil:
	case limit == 0 && !bounded:
		err = backoff.Permanent(badfield.New("Policy.MaxElapsed",
			"is 0 and the context has no deadline, want one of them, or -1 to poll without end"))
	case limit < withoutEnd:
		err = p.policy.GiveUp(ctx, backoff.Error{Reason: backoff.ReasonElapsed})
	}
	p.policy.Refused(ctx, err)
	return err
}
