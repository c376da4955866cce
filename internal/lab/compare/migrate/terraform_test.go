package migrate

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/retry"
)

// A volume is what the looks below return; nil is none.
type volume struct{ State string }

type describing = func(context.Context) (*volume, error)

func terraformState(ctx context.Context, describe describing) (*volume, error) {
	conf := &retry.StateChangeConf{
		Pending:    []string{"creating"},
		Target:     []string{"available"},
		Delay:      30 * time.Second,
		MinTimeout: 3 * time.Second,
		Timeout:    10 * time.Minute,
		Refresh: func() (any, string, error) {
			v, err := describe(ctx)
			if err != nil || v == nil {
				return nil, "", err
			}
			return v, v.State, nil
		},
	}
	v, err := conf.WaitForStateContext(ctx)
	if err != nil {
		return nil, err
	}
	return v.(*volume), nil
}

func terraformGone(ctx context.Context, describe describing) error {
	conf := &retry.StateChangeConf{
		Pending:      []string{"deleting"},
		PollInterval: 5 * time.Second,
		Timeout:      time.Minute,
		Refresh: func() (any, string, error) {
			v, err := describe(ctx)
			if err != nil || v == nil {
				return nil, "", err
			}
			return v, v.State, nil
		},
	}
	_, err := conf.WaitForStateContext(ctx)
	return err
}

func terraformRetry(ctx context.Context, save operation) error {
	err := retry.RetryContext(ctx, 2*time.Minute, func() *retry.RetryError {
		err := save(ctx)
		if errors.Is(err, errBusy) {
			return retry.RetryableError(err)
		}
		if err != nil {
			return retry.NonRetryableError(err)
		}
		return nil
	})
	return err
}
