//go:build nightly

package plugtest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

func tellLevel(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IdempotencyLevel != connect.IdempotencyUnknown {
			ctx = backoffhttp.WithRetry(ctx, func(p *backoff.Policy) { p.Idempotency = backoff.Idempotent })
		}
		return next(ctx, req)
	}
}

func connectClient(url string, options ...connect.ClientOption) *connect.Client[pb.Empty, pb.Empty] {
	client := backoffhttp.Client(backoff.Policy{Name: "ping", Idempotency: backoffhttp.RepeatAfter429})
	return connect.NewClient[pb.Empty, pb.Empty](client, url,
		append(options, connect.WithInterceptors(connect.UnaryInterceptorFunc(tellLevel)))...)
}

// A call is repeated after a 503 only if the schema says that it may be.
func TestAConnectCallIsRepeatedAsItsSchemaSays(t *testing.T) {
	for _, row := range []struct {
		failure connect.Code
		level   connect.IdempotencyLevel
		calls   int
	}{
		{connect.CodeResourceExhausted, connect.IdempotencyUnknown, 2}, // 429
		{connect.CodeUnavailable, connect.IdempotencyUnknown, 1},       // 503
		{connect.CodeUnavailable, connect.IdempotencyIdempotent, 2},
	} {
		calls := 0
		handler := connect.NewUnaryHandler("/ping", func(context.Context, *connect.Request[pb.Empty]) (*connect.Response[pb.Empty], error) {
			if calls++; calls == 1 {
				return nil, connect.NewError(row.failure, nil)
			}
			return connect.NewResponse(&pb.Empty{}), nil
		})
		server := httptest.NewServer(http.Handler(handler))
		client := connectClient(server.URL+"/ping", connect.WithIdempotency(row.level))

		_, err := client.CallUnary(t.Context(), connect.NewRequest(&pb.Empty{}))

		require.Equal(t, row.calls, calls, "%v, %v: %v", row.failure, row.level, err)
		require.Equal(t, row.calls == 2, err == nil)
		server.Close()
	}
}
