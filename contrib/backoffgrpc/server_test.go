package backoffgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/internal/inbound"
)

// service is a real server that behaves as its fields say. The functions get
// the number of the call.
type service struct {
	pb.UnimplementedTestServiceServer
	unary  func(ctx context.Context, n int) error
	duplex func(stream pb.TestService_FullDuplexCallServer, n int) error
	input  func(stream pb.TestService_StreamingInputCallServer, n int) error

	mu       sync.Mutex
	n        int
	previous []string // grpc-previous-rpc-attempts of each call
	keys     []string // idempotency-key of each call
	times    []time.Time
}

func (s *service) enter(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.times = append(s.times, time.Now())
	previous := ""
	for _, v := range metadata.ValueFromIncomingContext(ctx, "grpc-previous-rpc-attempts") {
		previous += v
	}
	s.previous = append(s.previous, previous)
	s.keys = append(s.keys, strings.Join(metadata.ValueFromIncomingContext(ctx, "idempotency-key"), ","))
	return s.n
}

func (s *service) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func (s *service) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.keys = 0, nil
}

func (s *service) UnaryCall(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if err := s.unary(ctx, s.enter(ctx)); err != nil {
		return nil, err
	}
	return &pb.SimpleResponse{Username: "done", Payload: req.GetPayload()}, nil
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	return s.duplex(stream, s.enter(stream.Context()))
}

func (s *service) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	return s.input(stream, s.enter(stream.Context()))
}

// serve starts the server, and returns its address.
func (s *service) serve(t *testing.T) string { return s.serveOn(t, listen(t)) }

// serveOn starts the server on a listener.
func (s *service) serveOn(t *testing.T, l net.Listener) string {
	server := grpc.NewServer(grpc.UnaryInterceptor(backoffgrpc.UnaryServer), grpc.StreamInterceptor(backoffgrpc.StreamServer))
	pb.RegisterTestServiceServer(server, s)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

func dial(t *testing.T, addr string, c *backoffgrpc.Config) pb.TestServiceClient {
	return pb.NewTestServiceClient(connect(t, addr, c))
}

// connect returns a connection in plain text, unless an option says otherwise.
func connect(t *testing.T, addr string, c *backoffgrpc.Config, opts ...grpc.DialOption) *grpc.ClientConn {
	opts = append(append(c.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials())), opts...)
	conn, err := grpc.NewClient("passthrough:///"+addr, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// listen returns a listener of this machine.
func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// retrying is a config that retries everything after short waits.
func retrying(change ...func(*backoff.Policy)) *backoffgrpc.Config {
	p := backoff.Policy{Name: "call", Schedule: backoff.Constant(time.Millisecond)}
	for _, c := range change {
		c(&p)
	}
	return guarded(p, nil)
}

func call(t *testing.T, client pb.TestServiceClient, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := client.UnaryCall(ctx, &pb.SimpleRequest{}, opts...)
	return err
}

// receive opens a stream, and returns the error of the first RecvMsg.
func receive(ctx context.Context, client pb.TestServiceClient) error {
	stream, err := client.FullDuplexCall(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// policyError returns the error of the policy that gave up.
func policyError(t *testing.T, err error) *backoff.Error {
	t.Helper()
	gave, ok := errors.AsType[*backoff.Error](err)
	require.True(t, ok, "%v", err)
	return gave
}

// failsOnce fails the first call.
func failsOnce(err error) func(context.Context, int) error {
	return func(_ context.Context, n int) error {
		if n == 1 {
			return err
		}
		return nil
	}
}

func fails(times int, code codes.Code) func(context.Context, int) error {
	return func(_ context.Context, n int) error {
		if n <= times {
			return status.Error(code, "not now")
		}
		return nil
	}
}

// streams is what a stream answers whose service says the same to a unary call.
func streams(unary func(context.Context, int) error) func(pb.TestService_FullDuplexCallServer, int) error {
	return func(stream pb.TestService_FullDuplexCallServer, n int) error { return unary(stream.Context(), n) }
}

func TestServerTellsTheHandlerOfTheClientsLoop(t *testing.T) {
	var seen []backoffgrpc.Upstream
	s := &service{unary: func(ctx context.Context, n int) error {
		up, ok := backoffgrpc.UpstreamFrom(ctx)
		require.True(t, ok)
		seen = append(seen, up)
		return fails(2, codes.Unavailable)(ctx, n)
	}}
	require.NoError(t, call(t, dial(t, s.serve(t), retrying())))
	require.Len(t, seen, 3)
	for i, up := range seen {
		require.Equal(t, i+1, up.Attempt)
		require.WithinDuration(t, time.Now().Add(10*time.Second), up.Deadline, 2*time.Second)
	}
	_, ok := backoffgrpc.UpstreamFrom(t.Context())
	require.False(t, ok, "outside of a handler")
	require.Error(t, backoffgrpc.DoNotRetry(t.Context()))
	require.Error(t, backoffgrpc.Pushback(t.Context(), time.Second))
}

func TestServerIgnoresNonsense(t *testing.T) {
	for _, value := range []string{"-1", "x", "", "99999999999999999999", "1000"} {
		s := &service{unary: func(ctx context.Context, n int) error {
			up, _ := backoffgrpc.UpstreamFrom(ctx)
			require.Equal(t, 1, up.Attempt)
			return nil
		}}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "grpc-previous-rpc-attempts", value)
		_, err := dial(t, s.serve(t), &backoffgrpc.Config{}).UnaryCall(ctx, &pb.SimpleRequest{})
		require.NoError(t, err)
	}
}

func TestLayersDoNotMultiply(t *testing.T) {
	bottom := &service{unary: fails(99, codes.Unavailable)}
	below := dial(t, bottom.serve(t), retrying())
	top := &service{unary: func(ctx context.Context, _ int) error {
		_, err := below.UnaryCall(ctx, &pb.SimpleRequest{})
		return err
	}}
	err := call(t, dial(t, top.serve(t), retrying()))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, 1, top.calls(), "it was told not to retry")
	require.Equal(t, 4, bottom.calls())
}

func TestServerPassesRetryAfterOn(t *testing.T) {
	for name, fail := range map[string]error{
		"a marker":          backoff.RetryAfter(status.Error(codes.ResourceExhausted, "full"), 20*time.Millisecond),
		"RetryAfter":        backoffgrpc.RetryAfter(status.Error(codes.ResourceExhausted, "full"), 20*time.Millisecond),
		"both, in earnest":  backoff.RetryAfter(backoffgrpc.RetryAfter(status.Error(codes.ResourceExhausted, "full"), 20*time.Millisecond), time.Hour),
		"without a marker":  retryInfo(codes.ResourceExhausted, 20*time.Millisecond),
		"of an UNAVAILABLE": retryInfo(codes.Unavailable, 20*time.Millisecond),
	} {
		s := &service{unary: failsOnce(fail)}
		require.NoError(t, call(t, dial(t, s.serve(t), retrying())), name)
		require.GreaterOrEqual(t, s.times[1].Sub(s.times[0]), 20*time.Millisecond, name)
	}
}

func TestServerSendsRetryInfoUnlessTheErrorIsPermanent(t *testing.T) {
	full := status.Error(codes.ResourceExhausted, "full")
	opened := &backoff.Breaker{Name: "db", ConsecutiveFailures: 1, ConsecutiveSpan: -1}
	fail := func(context.Context) error { return backoff.OfClass(errors.New("db"), backoff.ClassRetryable) }
	opened.Do(t.Context(), fail)
	once := backoff.Policy{MaxAttempts: 1}
	for name, c := range map[string]struct {
		err  error
		told bool
	}{
		"an open circuit":         {opened.Do(t.Context(), fail), true},
		"a policy gave up":        {gaveUp(t.Context(), backoff.RetryAfter(full, time.Millisecond)), true},
		"after one attempt":       {once.Do(t.Context(), func(context.Context) error { return backoff.RetryAfter(full, time.Millisecond) }), true},
		"a permanent error":       {backoff.Permanent(backoff.RetryAfter(full, time.Millisecond)), false},
		"an error without a hint": {full, false},
	} {
		s := &service{unary: func(context.Context, int) error { return c.err }}
		details := status.Convert(call(t, dial(t, s.serve(t), &backoffgrpc.Config{}))).Details()
		require.Equal(t, c.told, len(details) > 0, name)
	}
}

func retryInfo(code codes.Code, d time.Duration) error {
	return backoffgrpc.RetryAfter(status.Error(code, "full"), d)
}

func TestRetryAfter(t *testing.T) {
	require.NoError(t, backoffgrpc.RetryAfter(nil, time.Second))
	err := backoffgrpc.RetryAfter(errors.New("bare"), -time.Second)
	require.Equal(t, codes.Unknown, status.Code(err))
	require.Equal(t, "Unknown", status.Convert(err).Message(), "it is for clients")
	require.Zero(t, status.Convert(err).Details()[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration())
	again := backoffgrpc.RetryAfter(err, time.Hour)
	require.Equal(t, err, again, "it has one")
}

// gaveUp is the error of a policy that gave up.
func gaveUp(ctx context.Context, last error) error {
	p := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)}
	return p.Do(ctx, func(context.Context) error { return last })
}

// okStatus is an error with the status of success, as a broken library may make
// one, or with none.
type okStatus struct{ status *status.Status }

func (okStatus) Error() string                { return secret }
func (e okStatus) GRPCStatus() *status.Status { return e.status }

const secret = "db at 10.0.0.7: password for user app is wrong"

func TestTheTextOfInternalErrorsStaysOnTheServer(t *testing.T) {
	internal := errors.New(secret)
	down := dial(t, "127.0.0.1:1", retrying())
	opened := &backoff.Breaker{Name: "db"}
	opened.Force(backoff.ModeForcedOpen)
	told := status.Error(codes.NotFound, "no such order")
	for name, c := range map[string]struct {
		err  error
		code codes.Code
		text string
	}{
		"an error":                  {internal, codes.Unknown, "Unknown"},
		"a deadline":                {fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), codes.DeadlineExceeded, "DeadlineExceeded"},
		"an end":                    {fmt.Errorf("%s: %w", secret, context.Canceled), codes.Canceled, "Canceled"},
		"gave up":                   {gaveUp(t.Context(), internal), codes.Unavailable, "Unavailable"},
		"an open circuit":           {fmt.Errorf("%s: %w", secret, backoff.ErrOpen), codes.Unavailable, "Unavailable"},
		"opened by a deadline":      {errors.Join(backoff.ErrOpen, context.DeadlineExceeded, internal), codes.Unavailable, "Unavailable"},
		"no budget":                 {fmt.Errorf("%s: %w", secret, backoff.ErrBudget), codes.Unavailable, "Unavailable"},
		"a hint":                    {backoff.RetryAfter(internal, time.Second), codes.Unknown, "Unknown"},
		"RetryAfter":                {backoffgrpc.RetryAfter(internal, time.Second), codes.Unknown, "Unknown"},
		"permanent":                 {backoff.Permanent(internal), codes.Unknown, "Unknown"},
		"a status":                  {told, codes.NotFound, "no such order"},
		"a marked status":           {backoff.Permanent(told), codes.NotFound, "no such order"},
		"a status within":           {fmt.Errorf("%s: %w", secret, told), codes.NotFound, "no such order"},
		"a status beside":           {errors.Join(internal, told), codes.NotFound, "no such order"},
		"a status with a hint":      {fmt.Errorf("%s: %w", secret, retryInfo(codes.Aborted, time.Second)), codes.Aborted, "full"},
		"gave up a status":          {gaveUp(t.Context(), fmt.Errorf("%s: %w", secret, told)), codes.NotFound, "no such order"},
		"the status of success":     {okStatus{status.New(codes.OK, "")}, codes.Unknown, "Unknown"},
		"a status that is nil":      {okStatus{}, codes.Unknown, "Unknown"},
		"a call that was refused":   {opened.Do(t.Context(), func(context.Context) error { return nil }), codes.Unavailable, "Unavailable"},
		"a call that did not start": {ended(t, down), codes.Canceled, "Canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			fail := func(context.Context, int) error { return c.err }
			s := &service{unary: fail, duplex: streams(fail)}
			client := dial(t, s.serve(t), &backoffgrpc.Config{})
			for _, err := range []error{call(t, client), receive(t.Context(), client)} {
				require.Equal(t, c.code, status.Code(err), "%v", err)
				require.Equal(t, c.text, status.Convert(err).Message())
				require.NotContains(t, status.Convert(err).Proto().String(), "10.0.0.7")
			}
		})
	}
}

// ended returns the error of a call whose context had ended, which has a text of
// this package's.
func ended(t *testing.T, client pb.TestServiceClient) error {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New(secret))
	_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
	require.ErrorContains(t, err, secret)
	return err
}

func TestInterceptorsAroundTheServersSeeTheWholeError(t *testing.T) {
	internal := errors.New(secret)
	answered := func(err error) error {
		_, out := backoffgrpc.UnaryServer(t.Context(), nil, nil, func(context.Context, any) (any, error) { return 1, err })
		return out
	}
	require.ErrorIs(t, answered(internal), internal)
	require.EqualError(t, answered(internal), secret)
	told := status.Error(codes.NotFound, "no such order")
	require.Same(t, told, answered(told), "a status goes out as it is")
	require.NoError(t, answered(nil))
}

func TestStatusIsThatOfTheOperation(t *testing.T) {
	detailed, err := status.New(codes.ResourceExhausted, "quota of the project").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)})
	require.NoError(t, err)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		err  error
		want *status.Status
	}{
		"nil":              {nil, nil},
		"a status":         {detailed.Err(), detailed},
		"wrapped":          {fmt.Errorf("load: %w", detailed.Err()), detailed},
		"marked":           {backoff.Permanent(detailed.Err()), detailed},
		"a policy gave up": {gaveUp(t.Context(), detailed.Err()), detailed},
		"two gave up":      {gaveUp(t.Context(), fmt.Errorf("load: %w", gaveUp(t.Context(), detailed.Err()))), detailed},
		"not called":       {gaveUp(cancelled, errors.New(secret)), status.New(codes.Canceled, "Canceled")},
		"refused a retry":  {errors.Join(backoff.ErrBudget, detailed.Err()), detailed},
	} {
		got := backoffgrpc.Status(c.err)
		require.True(t, proto.Equal(c.want.Proto(), got.Proto()), "%s: %v", name, got)
		require.Equal(t, c.want.Code(), got.Code(), name)
	}
	require.Contains(t, status.Convert(gaveUp(t.Context(), detailed.Err())).Message(), "gave up after", "what it is for")
	require.NoError(t, backoffgrpc.Status(nil).Err())
}

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
