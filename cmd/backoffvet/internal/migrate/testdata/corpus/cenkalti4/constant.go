package cenkalti4

import (
	"context"
	"errors"
	"math"
	"time"

	backoff "github.com/cenkalti/backoff/v4"

	"corpus/world"
)

const retries = 3

// ready waits until a service is up.
func ready(ctx context.Context, s *world.Service) error {
	return backoff.Retry(func() error {
		return s.Ping()
	}, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), retries))
}

func constantInSteps(ctx context.Context, s *world.Service) error {
	var b backoff.BackOff = backoff.NewConstantBackOff(250 * time.Millisecond)
	b = backoff.WithMaxRetries(b, 4)
	b = backoff.WithContext(b, ctx)
	err := backoff.Retry(func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return s.Call(ctx)
	}, b)
	return err
}

// atOnce retries without a wait.
func atOnce(ctx context.Context, s *world.Service) error {
	return backoff.Retry(s.Ping, backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 10))
}

func never(ctx context.Context, s *world.Service) error {
	err := backoff.Retry(s.Ping, &backoff.StopBackOff{})
	if err == world.ErrDown {
		return world.ErrGaveUp
	}
	return err
}

// compared looks at the error itself, which Retry takes out of its mark.
func compared(ctx context.Context, s *world.Service) error {
	err := backoff.Retry(func() error {
		if err := s.Call(ctx); err == world.ErrGone {
			return &backoff.PermanentError{Err: err}
		} else if err != nil {
			return err
		}
		return nil
	}, backoff.WithContext(backoff.NewConstantBackOff(2*time.Second), ctx))
	switch {
	case err == context.DeadlineExceeded, err == context.Canceled:
		return world.ErrGaveUp
	case err == world.ErrGone:
		return nil
	}
	return err
}

// inALoop makes its interval anew each time.
func inALoop(ctx context.Context, s *world.Service) error {
	var errs []error
	for i := range 3 {
		interval := time.Duration(i+1) * time.Second
		err := backoff.Retry(func() error { return s.Call(ctx) }, backoff.WithMaxRetries(backoff.NewConstantBackOff(interval), uint64(i)))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// always retries as often as the type allows, until the context ends.
func always(ctx context.Context, s *world.Service) error {
	b := backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Minute), math.MaxUint64)
	return backoff.Retry(backoff.Operation(func() error { return s.Call(ctx) }), backoff.WithContext(b, ctx))
}
