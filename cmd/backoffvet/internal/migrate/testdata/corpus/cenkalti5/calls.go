package cenkalti5

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"corpus/world"
)

func defaults(ctx context.Context, s *world.Service) error {
	_, err := backoff.Retry(ctx, func() (string, error) { return s.Fetch(ctx) })
	return err
}

func tries(ctx context.Context, s *world.Service) error {
	operation := func() (string, error) {
		page, err := s.Fetch(ctx)
		if errors.Is(err, world.ErrGone) {
			return "", backoff.Permanent(err)
		}
		return page, err
	}
	_, err := backoff.Retry(ctx, operation, backoff.WithMaxTries(4), backoff.WithBackOff(backoff.NewExponentialBackOff()))
	return err
}

func constant(ctx context.Context, s *world.Service) error {
	_, err := backoff.Retry(
		ctx,
		func() (struct{}, error) {
			return struct{}{}, s.Call(ctx)
		},
		backoff.WithBackOff(backoff.NewConstantBackOff(5*time.Second)),
		backoff.WithMaxElapsedTime(time.Minute),
	)
	return err
}

func exponential(ctx context.Context, s *world.Service) error {
	expBackoff := backoff.NewExponentialBackOff()
	expBackoff.InitialInterval = 100 * time.Millisecond
	expBackoff.MaxInterval = backoff.DefaultMaxInterval / 2
	_, err := backoff.Retry(ctx, pinger{s}.ping, backoff.WithBackOff(expBackoff), backoff.WithMaxTries(6))
	return err
}

func literal(ctx context.Context, s *world.Service) error {
	exp := &backoff.ExponentialBackOff{
		InitialInterval:     time.Second,
		RandomizationFactor: 0.1,
		Multiplier:          3,
		MaxInterval:         20 * time.Second,
	}
	_, err := backoff.Retry(ctx, func() (any, error) { return nil, s.Call(ctx) }, backoff.WithBackOff(exp), backoff.WithMaxElapsedTime(90*time.Second))
	return err
}

type config struct {
	MaxTries uint
	MaxTime  time.Duration
}

func configured(ctx context.Context, s *world.Service) error {
	c := config{MaxTries: 3, MaxTime: time.Minute}
	_, err := backoff.Retry(ctx, func() (string, error) { return s.Fetch(ctx) }, backoff.WithMaxTries(c.MaxTries), backoff.WithMaxElapsedTime(c.MaxTime))
	return err
}

func noLimit(ctx context.Context, s *world.Service) error {
	_, err := backoff.Retry(ctx, func() (string, error) { return s.Fetch(ctx) },
		backoff.WithMaxElapsedTime(0), // the context ends it
		backoff.WithBackOff(backoff.NewConstantBackOff(time.Minute)))
	return err
}

func throttled(ctx context.Context, s *world.Service) error {
	_, err := backoff.Retry(ctx, func() (string, error) {
		page, err := s.Fetch(ctx)
		if err != nil {
			return "", backoff.RetryAfter(30)
		}
		return page, nil
	}, backoff.WithMaxTries(4))
	return err
}

func notified(ctx context.Context, s *world.Service) error {
	n := 0
	_, err := backoff.Retry(ctx, func() (string, error) { return s.Fetch(ctx) }, backoff.WithMaxTries(5), backoff.WithNotify(func(_ error, wait time.Duration) {
		n += int(wait / wait)
	}))
	if n > 4 {
		return errors.New("too many retries")
	}
	return err
}

func nested(ctx context.Context, s *world.Service) error {
	_, err := backoff.Retry(ctx, func() (bool, error) {
		_, err := backoff.Retry(ctx, func() (bool, error) { return true, s.Call(ctx) }, backoff.WithMaxTries(2))
		if err != nil {
			return false, backoff.Permanent(err)
		}
		return true, nil
	}, backoff.WithMaxTries(3))
	return err
}

// spread gets its options from elsewhere.
func spread(ctx context.Context, s *world.Service) error {
	return retry(ctx, s, backoff.WithMaxTries(2))
}

func retry(ctx context.Context, s *world.Service, options ...backoff.RetryOption) error {
	_, err := backoff.Retry(ctx, func() (string, error) { return s.Fetch(ctx) }, options...)
	return err
}

type pinger struct{ s *world.Service }

func (p pinger) ping() (string, error) { return "pong", p.s.Ping() }
