package migrate

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff"
)

func hereSethvargoExponential(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: 200 * time.Millisecond},
		Jitter:      backoff.UniformJitter(0.9, 1.1),
		MaxDelay:    time.Second,
		Classify:    func(error) backoff.Class { return backoff.ClassPermanent },
	}
	err := policy.Do(ctx, func(ctx context.Context) error {
		err := save(ctx)
		if errors.Is(err, errBusy) {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return err
	})
	return err
}

func hereSethvargoPredicate(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 5,
		Classify:    backoff.RetryIf(func(err error) bool { return errors.Is(err, errBusy) }),
	}
	err := policy.Do(ctx, save)
	return err
}
