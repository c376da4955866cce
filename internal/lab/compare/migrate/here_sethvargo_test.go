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

func hereFibonacci(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  time.Minute,
		Schedule: backoff.ScheduleFunc(func(retry int) time.Duration {
			a, b := time.Second, 2*time.Second
			for range retry - 1 {
				a, b = b, min(a+b, time.Hour)
			}
			return a
		}),
		Jitter: backoff.NoJitter,
	}
	err := policy.Do(ctx, save)
	return err
}
