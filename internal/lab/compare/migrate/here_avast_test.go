package migrate

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/gobackoff/backoff"
)

func hereAvastExponential(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: 200 * time.Millisecond},
		Jitter:      added(100 * time.Millisecond),
		MaxDelay:    5 * time.Second,
	}
	err := policy.Do(ctx, save)
	return err
}

func added(most time.Duration) backoff.Jitter {
	return func(delay, _ time.Duration, u float64) time.Duration { return delay + time.Duration(u*float64(most)) }
}

func hereAvastHooks(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 3,
		Classify:    backoff.RetryIf(isBusy),
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				log.Printf("attempt %d: %v", e.Attempt, e.Err)
			}
		},
	}
	err := policy.Do(ctx, save)
	return err
}

func hereAvastPerError(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 10,
		Classify:    busyIsThrottled,
		ByClass:     map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 2}},
	}
	err := policy.Do(ctx, save)
	return err
}

func busyIsThrottled(err error) backoff.Class {
	if errors.Is(err, errBusy) {
		return backoff.ClassThrottled
	}
	return backoff.ClassUnknown // as usual
}

func hereDelayByError(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 10,
		Schedule:    backoff.Constant(50 * time.Millisecond),
		ByClass:     map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Schedule: backoff.Constant(time.Second)}},
		Jitter:      backoff.NoJitter, // as there; leave it out
		Classify:    busyIsThrottled,
	}
	err := policy.Do(ctx, save)
	return err
}

func hereAvastThrottle(ctx context.Context, save operation) error {
	shared := &backoff.RetryBudget{}

	policy := backoff.Policy{MaxAttempts: 10, Budget: shared}
	err := policy.Do(ctx, save)
	return err
}
