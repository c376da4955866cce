package retrygaveup

import (
	"context"
	"errors"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/poll"
)

var (
	service guard.Service
	inner   = backoff.Policy{Name: "inner"}
	single  = backoff.Policy{Name: "single", MaxAttempts: 1}
	patient = backoff.Policy{Classify: backoff.RetryIf(always)}
)

func always(error) bool                  { return true }
func op(ctx context.Context) error       { return ctx.Err() }
func done(context.Context) (bool, error) { return true, nil }
func isTransient(err error) bool         { return errors.Is(err, errBusy) }

var errBusy = errors.New("busy")

var ofSentinel = backoff.Policy{
	Classify: backoff.RetryIf(func(err error) bool {
		return isTransient(err) || errors.Is(err, backoff.ErrExhausted) // want `a policy does not ask its classifier about this`
	}),
}

var ofType = backoff.Policy{Classify: classify}

func classify(err error) backoff.Class {
	if _, ok := errors.AsType[*backoff.Error](err); ok { // want `a policy does not ask its classifier`
		return backoff.ClassRetryable
	}
	switch {
	case errors.Is(err, backoff.ErrOpen): // want `a policy does not ask its classifier`
		return backoff.ClassThrottled
	}
	return backoff.ClassUnknown
}

func assigned(p backoff.Policy) backoff.Policy {
	p.Classify = backoff.RetryIf(func(err error) bool { return errors.Is(err, backoff.ErrBudget) }) // want `a policy does not ask`
	return p
}

func nested(ctx context.Context) error {
	return patient.Do(ctx, func(ctx context.Context) error {
		return inner.Do(ctx, op) // want `what this policy gives up on is final to the policy around it, although that retries all errors`
	})
}

func nestedLoop(ctx context.Context) error {
	all := backoff.Policy{Classify: func(error) backoff.Class { return backoff.ClassRetryable }}
	r := all.Start(ctx)
	for ctx := range r.Attempts() {
		if err := poll.Until(ctx, inner, done); err != nil { // want `what this policy gives up on`
			r.Fail(err)
		}
	}
	return r.Err()
}

func ofService(ctx context.Context) error {
	return service.Do(ctx, patient, func(ctx context.Context) error {
		return service.With(inner).Do(ctx, op) // want `what this policy gives up on`
	})
}

// Those below are right.

var excludes = backoff.Policy{
	Classify: backoff.RetryIf(func(err error) bool {
		return !errors.Is(err, backoff.ErrExhausted)
	}),
}

var final = backoff.Policy{
	Classify: func(err error) backoff.Class {
		if errors.Is(err, backoff.ErrExhausted) {
			return backoff.ClassPermanent
		}
		return backoff.ClassUnknown
	},
}

// A Supervisor asks about everything.
var supervisor = backoff.Supervisor{Policy: backoff.Policy{
	Classify: backoff.RetryIf(func(err error) bool { return errors.Is(err, backoff.ErrExhausted) }),
}}

func supervised(ctx context.Context) error {
	policy := backoff.Policy{
		Classify: backoff.RetryIf(func(err error) bool { return errors.Is(err, backoff.ErrExhausted) }),
	}
	s := backoff.Supervisor{Policy: policy}
	s.Policy.Classify = backoff.RetryIf(func(err error) bool { return errors.Is(err, backoff.ErrOpen) })
	return s.Run(ctx, op)
}

func marked(ctx context.Context) error {
	return patient.Do(ctx, func(ctx context.Context) error {
		return backoff.OfClass(inner.Do(ctx, op), backoff.ClassRetryable)
	})
}

func leavesRetrying(ctx context.Context) error {
	return patient.Do(ctx, func(ctx context.Context) error { return single.Do(ctx, op) })
}

// What the inner policy finds definitive comes as it is, and some of that may be retried.
func chooses(ctx context.Context) error {
	outer := backoff.Policy{Classify: backoff.RetryIf(isTransient)}
	return outer.Do(ctx, func(ctx context.Context) error { return inner.Do(ctx, op) })
}
