package backoffgrpc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/guard"
)

// tokens are credentials that ask the server of the calls for each token.
type tokens struct{ client *pb.TestServiceClient }

func (t tokens) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if md, _ := metadata.FromOutgoingContext(ctx); len(md.Get("x-token")) > 0 {
		return nil, nil // this is the call for a token
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := (*t.client).UnaryCall(metadata.AppendToOutgoingContext(ctx, "x-token", "y"), &pb.SimpleRequest{})
	return map[string]string{"authorization": "token"}, err
}

func (tokens) RequireTransportSecurity() bool { return false }

// asking is an interceptor that makes a call of its own to the same server before each.
func asking(client *pb.TestServiceClient) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if _, err := (tokens{client}).GetRequestMetadata(ctx); err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

// A guard that a call asks again while it holds the only probe would refuse it for ever.
func TestACallThatCallsItsOwnServiceOutlivesAnOutage(t *testing.T) {
	for name, option := range map[string]func(*pb.TestServiceClient) grpc.DialOption{
		"credentials": func(c *pb.TestServiceClient) grpc.DialOption { return grpc.WithPerRPCCredentials(tokens{c}) },
		"interceptor": func(c *pb.TestServiceClient) grpc.DialOption { return grpc.WithChainUnaryInterceptor(asking(c)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			s := &service{unary: func(context.Context, int) error {
				if down.Load() {
					return status.Error(codes.Unavailable, "not now")
				}
				return nil
			}}
			services := new(guard.Services)
			config := guarded(backoff.Policy{}, services)
			n := newNetwork(t, s)
			var client pb.TestServiceClient
			client = n.dial(t, config, option(&client))
			require.NoError(t, call(t, client))
			down.Store(true)
			for range 30 {
				require.Error(t, call(t, client), name)
			}
			_, breaker := services.For("passthrough:///example.test").Parts()
			require.NotEqual(t, backoff.BreakerClosed, breaker.State(), name)
			down.Store(false)
			time.Sleep(10 * time.Second)
			for range 20 {
				require.NoError(t, call(t, client), name)
			}
			require.Equal(t, backoff.BreakerClosed, breaker.State(), name)
		})
	}
}

// throttling answers tenant a that it is too fast, and others at once.
func throttling(ctx context.Context, _ int) error {
	if metadata.ValueFromIncomingContext(ctx, "tenant")[0] == "a" {
		return backoffgrpc.RetryAfter(status.Error(codes.ResourceExhausted, "quota of a"), time.Second)
	}
	return nil
}

func TestATenantWithServicesOfItsOwnIsNotThrottledByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, &service{unary: throttling})
		breaker := new(backoff.Breaker) // of the server, for both
		tenant := func() *backoffgrpc.Config {
			return guarded(backoff.Policy{}, &guard.Services{New: func(key string) *guard.Service {
				return &guard.Service{Name: key, Breaker: breaker}
			}})
		}
		a, b := n.dial(t, tenant()), n.dial(t, tenant())
		as := func(name string) context.Context {
			return metadata.AppendToOutgoingContext(t.Context(), "tenant", name)
		}
		for range 50 {
			go func() {
				ctx, cancel := context.WithTimeout(as("a"), time.Minute)
				defer cancel()
				a.UnaryCall(ctx, &pb.SimpleRequest{})
			}()
		}
		for range 30 {
			time.Sleep(time.Second)
			began := time.Now()
			_, err := b.UnaryCall(as("b"), &pb.SimpleRequest{})
			require.NoError(t, err)
			require.Less(t, time.Since(began), 10*time.Millisecond, "it waits for nobody")
		}
	})
}
