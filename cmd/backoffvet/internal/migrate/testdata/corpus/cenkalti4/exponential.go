package cenkalti4

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"corpus/world"
)

// save makes one call with the defaults.
func save(ctx context.Context, s *world.Service) error {
	return backoff.Retry(func() error {
		return s.Call(ctx)
	}, backoff.NewExponentialBackOff())
}

func saveWithin(ctx context.Context, s *world.Service) error {
	b := backoff.NewExponentialBackOff()
	b.MaxElapsedTime = 2 * time.Minute
	err := backoff.Retry(func() error { return s.Call(ctx) }, backoff.WithContext(b, ctx))
	if err != nil {
		return fmt.Errorf("saving: %w", err)
	}
	return nil
}

// upload has all settings, and a permanent error.
func upload(ctx context.Context, s *world.Service) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval = 200 * time.Millisecond
	policy.MaxInterval = 5 * time.Second
	policy.Multiplier = 2
	policy.RandomizationFactor = 0.25
	policy.MaxElapsedTime = 30 * time.Second
	policy.Reset()

	operation := func() error {
		err := s.Call(ctx)
		if errors.Is(err, world.ErrGone) {
			return backoff.Permanent(err) // it does not come back
		}
		return err
	}
	return backoff.Retry(operation, policy)
}

func atMostFive(ctx context.Context, s *world.Service) error {
	if err := backoff.Retry(
		func() error {
			return s.Call(ctx)
		},
		// Five is what the service allows.
		backoff.WithContext(backoff.WithMaxRetries(backoff.NewExponentialBackOff(), 5), ctx),
	); err != nil {
		return errors.Join(world.ErrGaveUp, err)
	}
	return nil
}

// methodValue retries a method.
func methodValue(ctx context.Context, s *world.Service) error {
	bo := backoff.NewExponentialBackOff()
	bo.MaxElapsedTime, bo.MaxInterval = time.Minute, 3*time.Second
	return backoff.Retry(s.Ping, bo)
}

type uploader struct {
	s       *world.Service
	retries int
	wait    time.Duration
}

func (u *uploader) upload(ctx context.Context) error {
	eb := backoff.NewExponentialBackOff()
	eb.InitialInterval = u.wait
	b := backoff.WithContext(backoff.WithMaxRetries(eb, uint64(u.retries-1)), ctx)

	var lastErr error
	err := backoff.Retry(func() error {
		lastErr = u.s.Call(ctx)
		return lastErr
	}, b)
	if err != nil {
		return errors.Join(world.ErrGaveUp, lastErr)
	}
	return nil
}

func method(ctx context.Context, s *world.Service) error {
	return (&uploader{s: s, retries: 4, wait: 300 * time.Millisecond}).upload(ctx)
}

// inAGoroutine retries in the background.
func inAGoroutine(ctx context.Context, s *world.Service) error {
	done := make(chan error)
	go func() {
		bo := backoff.NewExponentialBackOff()
		bo.MaxElapsedTime = 20 * time.Second
		done <- backoff.Retry(func() error { return s.Call(ctx) }, backoff.WithContext(bo, ctx))
	}()
	return <-done
}
