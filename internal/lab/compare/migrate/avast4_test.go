package migrate

import (
	"context"
	"log"
	"time"

	"github.com/avast/retry-go/v4"
)

func avast4Exponential(ctx context.Context, save operation) error {
	err := retry.Do(func() error { return save(ctx) },
		retry.Context(ctx), retry.Attempts(5), retry.Delay(200*time.Millisecond), retry.MaxDelay(5*time.Second),
		retry.LastErrorOnly(true))
	return err
}

func avast4Value(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := retry.DoWithData(func() (string, error) { return fetch(ctx) }, retry.Context(ctx))
	return page, err
}

func avast4Hooks(ctx context.Context, save operation) error {
	err := retry.Do(func() error { return save(ctx) },
		retry.Context(ctx), retry.Attempts(3), retry.RetryIf(isBusy),
		retry.OnRetry(func(n uint, err error) { log.Printf("attempt %d: %v", n+1, err) }))
	return err
}
