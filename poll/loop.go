package poll

import (
	"context"
	"math"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/timeouts"
)

const defaultMaxAttempts = 4

// A poll is a [backoff.Run] to which a look that says "not yet" is an attempt
// that failed. It stands between the Run and the caller's budget and observer,
// which hear of an answer instead.
type poll struct {
	policy   backoff.Policy   // the caller's
	rules    backoff.Policy   // the Run's
	tell     backoff.Observer // the caller's
	timeouts backoff.Schedule // of the looks; nil if there are none
	most     int              // failed looks in a row, negative for no limit
	began    time.Time

	looks  int   // made, without those that a breaker refused
	failed int   // in a row, the last one included
	row    int   // the place of the last look in such a row, from 1
	saw    view  // what the last look saw
	result error // of a look that was done, or of a poll whose looks failed too often in a row

	ask  backoff.Attempt // for which the budget is asked when the wait is over
	due  bool            // there is such an attempt
	held bool            // the budget waits for a ticket
}

func newPoll(policy backoff.Policy) *poll {
	p := &poll{
		policy:   policy,
		rules:    policy,
		timeouts: timeouts.Of(&policy),
		most:     limits.Or(policy.MaxAttempts, defaultMaxAttempts),
		began:    clock.Now(),
	}
	r := &p.rules
	r.MaxAttempts = -1 // the poll counts itself
	r.Classify = p.classify
	r.Idempotency = nil
	r.WaitOpen, r.ShortenLastWait = true, true
	r.AttemptTimeout, r.AttemptTimeoutSchedule = 0, nil // or the look at MaxElapsed would have no time
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
		p.tell = backoff.JoinObservers(r.Observer) // contains its panics
		r.Observer = p.observe
	}
	return p
}

// until is Until. It calls answered after each look that answered.
func until(ctx context.Context, policy backoff.Policy, look func(context.Context) (bool, error), answered func()) error {
	p := newPoll(policy)
	if err := p.check(ctx); err != nil {
		return err
	}
	run := p.rules.Start(ctx)
	for range run.Attempts() {
		err := p.look(ctx, look)
		if p.saw == pending || p.saw == final {
			answered()
		}
		if err == nil {
			return nil // to leave the loop is success
		}
		run.Fail(err)
		if p.spent() && ctx.Err() == nil {
			p.result = p.exhausted(err)
			break // the Run tells of an end
		}
	}
	if p.result != nil {
		return p.result
	}
	return run.Err()
}

// look makes a look, and returns its error as the Run should see it: nil if the
// look was done.
func (p *poll) look(ctx context.Context, look func(context.Context) (bool, error)) error {
	p.saw, p.row = nothing, p.failed+1
	attempt, cancel := p.limitTime(ctx)
	defer cancel()
	done, err := look(attempt)
	if done {
		p.saw, p.result = final, err
		err = backoff.Permanent(err)
	} else if notYet := asNotYet(err); notYet != nil {
		p.saw, err = pending, notYet
		if ctx.Err() != nil { // the Run takes any other error for one that the end of ctx caused
			err = backoff.Permanent(err)
		}
	} else {
		p.saw = failure // for the classifier
		p.saw, err = p.judge(err, timedOut(attempt, err))
	}
	switch p.saw {
	case refusal:
		return err
	case pending:
		p.failed = 0
	default:
		p.failed++
	}
	p.looks++
	return err
}

// limitTime returns the context of a look.
func (p *poll) limitTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.timeouts != nil {
		if limit := p.timeouts.Delay(p.row); limit > 0 {
			return context.WithTimeoutCause(ctx, limit, backoff.ErrAttemptTimeout)
		}
	}
	return ctx, func() {}
}

// spent reports whether as many looks in a row have failed as may.
func (p *poll) spent() bool { return p.saw == failure && p.most > 0 && p.failed >= p.most }

// exhausted is the error of a poll that MaxAttempts ends. last is that of the
// last look.
func (p *poll) exhausted(last error) error {
	var err error = &backoff.Error{
		Name:     p.policy.Name,
		Attempts: p.looks,
		Elapsed:  clock.Since(p.began),
		Reason:   backoff.ReasonAttempts,
		Last:     last,
	}
	if after, asked := backoff.RetryAfterOf(last); asked {
		err = backoff.RetryAfter(err, after)
	}
	return err
}

// check returns what is wrong with the policy, and tells the observer.
func (p *poll) check(ctx context.Context) error {
	err := p.policy.Validate()
	if _, bounded := ctx.Deadline(); err == nil && !bounded && p.policy.MaxElapsed == 0 {
		err = backoff.Permanent(badfield.New("Policy.MaxElapsed",
			"is 0 and the context has no deadline, want one of them, or a negative MaxElapsed to poll without end"))
	}
	if err != nil && p.tell != nil {
		p.tell(ctx, backoff.Event{
			Kind:        backoff.EventGiveUp,
			Class:       backoff.ClassPermanent,
			Reason:      backoff.ReasonInvalid,
			Name:        p.policy.Name,
			MaxAttempts: p.most,
			Err:         err,
		})
	}
	return err
}
