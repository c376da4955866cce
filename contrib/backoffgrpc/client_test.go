package backoffgrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/hedge"
)

func TestCodesThatAreRetried(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		s := &service{unary: fails(1, code)}
		err := call(t, dial(t, s.serve(t), retrying()))
		if code == codes.Unavailable {
			require.NoError(t, err)
			require.Equal(t, 2, s.calls())
			continue
		}
		require.Equal(t, 1, s.calls(), "%v", code)
		require.Equal(t, code, status.Code(err))
		require.Equal(t, "not now", status.Convert(err).Message(), "a permanent error comes as it was sent")
		require.False(t, backoff.Policy{}.Retryable(err), "and is permanent to policies around")
	}
}

func TestClassify(t *testing.T) {
	require.Equal(t, backoff.ClassPermanent, backoffgrpc.Classify(nil))
	require.Equal(t, backoff.ClassRetryable, backoffgrpc.Classify(status.Error(codes.Unavailable, "")))
	require.Equal(t, backoff.ClassOverloaded, backoffgrpc.Classify(status.Error(codes.ResourceExhausted, "")))
	require.Equal(t, backoff.ClassPermanent, backoffgrpc.Classify(status.Error(codes.ResourceExhausted, "grpc: received message larger than max (2 vs. 1)")))
	require.Equal(t, backoff.ClassThrottled, backoffgrpc.Classify(retryInfo(codes.ResourceExhausted, time.Second)))
	require.Equal(t, backoff.ClassPermanent, backoffgrpc.Classify(errors.New("of something else")))
}

func TestGivingUpKeepsTheStatus(t *testing.T) {
	s := &service{unary: fails(99, codes.Unavailable)}
	err := call(t, dial(t, s.serve(t), retrying()))
	require.Equal(t, 4, s.calls())
	require.Equal(t, []string{"", "1", "2", "3"}, s.previous)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, 4, policyError(t, err).Attempts)
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.False(t, backoff.Policy{}.Retryable(err))
}

func TestObserversSeeTheTrailerAndTheCodeInTheHeaderOfAnEvent(t *testing.T) {
	s := &service{unary: func(ctx context.Context, n int) error {
		grpc.SetTrailer(ctx, metadata.Pairs("x-request-id", "7f1c"))
		return fails(1, codes.Unavailable)(ctx, n)
	}}
	var seen []map[string][]string
	require.NoError(t, call(t, dial(t, s.serve(t), retrying(func(p *backoff.Policy) {
		p.Observer = func(_ context.Context, e backoff.Event) { seen = append(seen, e.Header) }
	}))))
	require.Len(t, seen, 2, "a retry and a success")
	require.Equal(t, []string{"7f1c"}, seen[0]["x-request-id"])
	require.Equal(t, []string{"14"}, seen[0]["grpc-status"])
}

func TestOfManyRetryInfosTheLongestCountsAndNegativeOnesDoNot(t *testing.T) {
	info := func(d *durationpb.Duration) *errdetails.RetryInfo { return &errdetails.RetryInfo{RetryDelay: d} }
	for name, c := range map[string]struct {
		infos []protoadapt.MessageV1
		wait  time.Duration
		calls int
	}{
		"two":               {[]protoadapt.MessageV1{info(durationpb.New(time.Millisecond)), info(durationpb.New(100 * time.Millisecond))}, 100 * time.Millisecond, 2},
		"two, other order":  {[]protoadapt.MessageV1{info(durationpb.New(100 * time.Millisecond)), info(durationpb.New(time.Millisecond))}, 100 * time.Millisecond, 2},
		"negative":          {[]protoadapt.MessageV1{info(durationpb.New(-time.Second))}, 0, 1},
		"none":              {[]protoadapt.MessageV1{info(nil)}, 0, 1},
		"negative and one":  {[]protoadapt.MessageV1{info(durationpb.New(-time.Second)), info(durationpb.New(50 * time.Millisecond))}, 50 * time.Millisecond, 2},
		"beyond all bounds": {[]protoadapt.MessageV1{info(&durationpb.Duration{Seconds: math.MaxInt64, Nanos: math.MaxInt32})}, 0, 1},
		"below all bounds":  {[]protoadapt.MessageV1{info(&durationpb.Duration{Seconds: math.MinInt64, Nanos: math.MinInt32})}, 0, 1},
	} {
		full, err := status.New(codes.ResourceExhausted, "full").WithDetails(c.infos...)
		require.NoError(t, err)
		s := &service{unary: failsOnce(full.Err())}
		err = call(t, dial(t, s.serve(t), retrying()))
		require.Equal(t, c.calls, s.calls(), "%s: %v", name, err)
		if c.calls == 2 {
			require.GreaterOrEqual(t, s.times[1].Sub(s.times[0]), c.wait, name)
		}
	}
}

func TestPushbackOfTheServersHelpers(t *testing.T) {
	s := &service{unary: func(ctx context.Context, n int) error {
		require.NoError(t, backoffgrpc.Pushback(ctx, 10*time.Millisecond))
		return fails(1, codes.ResourceExhausted)(ctx, n)
	}}
	hours := func(p *backoff.Policy) { p.Schedule, p.Jitter = backoff.Constant(time.Hour), backoff.NoJitter }
	require.NoError(t, call(t, dial(t, s.serve(t), retrying(hours))), "RESOURCE_EXHAUSTED with a pushback")
	require.Less(t, s.times[1].Sub(s.times[0]), time.Second, "which is exact")
	s = &service{unary: func(ctx context.Context, n int) error {
		require.NoError(t, backoffgrpc.Pushback(ctx, -1))
		return fails(1, codes.Unavailable)(ctx, n)
	}}
	require.Error(t, call(t, dial(t, s.serve(t), retrying())))
	s = &service{unary: func(ctx context.Context, n int) error {
		require.NoError(t, backoffgrpc.DoNotRetry(ctx))
		return fails(1, codes.NotFound)(ctx, n)
	}}
	err := call(t, dial(t, s.serve(t), retrying()))
	_, ok := errors.AsType[*backoff.Error](err)
	require.False(t, ok, "a permanent error is no overload: %v", err)
}

func TestDeadlines(t *testing.T) {
	s := &service{unary: fails(99, codes.Unavailable)}
	client := dial(t, s.serve(t), retrying(func(p *backoff.Policy) { p.Schedule, p.Jitter = backoff.Constant(time.Minute), backoff.NoJitter }))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
	require.Less(t, time.Since(began), 3*time.Second, "a wait that cannot end in an attempt is not begun")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, codes.Unavailable, status.Code(err), "which the server said")

	ctx, cancel2 := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel2)
	_, err = client.UnaryCall(ctx, &pb.SimpleRequest{})
	require.Equal(t, codes.Canceled, status.Code(err))
	_, err = client.UnaryCall(ctx, &pb.SimpleRequest{})
	require.Equal(t, codes.Canceled, status.Code(err), "before the first attempt")
}

func TestAttemptTimeoutIsRetriedAndTheCallsIsNot(t *testing.T) {
	s := &service{unary: func(ctx context.Context, n int) error {
		if n == 1 {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		return nil
	}}
	require.NoError(t, call(t, dial(t, s.serve(t), retrying(func(p *backoff.Policy) { p.AttemptTimeout = 500 * time.Millisecond }))))
	require.Equal(t, 2, s.calls())

	s = &service{unary: func(ctx context.Context, n int) error { <-ctx.Done(); return status.FromContextError(ctx.Err()).Err() }}
	err := call(t, dialLimited(t, s, backoffgrpc.Method{Policy: retrying().Methods[""].Policy, Timeout: 500 * time.Millisecond}))
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.Equal(t, 1, s.calls())
}

// refusing returns an address that refuses connections, and a function that
// makes it accept them.
func refusing(t *testing.T, s *service) (string, *fault.Proxy) {
	p, err := new(fault.Injector).Proxy(s.serve(t))
	require.NoError(t, err)
	t.Cleanup(p.Close)
	p.Refuse()
	return p.Addr(), p
}

func TestWhatWasNeverSentIsRetriedThoughNotIdempotent(t *testing.T) {
	s := &service{unary: fails(0, 0)}
	addr, _ := refusing(t, s)
	client := dial(t, addr, retrying(func(p *backoff.Policy) { p.Idempotency = backoff.NonIdempotent }))
	require.Equal(t, 4, policyError(t, call(t, client)).Attempts)
	require.Equal(t, 4, policyError(t, receive(t.Context(), client)).Attempts, "a stream is no different")

	s = &service{unary: fails(1, codes.Unavailable), duplex: unavailable}
	client = dial(t, s.serve(t), retrying(func(p *backoff.Policy) { p.Idempotency = backoff.NonIdempotent }))
	require.Equal(t, codes.Unavailable, status.Code(call(t, client)))
	require.Equal(t, 1, s.calls(), "a server has seen it")
	require.Equal(t, codes.Unavailable, status.Code(receive(t.Context(), client)))
	require.Equal(t, 2, s.calls(), "a server has seen it")
}

func TestWaitForReadyIsRespected(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		method *bool
		opts   []grpc.CallOption
		waits  bool
	}{
		"of the call":           {nil, []grpc.CallOption{grpc.WaitForReady(true)}, true},
		"of the method":         {&yes, nil, true},
		"the call has the word": {&yes, []grpc.CallOption{grpc.WaitForReady(false)}, false},
		"not asked for":         {&no, nil, false},
	} {
		s := &service{unary: fails(0, 0)}
		addr, proxy := refusing(t, s)
		config := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {Policy: backoff.Policy{MaxAttempts: 1}, WaitForReady: c.method}}}
		if c.waits {
			time.AfterFunc(50*time.Millisecond, func() { proxy.Restore() })
		}
		err := call(t, dial(t, addr, config), c.opts...)
		require.Equal(t, c.waits, err == nil, "%s: %v", name, err)
	}
}

func TestResetsAreRetried(t *testing.T) {
	s := &service{unary: fails(0, 0)}
	addr, proxy := refusing(t, s)
	proxy.Restore()
	s.unary = func(ctx context.Context, n int) error {
		if n == 1 {
			proxy.Cut()
			<-ctx.Done()
		}
		return nil
	}
	config := retrying(func(p *backoff.Policy) { p.MaxAttempts = 20; p.Schedule = backoff.Constant(100 * time.Millisecond) })
	require.NoError(t, call(t, dial(t, addr, config)))
	require.Equal(t, 2, s.calls())
}

// A server that shuts down sends GOAWAY. grpc-go itself repeats the calls that
// the server has not processed, and the policy does not notice.
func TestTransparentRetriesAreUntouched(t *testing.T) {
	s := &service{unary: fails(0, 0)}
	addr := s.serveOn(t, &refusingFirst{Listener: listen(t)})
	var retries atomic.Int64
	config := retrying(func(p *backoff.Policy) {
		p.Observer = func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				retries.Add(1)
			}
		}
	})
	require.NoError(t, call(t, dial(t, addr, config), grpc.WaitForReady(true)))
	require.Zero(t, retries.Load())
	require.Equal(t, 1, s.calls())
	require.Equal(t, []string{""}, s.previous)
}

// refusingFirst refuses the streams of its first connection.
type refusingFirst struct {
	net.Listener
	refused atomic.Bool
}

func (l *refusingFirst) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || l.refused.Swap(true) {
		return conn, err
	}
	go refuseStreams(conn)
	return l.Listener.Accept()
}

// refuseStreams is an HTTP/2 server that sends GOAWAY with last stream 0 once
// it has received a stream.
func refuseStreams(conn net.Conn) {
	conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
	seen := make([]byte, 0, 1<<16)
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		seen = append(seen, buf[:n]...)
		if hasHeaders(seen) {
			conn.Write([]byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // GOAWAY
			time.Sleep(50 * time.Millisecond)
			conn.Close()
			return
		}
	}
}

// hasHeaders looks for a HEADERS frame after the preface.
func hasHeaders(b []byte) bool {
	const preface = 24
	for i := preface; i+9 <= len(b); {
		if b[i+3] == 1 {
			return true
		}
		i += 9 + int(b[i])<<16 + int(b[i+1])<<8 + int(b[i+2])
	}
	return false
}

func TestHedge(t *testing.T) {
	var seen sightings
	hedged := func(t *testing.T, delay time.Duration) *backoffgrpc.Config {
		budget := new(places)
		t.Cleanup(func() { require.Eventually(t, budget.free, 5*time.Second, time.Millisecond) })
		return &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{
			"": {Hedge: &hedge.Hedge{Name: "call", Delay: delay, MaxExtraLoad: -1, Budget: budget, Observer: seen.observe}},
		}}
	}
	t.Run("a slow attempt is beaten", func(t *testing.T) {
		s := &service{unary: func(ctx context.Context, n int) error {
			grpc.SetHeader(ctx, metadata.Pairs("attempt", fmt.Sprint(n)))
			if n == 1 {
				<-ctx.Done()
			}
			return nil
		}}
		addr := s.serve(t)
		client := dial(t, addr, hedged(t, 400*time.Millisecond))
		var header, trailer metadata.MD
		var to peer.Peer
		reply, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("x")}}, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&to))
		require.NoError(t, err)
		require.Equal(t, "done", reply.GetUsername())
		require.Equal(t, "x", string(reply.GetPayload().GetBody()))
		require.Equal(t, []string{"2"}, header.Get("attempt"))
		require.NotNil(t, to.Addr)
		require.Equal(t, []string{"", "1"}, s.previous)
		require.Contains(t, seen.lines, "call: "+addr+"/grpc.testing.TestService/UnaryCall: success")
	})
	pushedBack := func(ctx context.Context, n int) error {
		backoffgrpc.DoNotRetry(ctx)
		return fails(9, codes.Unavailable)(ctx, n)
	}
	for name, c := range map[string]struct {
		unary func(context.Context, int) error
		code  codes.Code
		calls int
	}{
		"a non-fatal failure sends the next at once": {fails(1, codes.Unavailable), codes.OK, 2},
		"a fatal one ends the call":                  {fails(9, codes.NotFound), codes.NotFound, 1},
		"a pushback stops it":                        {pushedBack, codes.Unavailable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{unary: c.unary}
			require.Equal(t, c.code, status.Code(call(t, dial(t, s.serve(t), hedged(t, 2*time.Second)))))
			require.Equal(t, c.calls, s.calls())
		})
	}
	t.Run("it is cancelled while two attempts run", func(t *testing.T) {
		s := &service{unary: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := dial(t, s.serve(t), hedged(t, time.Millisecond)).UnaryCall(ctx, &pb.SimpleRequest{})
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	})
}

func TestTheMostSpecificMethodCounts(t *testing.T) {
	p := backoff.Policy{Schedule: backoff.Constant(0)}
	for name, calls := range map[string]int{
		"":                                     4,
		"/grpc.testing.TestService/":           4,
		"/grpc.testing.TestService/UnaryCall":  4,
		"/grpc.testing.TestService/EmptyCall":  1,
		"/grpc.testing.OtherService/UnaryCall": 1,
	} {
		s := &service{unary: fails(99, codes.Unavailable)}
		client := dial(t, s.serve(t), &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{name: {Policy: p}}})
		require.Error(t, call(t, client))
		require.Equal(t, calls, s.calls(), name)
	}
	s := &service{unary: fails(1, codes.Unavailable)}
	require.NoError(t, call(t, dial(t, s.serve(t), &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {}}})), "the zero Method retries")
	s = &service{unary: fails(99, codes.Unavailable)}
	client := dial(t, s.serve(t), &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {Policy: p}, "/grpc.testing.TestService/UnaryCall": {Policy: backoff.Policy{MaxAttempts: 1}}}})
	require.Error(t, call(t, client))
	require.Equal(t, 1, s.calls())
}

func TestCallsThatAreNotRetriedAreLeftAsTheyAre(t *testing.T) {
	for name, c := range map[string]*backoffgrpc.Config{
		"no entry":    {},
		"one attempt": waiting(backoff.Policy{MaxAttempts: 1}),
	} {
		s := &service{unary: fails(99, codes.Unavailable), duplex: unavailable}
		client := dial(t, s.serve(t), c)
		require.Equal(t, status.Error(codes.Unavailable, "not now"), call(t, client), name)
		require.Equal(t, status.Error(codes.Unavailable, "not now"), receive(t.Context(), client), name)
		require.Equal(t, 2, s.calls(), name)
	}
}

func TestAnInvalidConfigIsRefused(t *testing.T) {
	var none *backoffgrpc.Config
	for want, c := range map[string]*backoffgrpc.Config{
		"Config is nil":        none,
		"not both":             {Methods: map[string]backoffgrpc.Method{"": {Policy: backoff.Policy{MaxAttempts: 1}, Hedge: &hedge.Hedge{}}}},
		"hedge, not both":      {Methods: map[string]backoffgrpc.Method{"": {Control: new(control.Panel).Policy(backoff.Policy{}), Hedge: &hedge.Hedge{}}}},
		"set one of them":      {Methods: map[string]backoffgrpc.Method{"": {Policy: backoff.Policy{Name: "call"}, Control: new(control.Panel).Policy(backoff.Policy{})}}},
		"Policy.Schedule":      {Methods: map[string]backoffgrpc.Method{"": {Policy: backoff.Policy{Schedule: backoff.Constant(-1)}}}},
		"Hedge.Idempotency":    {Methods: map[string]backoffgrpc.Method{"": {Hedge: &hedge.Hedge{Idempotency: backoff.NonIdempotent}}}},
		`method "pkg.Svc/Get"`: {Methods: map[string]backoffgrpc.Method{"pkg.Svc/Get": {}}},
	} {
		require.ErrorContains(t, c.Validate(), want)
		s := &service{unary: fails(0, 0)}
		client := dial(t, s.serve(t), c)
		require.ErrorContains(t, call(t, client), want)
		require.ErrorContains(t, receive(t.Context(), client), want)
		require.Zero(t, s.calls())
	}
}

func text(s string) *pb.StreamingOutputCallRequest {
	return &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(s)}}
}

// echo answers each message with all messages so far.
func echo(stream pb.TestService_FullDuplexCallServer) error {
	var got []string
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		got = append(got, string(m.GetPayload().GetBody()))
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte(strings.Join(got, " "))}}); err != nil {
			return err
		}
	}
}

func TestStreamsAreOpenedAgainBeforeTheFirstMessage(t *testing.T) {
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error {
		if n <= 2 {
			stream.Recv()
		} else if err := echo(stream); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "not now")
	}}
	stream, err := dial(t, s.serve(t), retrying()).FullDuplexCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(text("one")))
	require.NoError(t, stream.Send(text("two")))
	for _, want := range []string{"one", "one two"} {
		m, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, want, string(m.GetPayload().GetBody()))
	}
	require.NoError(t, stream.Send(text("three")))
	m, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, "one two three", string(m.GetPayload().GetBody()))
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err), "it is not opened again after a message")
	require.Equal(t, []string{"", "1", "2"}, s.previous)
}

func TestStreamsObeyPushbackAndGiveUp(t *testing.T) {
	for value, calls := range map[string]int{"-1": 1, "5": 4} {
		s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error {
			stream.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", value))
			return status.Error(codes.Unavailable, "not now")
		}}
		stream, err := dial(t, s.serve(t), retrying()).FullDuplexCall(t.Context())
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Equal(t, calls, s.calls())
		require.Equal(t, calls, policyError(t, err).Attempts)
		require.Equal(t, []string{value}, stream.Trailer().Get("grpc-retry-pushback-ms"))
		require.Equal(t, io.EOF, stream.Send(text("late")))
	}
}

func TestAClientStreamIsSentAgainAsAWhole(t *testing.T) {
	s := &service{input: func(stream pb.TestService_StreamingInputCallServer, n int) error {
		if n == 1 {
			stream.Recv()
			return status.Error(codes.Unavailable, "not now")
		}
		size := 0
		m, err := stream.Recv()
		for ; err == nil; m, err = stream.Recv() {
			size += len(m.GetPayload().GetBody())
		}
		if err != io.EOF {
			return err
		}
		return stream.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(size)})
	}}
	method := backoffgrpc.Method{Policy: retrying().Methods[""].Policy, Timeout: 10 * time.Second}
	stream, err := dialLimited(t, s, method).StreamingInputCall(t.Context())
	require.NoError(t, err)
	for range 100 {
		require.NoError(t, stream.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 1000)}}))
		time.Sleep(100 * time.Microsecond)
	}
	reply, err := stream.CloseAndRecv()
	require.NoError(t, err)
	require.EqualValues(t, 100_000, reply.GetAggregatedPayloadSize())
	require.Equal(t, 2, s.calls())
}

func TestAStreamThatSentTooMuchIsNotOpenedAgain(t *testing.T) {
	s := &service{input: func(stream pb.TestService_StreamingInputCallServer, n int) error {
		for range 400 {
			if _, err := stream.Recv(); err != nil {
				return err
			}
		}
		return status.Error(codes.Unavailable, "not now")
	}}
	stream, err := dial(t, s.serve(t), retrying()).StreamingInputCall(t.Context())
	require.NoError(t, err)
	for err == nil {
		err = stream.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 1000)}})
	}
	require.Equal(t, io.EOF, err)
	_, err = stream.CloseAndRecv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, 1, s.calls())
}

func TestStreamsAreOpenedAgainWhereTheyCouldNotBeOpened(t *testing.T) {
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error { return echo(stream) }}
	addr, proxy := refusing(t, s)
	client := dial(t, addr, retrying(func(p *backoff.Policy) { p.MaxAttempts = 3 }))
	err := receive(t.Context(), client)
	require.Equal(t, 3, policyError(t, err).Attempts)
	require.Equal(t, codes.Unavailable, status.Code(err))

	time.AfterFunc(50*time.Millisecond, func() { proxy.Restore() })
	stream, err := client.FullDuplexCall(t.Context(), grpc.WaitForReady(true))
	require.NoError(t, err)
	require.NoError(t, stream.Send(text("one")))
	_, err = stream.Recv()
	require.NoError(t, err)
}

func TestAllAttemptsOfAStreamHaveTheKeyOfTheCall(t *testing.T) {
	s := &service{duplex: unavailable}
	var keys []string
	l := dialLimited(t, s, backoffgrpc.Method{Policy: backoff.Policy{Schedule: backoff.Constant(0), Idempotency: backoff.Keyed}},
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			keys = append(keys, backoff.IdempotencyKey(ctx))
			return open(ctx, desc, cc, method, opts...)
		}))
	require.Error(t, receive(l.ctx, l))
	require.Len(t, keys, 4)
	require.NotEmpty(t, keys[0])
	require.Equal(t, []string{keys[0], keys[0], keys[0], keys[0]}, keys)
}

func TestACancelledStreamEnds(t *testing.T) {
	s := &service{duplex: unavailable}
	client := dial(t, s.serve(t), retrying(func(p *backoff.Policy) { p.Schedule, p.Jitter = backoff.Constant(time.Minute), backoff.NoJitter }))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	err := receive(ctx, client)
	require.Equal(t, codes.Canceled, status.Code(err))
	gave := policyError(t, err)
	require.Equal(t, 1, gave.Attempts)
	require.Equal(t, backoff.ReasonCanceled, gave.Reason)
	require.Equal(t, codes.Canceled, status.Code(receive(ctx, client)))
}

func TestStreamsThatAreNotRetriedHaveATimeout(t *testing.T) {
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error {
		<-stream.Context().Done()
		return stream.Context().Err() // the server may know of the deadline first
	}}
	client := dialLimited(t, s, backoffgrpc.Method{Policy: backoff.Policy{MaxAttempts: 1}, Timeout: 50 * time.Millisecond})
	require.Equal(t, codes.DeadlineExceeded, status.Code(receive(t.Context(), client)))
}

// merging is a codec that adds what it reads to what a message has, as JSON
// does.
type merging struct{}

func (merging) Marshal(v any) ([]byte, error)   { return json.Marshal(v) }
func (merging) Unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }
func (merging) Name() string                    { return "merging" }

func init() { encoding.RegisterCodec(merging{}) } // not while a server runs

// answering returns a client of a server whose first attempt fails after its
// answer {"first":1}, and whose second answers {"second":2}.
func answering(t *testing.T, m backoffgrpc.Method) *grpc.ClientConn {
	attempts := 0
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if attempts++; attempts == 1 {
			stream.SendMsg(map[string]int{"first": 1})
			return status.Error(codes.Unavailable, "not now")
		}
		return stream.SendMsg(map[string]int{"second": 2})
	}))
	l := listen(t)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	c := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": m}}
	return connect(t, l.Addr().String(), c, grpc.WithDefaultCallOptions(grpc.CallContentSubtype("merging")))
}

func TestAReplyIsThatOfOneAttempt(t *testing.T) {
	retried := backoffgrpc.Method{Policy: backoff.Policy{Schedule: backoff.Constant(0)}}
	hedged := backoffgrpc.Method{Hedge: &hedge.Hedge{Delay: time.Hour, MaxExtraLoad: -1}}
	for name, m := range map[string]backoffgrpc.Method{"unary": retried, "hedged": hedged, "stream": retried} {
		conn, reply := answering(t, m), map[string]int{"before": 0}
		if name == "stream" {
			s, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/s/m")
			require.NoError(t, err)
			require.NoError(t, s.RecvMsg(&reply))
			require.Equal(t, io.EOF, s.RecvMsg(&reply), "which leaves the reply as it is")
		} else {
			require.NoError(t, conn.Invoke(t.Context(), "/s/m", map[string]int{}, &reply), name)
		}
		require.Equal(t, map[string]int{"second": 2}, reply, name)
	}
}
