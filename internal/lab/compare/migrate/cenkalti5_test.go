package migrate

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/cenkalti/backoff/v5"
)

func cenkalti5Exponential(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, save(ctx) },
		backoff.WithMaxElapsedTime(2*time.Minute))
	return err
}

func cenkalti5Constant(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, save(ctx) },
		backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)), backoff.WithMaxTries(5))
	return err
}

func cenkalti5Value(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := backoff.Retry(ctx, func() (string, error) { return fetch(ctx) })
	return page, err
}

func cenkalti5Notify(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, save(ctx) },
		backoff.WithMaxTries(3),
		backoff.WithNotify(func(err error, wait time.Duration) {
			log.Printf("%v, again in %v", err, wait)
		}))
	return err
}

func cenkalti5Permanent(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := save(ctx)
		if errors.Is(err, errGone) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	})
	return err
}

func cenkalti5RetryAfter(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		if err := save(ctx); err != nil {
			return struct{}{}, backoff.RetryAfter(30)
		}
		return struct{}{}, nil
	}, backoff.WithMaxTries(2))
	return err
}
