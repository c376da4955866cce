package migrate

import (
	"context"
	"time"

	"github.com/jpillora/backoff"
)

func jpilloraLoop(ctx context.Context, save operation) error {
	b := &backoff.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for {
		err := save(ctx)
		if err == nil || b.Attempt() == 5 {
			return err
		}
		time.Sleep(b.Duration())
	}
}

func jpilloraReconnect(ctx context.Context, dial func(context.Context) (string, error), serve func(context.Context, string) error) {
	b := &backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Minute}
	for ctx.Err() == nil {
		conn, err := dial(ctx)
		if err != nil {
			time.Sleep(b.Duration())
			continue
		}
		b.Reset()
		_ = serve(ctx, conn)
	}
}
