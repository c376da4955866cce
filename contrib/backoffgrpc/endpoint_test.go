package backoffgrpc_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
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
	s := &service{unary: fails(2, codes.Unavailable), duplex: unavailable}
	addr := s.serve(t)
	config := retrying(func(p *backoff.Policy) { p.Observer = seen.observe })
	config.Services = new(guard.Services)
	client := dial(t, addr, config)
	require.NoError(t, call(t, client))
	require.Equal(t, []string{
		"call: " + addr + "/grpc.testing.TestService/UnaryCall: retry",
		"call: " + addr + "/grpc.testing.TestService/UnaryCall: retry",
		"call: " + addr + "/grpc.testing.TestService/UnaryCall: success",
	}, seen.lines)
	require.Equal(t, "passthrough:///"+addr, seen.last.Service)
	require.Equal(t, config.Services, seen.last.Services)
	a := seen.last.Attempts()
	require.EqualValues(t, 1, a.Succeeded.Count())
	require.EqualValues(t, 2, a.Failed.Count())
	require.Zero(t, a.InFlight)
	require.Error(t, receive(t.Context(), client))
	require.Equal(t, "call: "+addr+"/grpc.testing.TestService/FullDuplexCall: retry", seen.lines[3])
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
