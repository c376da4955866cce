package backoffgrpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

// A service calls a healthy dependency under a breaker. Its clients choose how
// much time they leave it.
func TestAStrangersDeadlineOpensNoCircuit(t *testing.T) {
	dependency := &service{unary: func(ctx context.Context, _ int) error {
		select {
		case <-time.After(30 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	for name, config := range map[string]*backoffgrpc.Config{"without a policy": {}, "under a policy": retrying()} {
		t.Run(name, func(t *testing.T) {
			below := dial(t, dependency.serve(t), config)
			breaker := &backoff.Breaker{ConsecutiveSpan: -1}
			carry := func(ctx context.Context) error {
				return breaker.Do(ctx, func(ctx context.Context) error {
					_, err := below.UnaryCall(ctx, &pb.SimpleRequest{})
					return err
				})
			}
			front := &service{
				unary:  func(ctx context.Context, _ int) error { return carry(ctx) },
				duplex: func(stream pb.TestService_FullDuplexCallServer, _ int) error { return carry(stream.Context()) },
			}
			stranger := dial(t, front.serve(t), &backoffgrpc.Config{})
			within := func(d time.Duration) {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				stranger.UnaryCall(ctx, &pb.SimpleRequest{})
				ctx, cancel = context.WithTimeout(t.Context(), d)
				defer cancel()
				if stream, err := stranger.FullDuplexCall(ctx); err == nil {
					stream.Recv()
				}
			}
			for range 20 {
				within(time.Millisecond)
				within(15 * time.Millisecond)
			}
			require.Equal(t, backoff.BreakerClosed, breaker.State())
			require.Positive(t, dependency.calls())
			for range 5 {
				require.NoError(t, call(t, stranger))
			}
		})
	}
}

// A dependency that hangs is found out, though clients choose the deadlines.
func TestADeadlineThatLeftTimeEnoughOpensTheCircuit(t *testing.T) {
	for left, want := range map[time.Duration]backoff.BreakerState{time.Second: backoff.BreakerOpen, time.Second - 1: backoff.BreakerClosed} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			breaker := &backoff.Breaker{ConsecutiveSpan: -1, ConsecutiveFailures: 1}
			_, err := backoffgrpc.UnaryServer(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) {
				return nil, breaker.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			})
			require.Equal(t, codes.DeadlineExceeded, status.Code(err))
			require.Equal(t, want, breaker.State())
		})
	}
}
