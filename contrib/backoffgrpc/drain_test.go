package backoffgrpc_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

// orders is a service that counts how often each order was made.
type orders struct {
	pb.UnimplementedTestServiceServer
	made sync.Map // of *atomic.Int64, by the order
}

func (o *orders) UnaryCall(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	time.Sleep(time.Millisecond)
	times, _ := o.made.LoadOrStore(string(req.GetPayload().GetBody()), new(atomic.Int64))
	times.(*atomic.Int64).Add(1)
	return &pb.SimpleResponse{}, nil
}

// site is an address at which one server after the other serves the orders.
type site struct {
	orders
	opts []grpc.ServerOption

	mu     sync.Mutex
	addr   string
	server *grpc.Server
}

// replace starts a server, and returns the one before, which gets no new connection from
// then on.
func (s *site) replace(t *testing.T) *grpc.Server {
	next, l := grpc.NewServer(s.opts...), listen(t)
	pb.RegisterTestServiceServer(next, &s.orders)
	go next.Serve(l)
	t.Cleanup(next.Stop)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.server
	s.addr, s.server = l.Addr().String(), next
	return old
}

func (s *site) dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	addr := s.addr
	s.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// Each order must be made once, though it may not be repeated.
func TestAServerThatDrainsLosesNoCallAndDoesNoneTwice(t *testing.T) {
	for name, c := range map[string]struct {
		opts   []grpc.ServerOption
		drains int
	}{
		"GracefulStop": {nil, 10},
		"MaxConnectionAge": {[]grpc.ServerOption{grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: time.Minute,
		})}, 0},
	} {
		s := &site{opts: c.opts}
		s.replace(t)
		ready := true
		config := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {WaitForReady: &ready, Policy: backoff.Policy{Idempotency: backoff.NonIdempotent}}}}
		client := pb.NewTestServiceClient(connect(t, "orders.test", config, grpc.WithContextDialer(s.dial)))
		var wg sync.WaitGroup
		for worker := range 20 {
			wg.Go(func() {
				for i := range 100 {
					order := fmt.Sprint(worker, ".", i)
					_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(order)}})
					if err != nil {
						t.Errorf("%s: order %s: %v", name, order, err)
					}
				}
			})
		}
		for range c.drains {
			time.Sleep(10 * time.Millisecond)
			s.replace(t).GracefulStop()
		}
		wg.Wait()
		made := 0
		for order, times := range s.made.Range {
			made++
			require.EqualValues(t, 1, times.(*atomic.Int64).Load(), "%s: order %v", name, order)
		}
		require.Equal(t, 2000, made, name)
	}
}
