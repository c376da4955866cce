package plug

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/retryafter"
)

var (
	errNoPolicy  = backoff.Permanent(errors.New("backoff: plug: the policy is nil"))
	errUnbounded = backoff.Permanent(errors.New("backoff: plug: the policy has no limit of attempts and the context no deadline: set MaxAttempts, or give the call a deadline"))
)

// rule is a policy as the loop of somebody else can follow it.
type rule struct {
	policy backoff.Policy // a copy
	waits  backoff.Policy // the same, for Decide: the loop keeps the count, and the context
	err    error          // why it cannot be obeyed
}

func ruleOf(p *backoff.Policy) rule {
	if p == nil {
		return rule{err: errNoPolicy}
	}
	r := rule{policy: *p, waits: *p, err: p.Validate()}
	r.waits.MaxAttempts, r.waits.Idempotency = -1, nil
	return r
}

// attempts is how many a call may have; negative if there is no limit.
func (r *rule) attempts() int {
	switch {
	case r.err != nil || r.policy.Idempotency == backoff.NeverRetry:
		return 1
	case r.policy.MaxAttempts == 0:
		return 4
	}
	return r.policy.MaxAttempts
}

// refusal says why a call must not begin.
func (r *rule) refusal(ctx context.Context) error {
	if r.err != nil {
		return r.err
	}
	if _, bounded := ctx.Deadline(); !bounded && r.attempts() < 0 {
		return errUnbounded
	}
	return nil
}

// class is what the policy makes of an error. It is ClassUnknown only if nothing is
// known; then a client's loop, of which nobody has said that its calls fail
// transiently, goes no further.
func (r *rule) class(err error) backoff.Class {
	if r.policy.Classify != nil && err != nil {
		own := r.policy.Classify(err)
		if own != backoff.ClassUnknown && own.Retryable() == r.policy.Retryable(err) { // else a mark stands above it
			return own
		}
	}
	return backoff.DefaultClassifier(err)
}

// retryable reports whether the class of err allows another attempt, and its hint.
func (r *rule) retryable(err error) bool {
	if r.err != nil || err == nil {
		return false
	}
	class := r.class(err)
	if class == backoff.ClassUnknown || !class.Retryable() || r.attempts() == 1 {
		return false
	}
	_, again := r.waits.Decide(1, err)
	return again
}

// repeatable reports whether the operation may be sent again after err.
func (r *rule) repeatable(ctx context.Context, err error) bool {
	said := r.policy.Idempotency
	return said == nil || said.Repeatable(ctx, r.class(err))
}

// delay is the wait before a retry, counted from 1, whatever number a client comes with.
func (r *rule) delay(retry int) time.Duration {
	return r.waits.Delay(max(retry, 1))
}

// outcome is what a budget is told of an attempt.
func (r *rule) outcome(ctx context.Context, err error) backoff.Outcome {
	switch {
	case err == nil:
		return backoff.OutcomeSuccess
	case ctx.Err() != nil:
		return backoff.OutcomeCanceled
	}
	switch r.class(err) {
	case backoff.ClassPermanent:
		return backoff.OutcomeDefinitive
	case backoff.ClassThrottled, backoff.ClassOverloaded:
		return backoff.OutcomeThrottled
	}
	return backoff.OutcomeTransient
}

// rest sleeps, and returns what ended the sleep before its time.
func rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fromOne turns a number that counts retries from 0 into one that counts from 1.
func fromOne(retry int) int {
	if retry < 0 {
		return 1
	}
	return min(retry, math.MaxInt-1) + 1
}

// FromZero adapts a function that counts retries from 1, such as [backoff.Policy.Delay],
// to a client that counts them from 0. A negative number means the first retry.
func FromZero(delay func(retry int) time.Duration) func(retry int) time.Duration {
	return func(retry int) time.Duration { return delay(fromOne(retry)) }
}

// answer is a response of HTTP as an error.
type answer struct{ resp *http.Response }

func (a *answer) Error() string {
	if a.resp.Status != "" {
		return "status " + a.resp.Status
	}
	return "status " + http.StatusText(a.resp.StatusCode)
}

// HTTPStatusCode is read by [backoff.DefaultClassifier].
func (a *answer) HTTPStatusCode() int { return a.resp.StatusCode }

// ResponseHeader returns the header without naming a type of net/http.
func (a *answer) ResponseHeader() map[string][]string { return a.resp.Header }

// failure returns an error for an answer that is one, with the server's hint.
func failure(resp *http.Response) error {
	if resp == nil || resp.StatusCode < 400 {
		return nil
	}
	return hinted(&answer{resp}, resp.Header)
}

// hinted marks err with how long the server asks to wait.
func hinted(err error, h http.Header) error {
	if d, ok := retryafter.From(h, time.Now()); ok {
		return backoff.RetryAfter(err, d)
	}
	return err
}
