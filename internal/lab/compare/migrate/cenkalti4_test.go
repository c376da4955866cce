package migrate

import (
	"context"
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

func cenkalti4Notify(ctx context.Context, save operation) error {
	b := backoff.NewExponentialBackOff()
	b.MaxElapsedTime = time.Minute
	err := backoff.RetryNotify(func() error { return save(ctx) }, backoff.WithContext(b, ctx), func(err error, wait time.Duration) {
		log.Printf("%v, again in %v", err, wait)
	})
	return err
}
