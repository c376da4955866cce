package plug

import (
	"context"
	"math"
	"time"

	"github.com/gobackoff/backoff"
)

// GRPCRetry has a policy's hooks for go-grpc-middleware/v2/interceptors/retry.
// See [GRPC].
type GRPCRetry struct{ rule }

// GRPC returns p as the three hooks of go-grpc-middleware's retry interceptor:
//
//	p := backoff.Policy{Classify: plug.OnCode(status.Code, codes.Unavailable)}
//	hooks := plug.GRPC(p)
//	retry.UnaryClientInterceptor(
//		retry.WithMax(hooks.Max()),
//		retry.WithBackoff(hooks.Backoff),
//		retry.WithRetriable(hooks.Retriable),
//		retry.WithOnRetryCallback(hooks.OnRetry),
//	)
//
// This package does not import gRPC's codes, so p.Classify must read them;
// without Classify no status is known, and none is retried. MaxAttempts (by
// Max; the smallest, if ByClass has others), Schedule, Jitter (without its
// memory of the previous wait), MaxDelay, Classify and Observer (of retries)
// hold. The hooks do not see trailers, and so not the server's pushback: see
// contrib/backoffgrpc.
//
// An invalid policy, and one with NonIdempotent, retries nothing. A policy
// without a limit of attempts makes 4, because the hooks cannot refuse a call
// that has no deadline. A GRPCRetry is safe for concurrent use.
func GRPC(p backoff.Policy) *GRPCRetry { return &GRPCRetry{newRule(p)} }

// Max returns the number of attempts, the first included.
func (g *GRPCRetry) Max() uint {
	if n := g.attempts(); n > 0 {
		return uint(n)
	}
	return 4
}

// Backoff returns the wait before a retry, counted from 1.
func (g *GRPCRetry) Backoff(_ context.Context, retry uint) time.Duration {
	return g.delay(int(min(retry, math.MaxInt)))
}

// Retriable reports whether a call that failed with err may be sent again;
// false for nil.
func (g *GRPCRetry) Retriable(err error) bool {
	return g.retryable(err) && g.repeatable(context.Background(), err)
}

// OnRetry calls p.Observer for a retry, counted from 1, after a failure.
func (g *GRPCRetry) OnRetry(ctx context.Context, retry uint, err error) {
	g.policy.Observer.Notify(ctx, backoff.Event{
		Kind:        backoff.EventRetry,
		Name:        g.policy.Name,
		Attempt:     int(min(retry, math.MaxInt)),
		MaxAttempts: int(min(g.Max(), math.MaxInt)),
		Err:         err,
		Class:       g.class(err),
	})
}
