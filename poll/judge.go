package poll

import (
	"context"
	"fmt"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// verdict is what a check was: an answer, or a failure.
type verdict uint8

const (
	nothing verdict = iota // no check has ended, or one is running
	pending                // "not yet"
	final                  // the end of the poll
	failure                // an error that is retried
	refusal                // of a breaker: nothing was checked
)

// asNotYet returns the error of a check that says "not yet". It returns nil if
// err says something else, as that of a poll inside the check does that gave
// up.
func asNotYet(err error) error {
	if err == nil {
		return ErrNotYet
	}
	if _, gaveUp := errtree.As[*backoff.Error](err); gaveUp || !errtree.Is(err, ErrNotYet) {
		return nil
	}
	return err
}

// judge returns what the error of a failed check means for the poll, and the error
// as the Run should see it.
func (p *poll) judge(err error, timedOut bool) (verdict, error) {
	classify := p.policy.Classify
	switch {
	case timedOut:
		classify = nil // it need not know of timeouts
		err = fmt.Errorf("%w (%w)", err, backoff.ErrAttemptTimeout)
	case p.rules.Retryable(err):
		return failure, err
	}
	var loop backoff.Supervisor // like it, a poll ends only for a marked or classified error
	loop.Policy.Classify = classify
	switch d := loop.Decide(1, err); {
	case !d.Again:
		return final, err
	case d.Reason == backoff.ReasonOpen:
		return refusal, backoff.OfClass(err, backoff.ClassRetryable) // so that the Run waits for the circuit
	}
	return failure, backoff.OfClass(err, backoff.ClassRetryable)
}

// classify is the Classifier of the Run. Only an error that was marked, or that
// the policy classifies, ends the poll.
func (p *poll) classify(err error) backoff.Class {
	if p.last == pending {
		return backoff.ClassRetryable
	}
	class := backoff.ClassUnknown
	if p.policy.Classify != nil {
		class = p.policy.Classify(err)
	}
	if class == backoff.ClassUnknown {
		if class = backoff.DefaultClassifier(err); !class.Retryable() {
			return backoff.ClassRetryable
		}
	}
	return class
}

// timedOut reports whether its AttemptTimeout ended a check that failed with
// err. The context alone does not tell, because the check may have failed
// before it ended.
func timedOut(attempt context.Context, err error) bool {
	if context.Cause(attempt) != backoff.ErrAttemptTimeout {
		return false
	}
	timeout, ok := errtree.As[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout() || errtree.Is(err, context.Canceled) || errtree.Is(err, backoff.ErrAttemptTimeout)
}
