// Package cenkalti7 has calls of cenkalti/backoff v7 as programs make them.
package cenkalti7

import (
	"context"
	"errors"
	"time"

	cenkalti "github.com/cenkalti/backoff/v7"

	"corpus/world"
)

// Sites are the call sites by their names.
var Sites = map[string]world.Site{"connect": connect, "throttled": throttled, "permanent": permanent}

func connect(ctx context.Context, s *world.Service) error {
	b := cenkalti.NewExponentialBackOff()
	b.MaxInterval = 10 * time.Second
	_, err := cenkalti.Retry(ctx, func() (*world.Service, error) { return s, s.Call(ctx) }, cenkalti.WithBackOff(b), cenkalti.WithMaxTries(8))
	return err
}

func throttled(ctx context.Context, s *world.Service) error {
	_, err := cenkalti.Retry(ctx, func() (string, error) {
		page, err := s.Fetch(ctx)
		if errors.Is(err, world.ErrDown) {
			return "", cenkalti.RetryAfter(10*time.Second, err)
		}
		return page, cenkalti.Permanent(err)
	}, cenkalti.WithMaxTries(5))
	return err
}

func permanent(ctx context.Context, s *world.Service) error {
	_, err := cenkalti.Retry(ctx, func() (string, error) {
		page, err := s.Fetch(ctx)
		if errors.Is(err, world.ErrGone) {
			return page, cenkalti.Permanent(err)
		}
		return page, err
	}, cenkalti.WithMaxTries(3))
	return err
}
