package migrate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/hedge"
)

func hereFailsafeRetry(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: 5,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: 5 * time.Second},
		Jitter:      backoff.UniformJitter(0.75, 1.25),
		Classify: func(err error) backoff.Class {
			if errors.Is(err, errGone) {
				return backoff.ClassPermanent
			}
			return backoff.ClassUnknown // as usual
		},
	}
	err := policy.Do(ctx, save)
	return err
}

func hereFailsafeStack(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts:    3,
		AttemptTimeout: 2 * time.Second,
		Budget:         &backoff.RetryBudget{},
	}
	breaker := &backoff.Breaker{}

	err := policy.Do(ctx, breaker.Wrap(save))
	return err
}

func hereHedge(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	hedged := &hedge.Hedge{Delay: time.Second}
	page, err := hedge.Value(ctx, hedged, fetch, nil)
	return page, err
}

func hereFallback(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := backoff.DoValue(ctx, backoff.Policy{}, fetch)
	if err != nil {
		page, err = "yesterday's", nil
	}
	return page, err
}

func hereByResult(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := backoff.DoValue(ctx, backoff.Policy{MaxAttempts: 3}, func(ctx context.Context) (string, error) {
		page, err := fetch(ctx)
		if err == nil && page == "" {
			err = errEmpty
		}
		return page, err
	})
	return page, err
}

func hereClient() *http.Client {
	client := backoffhttp.Client(backoff.Policy{
		Schedule: backoff.Exponential{Initial: time.Second, Max: 30 * time.Second},
	})
	return client
}
