package backoffgrpc_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/endpoint"
	"github.com/gobackoff/backoff/hedge"
)

// sightings keeps what observers hear, and of which endpoint.
type sightings struct {
	mu    sync.Mutex
	lines []string
	last  *endpoint.Endpoint
}

func (s *sightings) observe(ctx context.Context, e backoff.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = endpoint.Of(ctx)
	s.lines = append(s.lines, fmt.Sprintf("%s: %s: %s", e.Name, s.last.Name, e.Kind))
}

func TestAnObserverLearnsTheServerAndTheMethodOfACall(t *testing.T) {
	var seen sightings
	s := &service{unary: fails(2, codes.Unavailable)}
	addr := s.serve(t)
	require.NoError(t, call(t, dial(t, addr, retrying(func(p *backoff.Policy) { p.Observer = seen.observe }))))
	require.Equal(t, []string{
		"call: " + addr + "/grpc.testing.TestService/UnaryCall: retry",
		"call: " + addr + "/grpc.testing.TestService/UnaryCall: retry",
		"call: " + addr + "/grpc.testing.TestService/UnaryCall: success",
	}, seen.lines)
	require.Equal(t, "passthrough:///"+addr, seen.last.Service)
	a := seen.last.Attempts()
	require.EqualValues(t, 1, a.Succeeded.Count())
	require.EqualValues(t, 2, a.Failed.Count())
	require.Zero(t, a.InFlight)
}

func TestTheObserverOfAHedgeLearnsTheMethod(t *testing.T) {
	var seen sightings
	s := &service{unary: func(_ context.Context, n int) error {
		if n == 1 {
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	}}
	addr := s.serve(t)
	require.NoError(t, call(t, dial(t, addr, &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{
		"": {Hedge: &hedge.Hedge{Name: "call", Delay: time.Millisecond, Observer: seen.observe}},
	}})))
	require.Contains(t, seen.lines, "call: "+addr+"/grpc.testing.TestService/UnaryCall: success")
}

func TestTheObserverOfAStreamLearnsTheMethod(t *testing.T) {
	var seen sightings
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error {
		if n == 1 {
			return fails(1, codes.Unavailable)(stream.Context(), n)
		}
		return echo(stream)
	}}
	addr := s.serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := dial(t, addr, retrying(func(p *backoff.Policy) { p.Observer = seen.observe })).FullDuplexCall(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(text("hello")))
	require.NoError(t, stream.CloseSend())
	for err == nil {
		_, err = stream.Recv()
	}
	require.Equal(t, io.EOF, err)
	require.Equal(t, "call: "+addr+"/grpc.testing.TestService/FullDuplexCall: retry", seen.lines[0])
}

func TestMethodsThatAStrangerNamesShareAnEndpointInTheEnd(t *testing.T) {
	all := make(map[*endpoint.Endpoint]bool)
	config := retrying(func(p *backoff.Policy) {
		p.Observer = func(ctx context.Context, _ backoff.Event) { all[endpoint.Of(ctx)] = true }
	})
	conn, err := grpc.NewClient("passthrough:///example.test", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	unary := config.Unary()
	methods := []string{"/strange/" + strings.Repeat("x", 1<<20)}
	for i := range 3000 {
		methods = append(methods, fmt.Sprintf("/strange/%d", i))
	}
	for _, method := range methods {
		require.NoError(t, unary(t.Context(), method, nil, nil, conn,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }))
	}
	require.Len(t, all, 1024+1)
	for e := range all {
		require.True(t, e.Name == "other" || strings.HasPrefix(e.Name, "example.test/strange/"), e.Name)
		require.Less(t, len(e.Name), 100, "a long one takes no memory")
	}
}

func TestTheTypeOfAnErrorIsTheNameOfTheCodeInTheSpecification(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
		codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
		codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
		codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
		codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE",
		codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED", codes.Code(17): "UNKNOWN", codes.Code(1 << 31): "UNKNOWN",
	} {
		require.Equal(t, want, backoffslog.ErrorType(status.Error(code, "")))
	}
}
