package migrate

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/gobackoff/backoff"
)

func hereBreaker() (do func(context.Context, operation) error) {
	breaker := &backoff.Breaker{
		Name:                "search",
		ConsecutiveFailures: 6,
		ConsecutiveSpan:     -1,
		FailureRate:         -1,
		ProbeSuccesses:      1,
		OpenFor:             backoff.Constant(time.Minute),
		Jitter:              backoff.NoJitter,
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventTransition {
				log.Printf("%s: %v to %v", e.Name, e.Transition.From, e.Transition.To)
			}
		},
	}
	return func(ctx context.Context, save operation) error {
		err := breaker.Do(ctx, save)
		return err
	}
}

func hereBreakerValue(breaker *backoff.Breaker, ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	page, err := backoff.DoValue(ctx, breaker, fetch)
	if open, ok := errors.AsType[*backoff.OpenError](err); ok {
		log.Printf("try again in %v", open.RetryAfter())
		return "", errBusy
	}
	return page, err
}

func hereBreakerTwoStep(breaker *backoff.Breaker, ctx context.Context, save operation) error {
	done, err := breaker.Allow()
	if err != nil {
		return err
	}
	err = save(ctx)
	done(err)
	return err
}
