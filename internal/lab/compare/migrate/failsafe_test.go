package migrate

import (
	"context"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/fallback"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
)

func failsafeRetry(ctx context.Context, save operation) error {
	retry := retrypolicy.NewBuilder[any]().
		WithMaxAttempts(5).
		WithBackoff(100*time.Millisecond, 5*time.Second).
		WithJitterFactor(0.25).
		AbortOnErrors(errGone).
		ReturnLastFailure().
		Build()
	err := failsafe.With(retry).WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error {
		return save(e.Context())
	})
	return err
}

func failsafeStack(ctx context.Context, save operation) error {
	breaker := circuitbreaker.NewBuilder[any]().
		WithFailureRateThreshold(0.5, 20, 10*time.Second).
		WithDelay(5 * time.Second).
		WithSuccessThreshold(2).
		Build()
	retry := retrypolicy.NewBuilder[any]().
		WithBackoff(100*time.Millisecond, 30*time.Second).
		AbortOnErrors(circuitbreaker.ErrOpen).
		WithBudget(budget.New()).
		Build()
	limit := timeout.New[any](2 * time.Second)
	executor := failsafe.With[any](retry, breaker, limit)

	err := executor.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error {
		return save(e.Context())
	})
	return err
}

func failsafeHedge(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	hedge := hedgepolicy.NewBuilderWithDelay[string](time.Second).WithMaxHedges(1).Build()
	page, err := failsafe.With[string](hedge).WithContext(ctx).GetWithExecution(func(e failsafe.Execution[string]) (string, error) {
		return fetch(e.Context())
	})
	return page, err
}

func failsafeFallback(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := failsafe.With[string](fallback.NewWithResult("yesterday's"), retrypolicy.NewWithDefaults[string]()).
		WithContext(ctx).Get(func() (string, error) { return fetch(ctx) })
	return page, err
}

func failsafeByResult(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	retry := retrypolicy.NewBuilder[string]().HandleResult("").ReturnLastFailure().Build()
	page, err := failsafe.With[string](retry).WithContext(ctx).Get(func() (string, error) { return fetch(ctx) })
	return page, err
}

func failsafeClient() *http.Client {
	retry := failsafehttp.NewRetryPolicyBuilder().WithBackoff(time.Second, 30*time.Second).WithMaxRetries(3).Build()
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(nil, retry)}
	return client
}
