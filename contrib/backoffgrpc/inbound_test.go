package backoffgrpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/internal/inbound"
)

// stream is a grpc.ServerStream that has a context only.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

func TestTheDeadlineOfACallIsMarkedAsItsClients(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := backoffgrpc.UnaryServer(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) {
		require.True(t, inbound.Limits(ctx))
		return nil, nil
	})
	require.NoError(t, err)
	require.NoError(t, backoffgrpc.StreamServer(nil, stream{ctx: ctx}, nil, func(_ any, s grpc.ServerStream) error {
		require.True(t, inbound.Limits(s.Context()))
		return nil
	}))
}
