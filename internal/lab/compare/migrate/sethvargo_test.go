package migrate

import (
	"context"
	"errors"
	"time"

	"github.com/sethvargo/go-retry"
)

func sethvargoExponential(ctx context.Context, save operation) error {
	b := retry.WithMaxRetries(4, retry.WithCappedDuration(time.Second,
		retry.WithJitterPercent(10, retry.NewExponential(200*time.Millisecond))))
	err := retry.Do(ctx, b, func(ctx context.Context) error {
		err := save(ctx)
		if errors.Is(err, errBusy) {
			return retry.RetryableError(err)
		}
		return err
	})
	return err
}
