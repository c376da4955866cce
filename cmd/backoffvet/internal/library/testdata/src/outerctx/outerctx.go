package outerctx

import (
	"context"
	"errors"
	"log"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/poll"
)

var (
	service guard.Service
	policy  = backoff.Policy{Name: "fetch"}
	hedged  hedge.Hedge
)

type row struct{ n int }

func fetch(ctx context.Context) error                  { return ctx.Err() }
func fetchRow(ctx context.Context, _ int) (row, error) { return row{}, ctx.Err() }
func user(ctx context.Context) string                  { return "" }

func unnamed(ctx context.Context) error {
	return policy.Do(ctx, func(context.Context) error {
		return fetch(ctx) // want `the function that Policy.Do gets ignores its own context and uses ctx: .*`
	})
}

func blank(ctx context.Context) (row, error) {
	return backoff.DoValue(ctx, policy, func(_ context.Context) (row, error) {
		return fetchRow(ctx, 1) // want `the function that DoValue gets ignores .*`
	})
}

func named(ctx context.Context) error {
	return policy.Do(ctx, func(attempt context.Context) error {
		return fetch(ctx) // want `ignores its own context`
	})
}

func nested(ctx context.Context) error {
	return policy.Do(ctx, func(context.Context) error {
		for i := range 3 {
			if _, err := fetchRow(ctx, i); err != nil { // want `ignores its own context`
				return err
			}
		}
		return fetch(ctx)
	})
}

func byVariable(ctx context.Context) error {
	op := func(context.Context) error {
		return fetch(ctx) // want `ignores its own context`
	}
	return service.Do(ctx, policy, op)
}

func derived(ctx context.Context) error {
	return policy.Do(ctx, func(context.Context) error {
		child, cancel := context.WithCancel(ctx) // want `ignores its own context`
		defer cancel()
		return fetch(child)
	})
}

func key(ctx context.Context) error {
	return policy.Do(ctx, func(context.Context) error {
		log.Print(backoff.IdempotencyKey(ctx)) // want `an idempotency key does not reach it`
		return nil
	})
}

// Its fix would change what ctx.Err() means.
func asksAndUses(ctx context.Context) error {
	return policy.Do(ctx, func(context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fetch(ctx) // want `ignores its own context`
	})
}

func hedging(ctx context.Context) (row, error) {
	return hedge.Value(ctx, &hedged, func(context.Context) (row, error) {
		return fetchRow(ctx, 1) // want `the function that hedge.Value gets`
	}, nil)
}

func polling(ctx context.Context) error {
	return poll.Until(ctx, policy, func(context.Context) (bool, error) {
		return true, fetch(ctx) // want `the function that poll.Until gets`
	})
}

func loop(ctx context.Context) error {
	r := policy.Start(ctx)
	for range r.Attempts() {
		err := fetch(ctx) // want `this loop ignores the contexts of its attempts and uses ctx`
		if err == nil {
			return nil
		}
		r.Fail(err)
	}
	return r.Err()
}

func loopBlank(ctx context.Context, r *backoff.Run) error {
	for _ = range r.Attempts() {
		if r.Fail(fetch(ctx)); r.Err() == nil { // want `this loop ignores`
			return nil
		}
	}
	return r.Err()
}

type client struct {
	backoff.Policy
	ctx context.Context
}

func (c *client) field() error {
	return c.Do(c.ctx, func(context.Context) error {
		return fetch(c.ctx) // want `the function that Policy.Do gets ignores its own context and uses c.ctx`
	})
}

// Those below are right.

func own(ctx context.Context) error {
	return policy.Do(ctx, func(ctx context.Context) error { return fetch(ctx) })
}

// both knows the difference.
func both(ctx context.Context) error {
	return policy.Do(ctx, func(attempt context.Context) error {
		if err := fetch(attempt); err != nil && ctx.Err() == nil {
			return errors.Join(err, fetch(ctx))
		}
		return nil
	})
}

func onlyAsks(ctx context.Context) error {
	return policy.Do(ctx, func(context.Context) error { return ctx.Err() })
}

func onlyReads(ctx context.Context) error {
	return policy.Do(ctx, func(context.Context) error {
		log.Print(user(ctx))
		return nil
	})
}

func cleansUp(ctx context.Context) error {
	return policy.Do(ctx, func(context.Context) error {
		defer fetch(ctx)
		go fetch(ctx)
		return fetch(context.WithoutCancel(ctx))
	})
}

// another context is there for a reason: what it makes outlives the call.
func otherContext(ctx, process context.Context) error {
	return policy.Do(ctx, func(context.Context) error { return fetch(process) })
}

func ofBreaker(ctx context.Context, b *backoff.Breaker) error {
	return b.Do(ctx, func(context.Context) error { return fetch(ctx) })
}

func noContext(ctx context.Context, work func() error) error {
	return policy.Do(ctx, func(context.Context) error { return work() })
}

func loopOwn(ctx context.Context) error {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		r.Fail(fetch(ctx))
	}
	return r.Err()
}

func loopWithout(ctx context.Context, work func() error) error {
	r := policy.Start(ctx)
	for range r.Attempts() {
		r.Fail(work())
	}
	return r.Err()
}
