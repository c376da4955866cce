package migrate

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

func cenkalti4Exponential(ctx context.Context, save operation) error {
	b := backoff.NewExponentialBackOff()
	b.MaxElapsedTime = 2 * time.Minute
	err := backoff.Retry(func() error { return save(ctx) }, backoff.WithContext(b, ctx))
	return err
}
