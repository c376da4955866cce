package backoffgrpc_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

// takes returns the handler of uploads that fails so many calls once it has got so
// many messages.
func takes(messages, calls int) func(pb.TestService_StreamingInputCallServer, int) error {
	return func(stream pb.TestService_StreamingInputCallServer, n int) error {
		for i := 0; ; i++ {
			switch _, err := stream.Recv(); {
			case n <= calls && i == messages-1:
				return status.Error(codes.Unavailable, "not now")
			case err == io.EOF:
				return stream.SendAndClose(&pb.StreamingInputCallResponse{})
			case err != nil:
				return err
			}
		}
	}
}

// upload sends messages of a kilobyte, and returns the error of the call.
func upload(ctx context.Context, client pb.TestServiceClient, messages int) error {
	stream, err := client.StreamingInputCall(ctx)
	for range messages {
		if err == nil {
			err = stream.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 1<<10)}})
		}
	}
	if err == nil || err == io.EOF {
		_, err = stream.CloseAndRecv()
	}
	return err
}

func TestMaxBufferSaysHowMuchOfAStreamIsSentAgain(t *testing.T) {
	const messages = 300 // more than 256 KiB
	for name, c := range map[string]struct {
		most  int64
		calls int
	}{
		"the default":       {0, 1},
		"less than is sent": {10 << 10, 1},
		"more than is sent": {1 << 20, 2},
		"without a limit":   {-1, 2},
	} {
		s := &service{input: takes(messages, 1)}
		l := dialLimited(t, s, backoffgrpc.Method{Policy: retrying().Methods[""].Policy, MaxBuffer: c.most})
		err := upload(l.ctx, l, messages)
		require.Equal(t, c.calls, s.calls(), name)
		require.Equal(t, c.calls > 1, err == nil, "%s: %v", name, err)
	}
}

func TestAStreamPastItsBufferSaysSo(t *testing.T) {
	type reasons = []backoff.Reason
	for name, c := range map[string]struct {
		change func(*backoff.Policy)
		reason backoff.Reason
		text   string
		outer  int // attempts of a policy around the call
	}{
		"it could be repeated": {func(*backoff.Policy) {}, backoff.ReasonAttempts,
			"backoff: call: gave up after 1 attempt; the stream sent more than it keeps (Method.MaxBuffer): rpc error: code = Unavailable desc = not now", 2},
		"it must not be repeated": {func(p *backoff.Policy) { p.Idempotency = backoff.NonIdempotent }, backoff.ReasonNotIdempotent,
			"backoff: call: gave up after 1 attempt: not idempotent (Idempotency): rpc error: code = Unavailable desc = not now", 1},
	} {
		var heard reasons
		s := &service{input: takes(300, 9)}
		client := dial(t, s.serve(t), retrying(c.change, func(p *backoff.Policy) {
			p.Observer = func(_ context.Context, e backoff.Event) { heard = append(heard, e.Reason) }
		}))
		err := upload(t.Context(), client, 400)
		require.EqualError(t, err, c.text, name)
		require.Equal(t, c.reason, policyError(t, err).Reason, name)
		require.Equal(t, 1, policyError(t, err).Attempts, name)
		require.Equal(t, codes.Unavailable, status.Code(err), name)
		require.Equal(t, reasons{c.reason}, heard, name)

		around := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)}
		s.reset()
		require.Error(t, around.Do(t.Context(), func(ctx context.Context) error { return upload(ctx, client, 400) }))
		require.Equal(t, c.outer, s.calls(), "%s: a policy around it can send it as a whole", name)
	}
}

func TestAStreamThatIsFilledDuringAWaitIsNotOpenedAgain(t *testing.T) {
	s := &service{duplex: unavailable}
	var stream pb.TestService_FullDuplexCallClient
	client := dial(t, s.serve(t), retrying(func(p *backoff.Policy) {
		p.Observer = func(_ context.Context, e backoff.Event) {
			for i := 0; i < 300 && e.Kind == backoff.EventRetry; i++ {
				stream.Send(text(string(make([]byte, 1<<10))))
			}
		}
	}))
	stream, err := client.FullDuplexCall(t.Context())
	require.NoError(t, err)
	_, err = stream.Recv()
	require.EqualError(t, err, "backoff: call: gave up after 1 attempt; the stream sent more than it keeps (Method.MaxBuffer): rpc error: code = Unavailable desc = not now")
	require.Equal(t, 1, s.calls())
}

func TestAStreamWhoseHeaderWasReadSaysThatItIsNotOpenedAgain(t *testing.T) {
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, _ int) error {
		stream.SendHeader(metadata.Pairs("a", "b"))
		return status.Error(codes.Unavailable, "not now")
	}}
	stream, err := dial(t, s.serve(t), retrying()).FullDuplexCall(t.Context())
	require.NoError(t, err)
	header, err := stream.Header()
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, header.Get("a"))
	_, err = stream.Recv()
	require.EqualError(t, err, "backoff: call: gave up after 1 attempt; the program has read the header of the stream: rpc error: code = Unavailable desc = not now")
	require.Equal(t, 1, s.calls())
}
