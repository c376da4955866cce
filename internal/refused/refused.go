// Package refused tells the observer of a policy that a call ended before the policy
// ran.
package refused

import (
	"context"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/limits"
)

// Tell tells the observer of p, if there is one, that a call ended with err before p
// ran. It is an EventGiveUp without an attempt.
func Tell(ctx context.Context, p *backoff.Policy, err error) {
	if p.Observer == nil {
		return
	}
	e := backoff.Event{Kind: backoff.EventGiveUp, Name: p.Name, Err: err, MaxAttempts: limits.Or(p.MaxAttempts, 4)}
	e.RetryAfter, _ = backoff.RetryAfterOf(err)
	if e.Reason = Reason(ctx, err); e.Reason == backoff.ReasonPermanent {
		e.Class = backoff.ClassPermanent
	}
	p.Observer.Notify(ctx, e)
}

// Reason returns why a call ended with err.
func Reason(ctx context.Context, err error) backoff.Reason {
	gave, _ := errtree.As[*backoff.Error](err)
	invalid, _ := errtree.As[*badfield.Error](err)
	switch {
	case gave != nil:
		return gave.Reason
	case errtree.Is(err, backoff.ErrOpen):
		return backoff.ReasonOpen
	case errtree.Is(err, backoff.ErrBudget):
		return backoff.ReasonBudget
	case invalid != nil:
		return backoff.ReasonInvalid
	case ctx.Err() != nil:
		return Ended(ctx)
	}
	return backoff.ReasonPermanent
}

// Ended returns the reason of a call that the end of ctx has ended.
func Ended(ctx context.Context) backoff.Reason {
	if ctx.Err() == context.DeadlineExceeded {
		return backoff.ReasonDeadline
	}
	return backoff.ReasonCanceled
}
