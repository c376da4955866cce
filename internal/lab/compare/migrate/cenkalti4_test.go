package migrate

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/cenkalti/backoff/v4"
)

func cenkalti4Exponential(ctx context.Context, save operation) error {
	b := backoff.NewExponentialBackOff()
	b.MaxElapsedTime = 2 * time.Minute
	err := backoff.Retry(func() error { return save(ctx) }, backoff.WithContext(b, ctx))
	return err
}

func cenkalti4Constant(ctx context.Context, save operation) error {
	b := backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 4) // 5 attempts
	err := backoff.Retry(func() error { return save(ctx) }, backoff.WithContext(b, ctx))
	return err
}

func cenkalti4Value(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := backoff.RetryWithData(func() (string, error) { return fetch(ctx) },
		backoff.WithContext(backoff.NewExponentialBackOff(), ctx))
	return page, err
}

func cenkalti4Notify(ctx context.Context, save operation) error {
	b := backoff.WithContext(backoff.WithMaxRetries(backoff.NewExponentialBackOff(), 2), ctx)
	err := backoff.RetryNotify(func() error { return save(ctx) }, b, func(err error, wait time.Duration) {
		log.Printf("%v, again in %v", err, wait)
	})
	return err
}

func cenkalti4Permanent(ctx context.Context, save operation) error {
	return backoff.Retry(func() error {
		err := save(ctx)
		if errors.Is(err, errGone) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(backoff.NewExponentialBackOff(), ctx))
}
