package main

import (
	"context"
	"testing"
	"time"

	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

func TestEveryCallSucceeds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	calls, err := run(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if calls != 11 {
		t.Errorf("the server got %d calls, want 11: 6, and one more for each of the 5 that failed", calls)
	}
}

// A proxy swallows what comes on the connection, and nothing tells the client.
func TestACallLeavesAConnectionThatWentSilent(t *testing.T) {
	t.Parallel()
	s := &service{}
	proxy, stop, err := s.start()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	conn, err := dial(proxy.Addr(), &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {
		Policy: backoff.Policy{MaxAttempts: -1, AttemptTimeout: time.Second},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := pb.NewTestServiceClient(conn)
	for range 2 {
		if _, err := client.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
		if n := proxy.Connections(); n == 1 {
			proxy.Silence()
		}
	}
	if n := proxy.Connections(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}
