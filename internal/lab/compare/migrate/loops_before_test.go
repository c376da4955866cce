package migrate

import (
	"context"
	"time"
)

func ownLoop(ctx context.Context, save operation) error {
	for {
		err := save(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// hookedLoop asks a hook before each wait, which may say no.
func hookedLoop(ctx context.Context, save operation, mayRetry func(err error, wait time.Duration) bool) error {
	wait := time.Second
	for {
		err := save(ctx)
		if err == nil || !mayRetry(err, wait) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		wait *= 2
	}
}
