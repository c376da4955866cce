package migrate

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/sony/gobreaker/v2"
)

func gobreakerBreaker() (do func(context.Context, operation) error) {
	breaker := gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		Name:        "search",
		Timeout:     time.Minute,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures > 5 },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: func(name string, from, to gobreaker.State) {
			log.Printf("%s: %v to %v", name, from, to)
		},
	})
	return func(ctx context.Context, save operation) error {
		_, err := breaker.Execute(func() (any, error) { return nil, save(ctx) })
		return err
	}
}

func gobreakerValue(breaker *gobreaker.CircuitBreaker[string], ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := breaker.Execute(func() (string, error) { return fetch(ctx) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return "", errBusy
	}
	return page, err
}

func gobreakerTwoStep(breaker *gobreaker.TwoStepCircuitBreaker[any], ctx context.Context, save operation) error {
	done, err := breaker.Allow()
	if err != nil {
		return err
	}
	err = save(ctx)
	done(err)
	return err
}
