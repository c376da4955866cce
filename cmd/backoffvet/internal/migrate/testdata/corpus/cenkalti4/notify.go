package cenkalti4

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"corpus/world"
)

func logger(lines *[]string, what string) func(error, time.Duration) {
	return func(err error, wait time.Duration) {
		*lines = append(*lines, fmt.Sprint(what, err, wait > 0))
	}
}

// check returns an error if a hook was not called for each retry.
func check(err error, lines, retries int) error {
	if lines != retries {
		return errors.New("another number of lines")
	}
	return err
}

func notified(ctx context.Context, s *world.Service) error {
	n, calls := 0, 0
	err := backoff.RetryNotify(func() error { calls++; return s.Call(ctx) }, backoff.WithMaxRetries(backoff.NewExponentialBackOff(), 3), func(err error, d time.Duration) {
		if err == nil || d <= 0 {
			return
		}
		n++
	})
	return check(err, n, calls-1)
}

func notifiedByAVariable(ctx context.Context, s *world.Service) error {
	n, calls := 0, 0
	notify := func(error, time.Duration) { n++ }
	operation := func() error {
		calls++
		return s.Call(ctx)
	}
	err := backoff.RetryNotify(operation, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3), notify)
	return check(err, n, calls-1)
}

func notifiedByAResult(ctx context.Context, s *world.Service) error {
	var lines []string
	calls := 0
	err := backoff.RetryNotify(
		func() error {
			calls++
			return s.Call(ctx)
		},
		backoff.WithMaxRetries(backoff.NewExponentialBackOff(), 3),
		logger(&lines, "again: "),
	)
	return check(err, len(lines), calls-1)
}

func notifiedWithData(ctx context.Context, s *world.Service) error {
	e := 0
	b := backoff.NewExponentialBackOff()
	b.MaxElapsedTime = 0
	_, err := backoff.RetryNotifyWithData[string](func() (string, error) { return s.Fetch(ctx) }, backoff.WithContext(backoff.WithMaxRetries(b, 6), ctx), func(err error, _ time.Duration) {
		if err != nil {
			e++
		}
	})
	if e > 6 {
		return errors.New("too many retries")
	}
	return err
}
