package migrate

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v7"
)

func cenkalti7Exponential(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, save(ctx) },
		backoff.WithMaxElapsedTime(2*time.Minute))
	return err
}

// A cenkalti7Retrier makes the attempts of a call of a library as its user wants them.
type cenkalti7Retrier []backoff.RetryOption

func (options cenkalti7Retrier) Do(ctx context.Context, op func(context.Context) error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, op(ctx) }, options...)
	return err
}

func cenkalti7Permanent(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := save(ctx)
		if errors.Is(err, errGone) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	})
	return err
}

func cenkalti7Reason(err error) string {
	switch {
	case errors.Is(err, backoff.ErrPermanent):
		return "permanent"
	case errors.Is(err, backoff.ErrExhausted), errors.Is(err, backoff.ErrMaxElapsedTime):
		return "limit"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "other"
}

func cenkalti7Ticker(ctx context.Context, save operation) error {
	ticker := backoff.NewTicker(backoff.NewExponentialBackOff())
	defer ticker.Stop()
	var err error
	for range ticker.C {
		if err = save(ctx); err == nil {
			return nil
		}
	}
	return err
}

func cenkalti7OwnLoop(ctx context.Context, save operation) error {
	b := backoff.NewExponentialBackOff()
	for {
		err := save(ctx)
		if err == nil {
			return nil
		}
		wait := b.NextBackOff()
		if wait == backoff.Stop {
			return err
		}
		sleep(wait)
	}
}
