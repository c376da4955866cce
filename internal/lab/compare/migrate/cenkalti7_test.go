package migrate

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/cenkalti/backoff/v7"
)

func cenkalti7Exponential(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, save(ctx) },
		backoff.WithMaxElapsedTime(2*time.Minute))
	return err
}

func cenkalti7Constant(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, save(ctx) },
		backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)), backoff.WithMaxTries(5))
	return err
}

func cenkalti7Value(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := backoff.Retry(ctx, func() (string, error) { return fetch(ctx) })
	return page, err
}

func cenkalti7Notify(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, save(ctx) },
		backoff.WithMaxTries(3),
		backoff.WithNotify(func(err error, wait time.Duration) {
			log.Printf("%v, again in %v", err, wait)
		}))
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

func cenkalti7RetryAfter(ctx context.Context, save operation) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		if err := save(ctx); err != nil {
			return struct{}{}, backoff.RetryAfter(30*time.Second, err)
		}
		return struct{}{}, nil
	}, backoff.WithMaxTries(2))
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
