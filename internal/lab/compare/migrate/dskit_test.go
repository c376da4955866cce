package migrate

import (
	"context"
	"time"

	"github.com/grafana/dskit/backoff"
)

func dskitLoop(ctx context.Context, save operation) error {
	b := backoff.New(ctx, backoff.Config{MinBackoff: 100 * time.Millisecond, MaxBackoff: 1600 * time.Millisecond, MaxRetries: 10})
	for b.Ongoing() {
		err := save(ctx)
		if err == nil {
			return nil
		}
		b.Wait()
	}
	return b.Err()
}

func dskitWatch(ctx context.Context, fetch func(context.Context) (string, error), handle func(string)) error {
	b := backoff.New(ctx, backoff.Config{MinBackoff: time.Second, MaxBackoff: time.Minute})
	for b.Ongoing() {
		page, err := fetch(ctx)
		if err != nil {
			b.Wait()
			continue
		}
		b.Reset()
		handle(page)
	}
	return b.Err()
}

// dskitForgetful is a loop without a Wait.
func dskitForgetful(ctx context.Context, save operation) error {
	b := backoff.New(ctx, backoff.Config{MinBackoff: time.Second, MaxBackoff: time.Minute})
	for b.Ongoing() {
		if save(ctx) == nil {
			return nil
		}
	}
	return b.Err()
}
