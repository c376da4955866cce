package migrate

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/avast/retry-go/v5"
)

func avast5Exponential(ctx context.Context, save operation) error {
	err := retry.New(retry.Context(ctx), retry.Attempts(5), retry.Delay(200*time.Millisecond), retry.MaxDelay(5*time.Second),
		retry.LastErrorOnly(true)).Do(func() error { return save(ctx) })
	return err
}

func avast5Hooks(ctx context.Context, save operation) error {
	err := retry.New(retry.Context(ctx), retry.Attempts(3), retry.RetryIf(isBusy),
		retry.OnRetry(func(n uint, err error) { log.Printf("attempt %d: %v", n+1, err) }),
	).Do(func() error { return save(ctx) })
	return err
}

func avast5PerError(ctx context.Context, save operation) error {
	err := retry.New(retry.Context(ctx), retry.AttemptsForError(2, errBusy)).Do(func() error { return save(ctx) })
	return err
}

func avast5DelayByError(ctx context.Context, save operation) error {
	byError := func(_ uint, err error, _ retry.DelayContext) time.Duration {
		if errors.Is(err, errBusy) {
			return time.Second
		}
		return 50 * time.Millisecond
	}
	err := retry.New(retry.Context(ctx), retry.DelayType(byError)).Do(func() error { return save(ctx) })
	return err
}

func avast5Throttle(ctx context.Context, save operation) error {
	shared := retry.NewFixedTokenBucketThrottle(retry.FixedTokenBucketThrottleConfig{})

	err := retry.New(retry.Context(ctx), retry.WithThrottle(shared)).Do(func() error { return save(ctx) })
	return err
}
