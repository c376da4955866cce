package backoffgrpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

// stream is a grpc.ServerStream that has a context only.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

// Clients choose how much time they leave a service. A short time says nothing
// about what the service calls, but a dependency that hangs is found out.
func TestAStrangersDeadlineOpensACircuitOnlyIfItLeftTimeEnough(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for left, want := range map[time.Duration]backoff.BreakerState{time.Second: backoff.BreakerOpen, time.Second - 1: backoff.BreakerClosed} {
		for name, serve := range map[string]func(context.Context, *backoff.Breaker) error{
			"unary": func(ctx context.Context, b *backoff.Breaker) error {
				_, err := backoffgrpc.UnaryServer(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) {
					return nil, b.Do(ctx, hang)
				})
				return err
			},
			"stream": func(ctx context.Context, b *backoff.Breaker) error {
				return backoffgrpc.StreamServer(nil, stream{ctx: ctx}, nil, func(_ any, s grpc.ServerStream) error {
					return b.Do(s.Context(), hang)
				})
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), left)
				defer cancel()
				breaker := &backoff.Breaker{ConsecutiveSpan: -1, ConsecutiveFailures: 1}
				require.Equal(t, codes.DeadlineExceeded, status.Code(serve(ctx, breaker)), name)
				require.Equal(t, want, breaker.State(), name)
			})
		}
	}
}
