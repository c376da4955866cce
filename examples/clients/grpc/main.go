// Command grpc calls a gRPC server through a proxy. Watch six calls: the server
// is unavailable, asks for waits, loses its connection, and hangs, in which
// case a hedge is sent. All six succeed.
//
// The server is one of grpc-go's own test services, on loopback, so nothing
// else has to run.
//
//	go run -C examples/clients ./grpc
package main

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/hedge"
)

func main() {
	journal.Main(func(ctx context.Context, out io.Writer) error {
		_, err := run(ctx, out)
		return err
	})
}

// A service fails as the steps of the example say.
type service struct {
	pb.UnimplementedTestServiceServer
	calls atomic.Int64
	fail  func(ctx context.Context) error // of the next call
}

// UnaryCall implements the test service.
func (s *service) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{}, s.serve(ctx)
}

// EmptyCall implements the test service.
func (s *service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	return &pb.Empty{}, s.serve(ctx)
}

func (s *service) serve(ctx context.Context) error {
	s.calls.Add(1)
	fail := s.fail
	if up, _ := backoffgrpc.UpstreamFrom(ctx); fail == nil || up.Attempt > 1 {
		return nil
	}
	return fail(ctx)
}

// config returns a configuration that retries UnaryCall and hedges EmptyCall.
func config(log *journal.Journal) *backoffgrpc.Config {
	policy := backoff.Policy{Name: "UnaryCall", Schedule: backoff.Exponential{Initial: 50 * time.Millisecond}, MaxAttempts: 8}
	policy.Observer = log.Observe
	return &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{
		"/grpc.testing.TestService/UnaryCall": {Policy: policy},
		"/grpc.testing.TestService/EmptyCall": {Hedge: &hedge.Hedge{Delay: 30 * time.Millisecond, Observer: log.Observe}},
	}}
}

// keepAlive closes a connection that is silent for 12 s. Without it every retry and later
// call goes to a connection that died silently, for a quarter of an hour. 10 s is the
// least that grpc-go accepts.
var keepAlive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second}

// allowed permits pings that often. By default a server of grpc-go closes the connection
// of a client that asks more often than each 5 minutes.
var allowed = keepalive.EnforcementPolicy{MinTime: 5 * time.Second}

// run returns how many calls the server got.
func run(ctx context.Context, out io.Writer) (calls int64, err error) {
	log := journal.New(out)
	defer log.Sum()
	s := &service{}
	proxy, stop, err := s.start()
	if err != nil {
		return 0, err
	}
	defer stop()
	conn, err := dial(proxy.Addr(), config(log))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	client := pb.NewTestServiceClient(conn)
	for _, step := range s.steps(proxy) {
		log.Say("-- %s", step.what)
		s.fail = step.fail
		if step.hedged {
			_, err = client.EmptyCall(ctx, &pb.Empty{})
		} else {
			_, err = client.UnaryCall(ctx, &pb.SimpleRequest{})
		}
		if err != nil {
			return s.calls.Load(), err
		}
	}
	log.Say("all calls succeeded; the server got %d", s.calls.Load())
	return s.calls.Load(), nil
}

// dial returns a client's connection.
func dial(addr string, config *backoffgrpc.Config) (*grpc.ClientConn, error) {
	options := append(config.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepAlive),
	)
	return grpc.NewClient("passthrough:///"+addr, options...)
}

// A step is one call, and how its first attempt fails.
type step struct {
	what   string
	fail   func(context.Context) error
	hedged bool
}

func (s *service) steps(proxy *fault.Proxy) []step {
	return []step{
		{what: "nothing happens"},
		{what: "the server is unavailable", fail: func(context.Context) error {
			return status.Error(codes.Unavailable, "starting")
		}},
		{what: "the server is full, and says for how long", fail: func(context.Context) error {
			return backoffgrpc.RetryAfter(status.Error(codes.ResourceExhausted, "full"), 100*time.Millisecond)
		}},
		{what: "the server pushes back by exactly 80 ms", fail: func(ctx context.Context) error {
			backoffgrpc.Pushback(ctx, 80*time.Millisecond)
			return status.Error(codes.Unavailable, "busy")
		}},
		{what: "the connection is lost", fail: func(ctx context.Context) error {
			proxy.Cut()
			<-ctx.Done()
			return ctx.Err()
		}},
		{what: "an attempt hangs, and a hedge is sent", hedged: true, fail: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}},
	}
}

// start starts the server and a proxy in front of it.
func (s *service) start() (*fault.Proxy, func(), error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(backoffgrpc.UnaryServer), grpc.KeepaliveEnforcementPolicy(allowed))
	pb.RegisterTestServiceServer(server, s)
	go server.Serve(l)
	proxy, err := new(fault.Injector).Proxy(l.Addr().String())
	if err != nil {
		server.Stop()
		return nil, nil, err
	}
	return proxy, func() { proxy.Close(); server.Stop() }, nil
}
