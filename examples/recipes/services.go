package recipes

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/gobackoff/backoff"
)

// A dependency is a service without which the program does not start.
type dependency struct {
	name  string
	check func(context.Context) error // such as a ping; not retried
}

// waitForAll waits until all answer, or until ctx ends. A permanent error ends all waits. The
// error names the services that did not answer.
func waitForAll(ctx context.Context, policy backoff.Policy, all []dependency) error {
	errs := make([]error, len(all))
	group, ctx := errgroup.WithContext(ctx)
	for i, d := range all {
		named := policy
		named.Name = d.name // for its Observer
		group.Go(func() error {
			err := named.Do(ctx, d.check)
			if err == nil {
				return nil
			}
			errs[i] = fmt.Errorf("%s: %w", d.name, err)
			if _, late := errors.AsType[*backoff.Error](err); late {
				return nil // others may still answer in time
			}
			return errs[i] // permanent: ends all waits
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}
