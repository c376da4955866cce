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
	"github.com/gobackoff/backoff/internal/refused"
	"github.com/gobackoff/backoff/internal/timeouts"
)

const (
	defaultMaxAttempts = 4
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

	failed int           // number of failed checks in a row, the last one included
	inRow  int           // 1 more than the failed checks before the last check
	last   verdict       // of the last check
	class  backoff.Class // of the last check, if it failed
	result error         // of a check that was done
	start  time.Time     // of the poll
	began  time.Time     // the last check

	ask  backoff.Attempt // for which the budget is asked when the wait is over
	due  bool            // there is such an attempt
	held bool            // the budget waits for a ticket
}

func newPoll(policy backoff.Policy) *poll {
	p := &poll{policy: policy, rules: policy, timeouts: timeouts.Of(&policy), start: clock.Now()}
	r := &p.rules
	r.MaxAttempts, r.ByClass, r.Idempotency, r.ShortenLastWait = -1, nil, nil, true // the poll counts itself
	r.Schedule, r.Jitter, r.Classify = backoff.ScheduleFunc(p.delay), p.spread, p.classify
	r.AttemptTimeout, r.AttemptTimeoutSchedule = 0, nil // or the check at MaxElapsed would have no time
	if r.MaxElapsed <= 0 {
		r.MaxElapsed = math.MaxInt64
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
		run.Fail(p.inexact(err))
		if p.usedUp() && ctx.Err() == nil {
			break
		}
	}
	err := run.Err()
	switch {
	case p.result != nil:
		return p.result
	case p.usedUp() && ctx.Err() == nil:
		gave := backoff.Error{Attempts: run.Attempt(), Reason: backoff.ReasonAttempts, Last: err}
		err = p.rules.GiveUp(ctx, gave)
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
		p.class = backoff.Policy{Classify: p.classify, MaxAttempts: 1}.Decide(1, err).Class
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

// usedUp reports whether as many checks in a row have failed as may.
func (p *poll) usedUp() bool {
	most := p.limit(p.class)
	return p.last == failure && most > 0 && p.failed >= most
}

// limits returns what holds after the last check, if that is not what the policy says.
func (p *poll) limits() (own backoff.ClassLimits) {
	if p.last == failure {
		own = p.policy.ByClass[p.class]
	}
	return own
}

// delay is the Schedule of the Run. That of a class counts the failed checks in a
// row. A delay of 0 becomes what leastInterval leaves after the check.
func (p *poll) delay(n int) time.Duration {
	s := p.policy.Schedule
	if own := p.limits().Schedule; own != nil {
		s, n = own, p.failed
	}
	if s == nil {
		s = backoff.Exponential{}
	}
	return cmp.Or(max(0, s.Delay(n)), p.rest())
}

// spread is the Jitter of the Run: half of the delay is sure.
func (p *poll) spread(delay, prev time.Duration, u float64) time.Duration {
	jitter := p.policy.Jitter
	if own := p.limits().Jitter; own != nil {
		jitter = own
	}
	if jitter == nil {
		jitter = backoff.FullJitter
	}
	half := delay / 2
	return limits.Add(jitter(delay-half, prev, u), half)
}

// rest returns how long to wait if nothing asks for a wait.
func (p *poll) rest() time.Duration { return leastInterval - clock.Now().Sub(p.began) }

// inexact returns the error of a check without a [backoff.Pushback] that
// would make the poll spin: it becomes a [backoff.RetryAfter].
func (p *poll) inexact(err error) error {
	if after, ok := backoff.RetryAfterOf(err); ok && after < p.rest() && p.last != final {
		return backoff.RetryAfter(err, after)
	}
	return err
}

// refuse returns why there is no first check, or nil, and notifies the observer.
func (p *poll) refuse(ctx context.Context) error {
	err := p.policy.Validate()
	if _, bounded := ctx.Deadline(); err == nil && p.policy.MaxElapsed == 0 && !bounded {
		err = backoff.Permanent(badfield.New("Policy.MaxElapsed",
			"is 0 and the context has no deadline, want one of them, or -1 to poll without end"))
	}
	if err != nil {
		refused.Tell(ctx, &p.policy, err)
	}
	return err
}
