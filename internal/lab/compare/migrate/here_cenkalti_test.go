package migrate

import (
	"context"
	"errors"
	"log"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

func hereExponential(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  2 * time.Minute,
		Schedule:    backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 1.5, Max: time.Minute},
		Jitter:      backoff.UniformJitter(0.5, 1.5),
	}
	err := policy.Do(ctx, save)
	return err
}

func herePermanent(ctx context.Context, save operation) error {
	policy := backoff.Policy{}
	return policy.Do(ctx, func(ctx context.Context) error {
		err := save(ctx)
		if errors.Is(err, errGone) {
			return backoff.Permanent(err)
		}
		return err
	})
}

func hereReason(err error) string {
	switch e, gaveUp := errors.AsType[*backoff.Error](err); {
	case !gaveUp:
		return "permanent" // or nil: it is the operation's own
	case errors.Is(err, backoff.ErrExhausted):
		return "limit"
	case e.Reason == backoff.ReasonCanceled:
		return "cancelled"
	}
	return "other"
}

func hereRange(ctx context.Context, save operation) error {
	policy := backoff.Policy{}
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		err := save(ctx)
		if err == nil {
			return nil
		}
		r.Fail(err)
	}
	return r.Err()
}

func hereOwnLoop(ctx context.Context, save operation) error {
	policy := backoff.Policy{}
	r := policy.Start(ctx)
	ctx, ok := r.Begin(0)
	for ok {
		err := save(ctx)
		wait, again := r.Retry(err)
		if again {
			sleep(wait)
		}
		ctx, ok = r.Begin(0)
	}
	return r.Err() // nil after a success
}

func herePlug(ctx context.Context, save operation) error {
	policy := backoff.Policy{}
	err := cenkalti.Retry(func() error { return save(ctx) }, plug.Cenkalti(ctx, policy))
	return err
}

func hereNotify(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		Name:        "save",
		MaxAttempts: -1,
		MaxElapsed:  time.Minute,
		Schedule:    backoff.Exponential{Initial: 500 * time.Millisecond, Multiplier: 1.5, Max: time.Minute},
		Jitter:      backoff.UniformJitter(0.5, 1.5),
		Classify:    backoff.RetryIf(func(error) bool { return true }), // all but Permanent, as before
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				log.Printf("%v, again in %v", e.Err, e.Wait)
			}
		},
	}
	err := policy.Do(ctx, save) // if save takes no context: func(context.Context) error { return save() }
	if e, ok := err.(*backoff.Error); ok && e.ContextError() != nil && e.Class() != backoff.ClassPermanent {
		return e.ContextError() // the context ended the call, and no Permanent of save
	}
	return backoff.Cause(err)
}
