package backoffgrpc_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
)

// Reads are hedged. Writes are retried if they cannot have arrived. All other
// calls are retried. If the server says RESOURCE_EXHAUSTED, calls slow down to
// what it takes. While it is down, they fail at once.
func ExampleConfig() {
	config := &backoffgrpc.Config{Services: new(guard.Services), Methods: map[string]backoffgrpc.Method{
		"":                 {},
		"/shop.Orders/Get": {Hedge: &hedge.Hedge{}},
		"/shop.Orders/Add": {Policy: backoff.Policy{Idempotency: backoff.NonIdempotent}, Timeout: 5 * time.Second},
	}}
	options := append(config.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("dns:///orders.example", options...)
	fmt.Println(err, config.Validate())
	conn.Close()
	// Output: <nil> <nil>
}

// Reads are retried. All other calls are sent again only if no server has seen
// them. A retry does not go over a connection that has gone silent for 15 seconds.
func ExampleConfig_idempotent() {
	ready := true
	config := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{
		"/shop.Orders/Get":  {WaitForReady: &ready, Policy: backoff.Policy{Name: "get"}},
		"/shop.Orders/List": {WaitForReady: &ready, Policy: backoff.Policy{Name: "list"}},
		"":                  {WaitForReady: &ready, Policy: backoff.Policy{Name: "orders", Idempotency: backoff.NonIdempotent}},
	}}
	alive := keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}
	options := append(config.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithKeepaliveParams(alive))
	conn, err := grpc.NewClient("dns:///orders.example", options...)
	fmt.Println(err, config.Validate())
	conn.Close()
	// Output: <nil> <nil>
}

func ExampleParseServiceConfig() {
	config, err := backoffgrpc.ParseServiceConfig([]byte(`{"methodConfig": [{
		"name": [{"service": "shop.Orders"}],
		"retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s",
			"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
	if err != nil {
		panic(err)
	}
	policy := config.Methods["/shop.Orders/"].Policy
	fmt.Println(policy.MaxAttempts, policy.Retryable(status.Error(codes.Unavailable, "")), policy.Retryable(status.Error(codes.Aborted, "")))
	// Output: 4 true false
}

func ExampleUnaryServer() {
	server := grpc.NewServer(grpc.UnaryInterceptor(backoffgrpc.UnaryServer), grpc.StreamInterceptor(backoffgrpc.StreamServer))
	defer server.Stop()
	handler := func(ctx context.Context) error {
		if up, ok := backoffgrpc.UpstreamFrom(ctx); ok && up.Attempt > 3 {
			backoffgrpc.DoNotRetry(ctx)
		}
		return backoffgrpc.RetryAfter(status.Error(codes.ResourceExhausted, "too many"), time.Second)
	}
	fmt.Println(status.Code(handler(context.Background())))
	// Output: ResourceExhausted
}

// A server that calls another one answers with the status of that one.
func ExampleStatus() {
	policy := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)}
	err := policy.Do(context.Background(), func(context.Context) error {
		return status.Error(codes.Unavailable, "the index is being rebuilt")
	})
	fmt.Println(status.Convert(err).Message())
	fmt.Println(backoffgrpc.Status(err).Message())
	// Output:
	// backoff: gave up after 2 attempts: rpc error: code = Unavailable desc = the index is being rebuilt
	// the index is being rebuilt
}
