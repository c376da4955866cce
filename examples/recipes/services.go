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
	group, until := errgroup.WithContext(ctx)
	for i, d := range all {
		named := policy
		named.Name = d.name // for its Observer
		group.Go(func() error {
			err := named.Do(until, d.check)
			gaveUp, late := errors.AsType[*backoff.Error](err)
			switch {
			case err == nil:
				return nil
			case late && gaveUp.Attempts > 0 && until.Err() != nil && ctx.Err() == nil: // by another one's permanent error
				errs[i] = fmt.Errorf("%s: stopped while it failed: %w", d.name, gaveUp.Last)
			default:
				errs[i] = fmt.Errorf("%s: %w", d.name, err)
			}
			if late {
				return nil // others may still answer in time
			}
			return errs[i] // permanent: ends all waits
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}
