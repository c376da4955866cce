package cenkalti4

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"corpus/world"
)

func newBackOff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.MaxElapsedTime = 10 * time.Second
	return b
}

// elsewhere gets its backoff from a function.
func elsewhere(ctx context.Context, s *world.Service) error {
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
