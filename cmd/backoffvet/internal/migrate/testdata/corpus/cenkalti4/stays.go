package cenkalti4

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"corpus/world"
)

// atStart is outside of a function.
var atStart = backoff.Retry(func() error { return nil }, backoff.NewConstantBackOff(time.Second))

func newBackOff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.MaxElapsedTime = 10 * time.Second
	return b
}

// elsewhere gets its backoff from a function.
func elsewhere(ctx context.Context, s *world.Service) error {
	if atStart != nil {
		return atStart
	}
	return backoff.Retry(func() error { return markGone(s.Call(ctx)) }, newBackOff())
}

// markGone is for calls that move and for some that stay.
func markGone(err error) error {
	if err == world.ErrGone {
		return backoff.Permanent(err)
	}
	return err
}

// marksElsewhere moves, but its errors are marked by a function that others use, too.
func marksElsewhere(ctx context.Context, s *world.Service) error {
	return backoff.Retry(func() error { return markGone(s.Call(ctx)) }, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3))
}

// ticker waits by a channel.
func ticker(ctx context.Context, s *world.Service) error {
	ticker := backoff.NewTicker(backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3))
	defer ticker.Stop()
	var err error
	for range ticker.C {
		if err = s.Call(ctx); err == nil {
			return nil
		}
	}
	return err
}

// ownLoop waits by itself.
func ownLoop(ctx context.Context, s *world.Service) error {
	b := backoff.WithMaxRetries(backoff.NewExponentialBackOff(), 3)
	for {
		err := s.Call(ctx)
		if err == nil {
			return nil
		}
		wait := b.NextBackOff()
		if wait == backoff.Stop {
			return err
		}
		time.Sleep(wait)
	}
}

// conditional is faster at times.
func conditional(ctx context.Context, s *world.Service) error {
	b := backoff.NewExponentialBackOff()
	if s != nil {
		b.InitialInterval = time.Second
	}
	return backoff.Retry(func() error { return s.Call(ctx) }, backoff.WithMaxRetries(b, 2))
}

// twoCalls share a backoff, which Retry resets.
func twoCalls(ctx context.Context, s *world.Service) error {
	bo := backoff.WithContext(backoff.WithMaxRetries(backoff.NewExponentialBackOff(), 2), ctx)
	if err := backoff.Retry(func() error { return s.Call(ctx) }, bo); err != nil {
		return err
	}
	return backoff.Retry(func() error { return s.Call(ctx) }, bo)
}

// unlimited sets a limit only if there is one.
func unlimited(ctx context.Context, s *world.Service) error {
	const limit = 45 * time.Second
	bo := backoff.NewExponentialBackOff()
	bo.MaxInterval = 10 * time.Second
	if limit > 0 {
		bo.MaxElapsedTime = limit
	}
	return backoff.Retry(func() error { return s.Call(ctx) }, bo)
}

func fetch(ctx context.Context, s *world.Service) error {
	page, err := backoff.RetryWithData(func() (string, error) {
		return s.Fetch(ctx)
	}, backoff.WithMaxRetries(backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxElapsedTime(time.Minute)), 7))
	if err == nil && page != "page" {
		return errors.New("another page")
	}
	return err
}

// compares compares the error of a call that moves, in another function.
func compares(ctx context.Context, s *world.Service) bool {
	err := save(ctx, s)
	return err == world.ErrGone
}
