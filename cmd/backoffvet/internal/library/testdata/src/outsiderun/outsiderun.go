package outsiderun

import (
	"context"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

var (
	policy = backoff.Policy{Name: "send"}
	orders = &guard.Service{Name: "orders"}
)

func firstOutside(ctx context.Context, send func(context.Context) error) error {
	return sendTwice(ctx)
}

func send(ctx context.Context) error { return ctx.Err() }

func sendTwice(ctx context.Context) error {
	if err := send(ctx); err != nil { // want `first attempt outside`
		return policy.Do(ctx, func(ctx context.Context) error { return send(ctx) })
	}
	return nil
}

func sendThroughAService(ctx context.Context) error {
	err := send(ctx) // want `first attempt outside`
	if err != nil {
		err = orders.Do(ctx, policy, func(ctx context.Context) error { return send(ctx) })
	}
	return err
}

func another(ctx context.Context, ping func(context.Context) error) error {
	if err := ping(ctx); err != nil {
		return policy.Do(ctx, func(ctx context.Context) error { return send(ctx) })
	}
	return nil
}

func retriesWithoutBegin(ctx context.Context) error {
	r := policy.Start(ctx)
	err := send(ctx)
	if _, ok := r.Retry(err); ok { // want `no attempt of r has begun`
		return nil
	}
	return r.Err()
}

func begins(ctx context.Context) error {
	r := policy.Start(ctx)
	ctx, ok := r.Begin(0)
	for ok {
		wait, again := r.Retry(send(ctx))
		if !again {
			break
		}
		ctx, ok = r.Begin(wait)
	}
	return r.Err()
}

func given(ctx context.Context, r *backoff.Run) bool {
	_, ok := r.Retry(send(ctx))
	return ok
}
