package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/limit/adaptive"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/poll"
)

// everyLayer returns the ways to make a call, each without an end of its own.
func everyLayer() map[string]func(context.Context, func(context.Context) error) error {
	minutely := backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}
	under := func(b backoff.Budget) func(context.Context, func(context.Context) error) error {
		p := minutely
		p.Budget = b
		return p.Do
	}
	endless := minutely
	endless.MaxElapsed = -1
	return map[string]func(context.Context, func(context.Context) error) error{
		"Do": minutely.Do,
		"DoValue": func(ctx context.Context, op func(context.Context) error) error {
			_, err := backoff.DoValue(ctx, minutely, func(ctx context.Context) (int, error) { return 0, op(ctx) })
			return err
		},
		"Wrap":       func(ctx context.Context, op func(context.Context) error) error { return minutely.Wrap(op)(ctx) },
		"Run":        func(ctx context.Context, op func(context.Context) error) error { return loop(minutely.Start(ctx), op) },
		"Supervisor": func(ctx context.Context, op func(context.Context) error) error { return supervise(minutely, ctx, op) },
		"Breaker":    new(backoff.Breaker).Do,
		"Breaker around a policy": func(ctx context.Context, op func(context.Context) error) error {
			return new(backoff.Breaker).Do(ctx, minutely.Wrap(op))
		},
		"a timeout around a Breaker": func(ctx context.Context, op func(context.Context) error) error {
			p := minutely
			p.AttemptTimeout = time.Hour
			return p.Do(ctx, new(backoff.Breaker).Wrap(op))
		},
		"Service": func(ctx context.Context, op func(context.Context) error) error {
			return new(guard.Service).Do(ctx, minutely, op)
		},
		"Service that fails fast": func(ctx context.Context, op func(context.Context) error) error {
			return (&guard.Service{FailFast: true}).Do(ctx, minutely, op)
		},
		"a line": func(ctx context.Context, op func(context.Context) error) error {
			s := guard.Service{Breaker: new(backoff.Breaker)}
			s.Breaker.Trip()
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			return s.Do(ctx, minutely, op)
		},
		"hedge": func(ctx context.Context, op func(context.Context) error) error {
			_, err := hedge.Value(ctx, new(hedge.Hedge), func(ctx context.Context) (int, error) { return 0, op(ctx) }, nil)
			return err
		},
		"detached hedge": func(ctx context.Context, op func(context.Context) error) error {
			h := hedge.Hedge{Detach: true}
			_, err := hedge.Value(ctx, &h, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }, nil)
			return err
		},
		"poll": func(ctx context.Context, op func(context.Context) error) error {
			return poll.Until(ctx, endless, func(ctx context.Context) (bool, error) { return false, op(ctx) })
		},
		"Concurrency": under(&limit.Concurrency{Max: 1}),
		"Rate":        under(&limit.Rate{Limiter: rate.NewLimiter(rate.Every(time.Minute), 1)}),
		"Pacer":       under(new(pace.Pacer)),
		"HoldOff":     under(new(pace.HoldOff)),
		"Limit":       under(new(adaptive.Limit)),
	}
}

// Who cancels a context says why by its cause, as signal.NotifyContext does.
func TestEveryLayerKeepsTheErrorAndTheCauseOfAContext(t *testing.T) {
	errCause := errors.New("shutting down")
	for i, op := range []func(context.Context) error{
		func(context.Context) error { return errDown },                  // the end comes in the wait after it
		func(ctx context.Context) error { return hold(ctx, time.Hour) }, // or in the attempt
	} {
		for _, before := range []bool{true, false} {
			for name, call := range everyLayer() {
				if !before && (name == "Breaker" || i == 0 && name == "hedge") || before && name == "a line" {
					continue // they return what op returns, wait for nothing, or refuse at once
				}
				for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
					synctest.Test(t, func(t *testing.T) {
						after := 10 * time.Second
						if before {
							after = 0
						}
						ctx, cancel := context.WithTimeoutCause(t.Context(), after, errCause)
						defer cancel()
						if ended == context.Canceled {
							own, end := context.WithCancelCause(t.Context())
							ctx = own
							if before {
								end(errCause)
							}
							time.AfterFunc(after, func() { end(errCause) })
						}
						err := call(ctx, op)
						require.ErrorIs(t, err, ended, name)
						if ended == context.Canceled || ctx.Err() != nil { // a deadline that is not awaited has no cause yet
							require.ErrorIs(t, err, errCause, "%s, before the call: %t", name, before)
						}
					})
				}
			}
		}
	}
}
