package backoffgrpc_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/guard"
)

// What waited for a connection until its time was over was not sent: grpc-go opened no
// stream for it.
func TestAnAttemptThatGotNoConnectionInItsTimeWasNotSent(t *testing.T) {
	ready := true
	for name, c := range map[string]struct {
		policy backoff.Policy
		up     time.Duration // when the server listens
		code   codes.Code
	}{
		"the server comes":         {backoff.Policy{AttemptTimeout: 2 * time.Second, MaxAttempts: 20, Idempotency: backoff.NonIdempotent}, 10 * time.Second, codes.OK},
		"the server does not come": {backoff.Policy{AttemptTimeout: 2 * time.Second, MaxAttempts: 3, Idempotency: backoff.NonIdempotent}, time.Hour, codes.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{unary: fails(0, 0)}
			n := newNetwork(t, s)
			began := time.Now()
			config := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {WaitForReady: &ready, Policy: c.policy}}}
			client := pb.NewTestServiceClient(connect(t, "example.test", config, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				if time.Since(began) < c.up {
					return nil, errors.New("connection refused")
				}
				return n.DialContext(ctx)
			})))
			_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
			require.Equal(t, c.code, status.Code(err), "%s: %v", name, err)
			if c.code == codes.OK {
				require.Equal(t, 1, s.calls())
				return
			}
			gave := policyError(t, err)
			require.Equal(t, c.policy.MaxAttempts, gave.Attempts, "%s: %v", name, err)
			require.Equal(t, backoff.ReasonAttempts, gave.Reason, name)
			require.Equal(t, backoff.ClassNotSent, gave.Class(), name)
			require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		})
	}
}

// A server that is away fails calls that wait for it, and not only those that do not.
func TestACallThatWaitsForReadyEndsAtItsDeadline(t *testing.T) {
	ready := true
	synctest.Test(t, func(t *testing.T) {
		config := guarded(backoff.Policy{}, new(guard.Services))
		config.Methods[""] = backoffgrpc.Method{WaitForReady: &ready, Policy: config.Methods[""].Policy}
		client := pb.NewTestServiceClient(connect(t, "example.test", config, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return nil, errors.New("connection refused")
		})))
		for range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			began := time.Now()
			_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
			cancel()
			require.Equal(t, codes.DeadlineExceeded, status.Code(err))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 5*time.Second, time.Since(began))
		}
	})
}

func TestEveryAttemptTellsTheServerTheTimeThatIsLeftForIt(t *testing.T) {
	var left []time.Duration
	synctest.Test(t, func(t *testing.T) {
		s := &service{unary: func(ctx context.Context, n int) error {
			up, _ := backoffgrpc.UpstreamFrom(ctx)
			left = append(left, time.Until(up.Deadline))
			time.Sleep(time.Second)
			return fails(4, codes.Unavailable)(ctx, n)
		}}
		n := newNetwork(t, s)
		client := n.dial(t, retrying(func(p *backoff.Policy) {
			p.MaxAttempts, p.AttemptTimeout, p.Schedule, p.Jitter = -1, 3*time.Second, backoff.Constant(time.Second), backoff.NoJitter
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second+time.Second/2)
		defer cancel()
		_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		require.NoError(t, err)
	})
	for i := range left {
		left[i] = left[i].Round(10 * time.Millisecond)
	}
	require.Equal(t, []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second, 1500 * time.Millisecond}, left)
}

func TestADeadlineBeyondAllBoundsIsTold(t *testing.T) {
	s := &service{unary: fails(1, codes.Unavailable)}
	client := dial(t, s.serve(t), retrying())
	for _, deadline := range []time.Time{time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Unix(1<<40, 0)} {
		s.reset()
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		cancel()
		require.NoError(t, err)
		require.Equal(t, 2, s.calls())
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	s.reset()
	_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.Zero(t, s.calls())
}
