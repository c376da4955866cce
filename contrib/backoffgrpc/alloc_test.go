//go:build !race

package backoffgrpc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/guard"
)

// The race detector allocates, so this runs without it.
func TestGuardsCostACallNoAllocation(t *testing.T) {
	conn := connect(t, "example.test", &backoffgrpc.Config{})
	request, reply := new(pb.SimpleRequest), new(pb.SimpleResponse)
	succeed := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	allocations := func(config *backoffgrpc.Config) float64 {
		unary := config.Unary()
		return testing.AllocsPerRun(100, func() { _ = unary(t.Context(), "/a.B/C", request, reply, conn, succeed) })
	}
	alone := allocations(guarded(backoff.Policy{}, nil))
	require.Equal(t, alone, allocations(guarded(backoff.Policy{}, new(guard.Services))))
	require.Equal(t, alone, allocations(waiting(backoff.Policy{})))
}
