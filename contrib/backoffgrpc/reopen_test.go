package backoffgrpc_test

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

func TestAPanicWhileAStreamIsOpenedAgainHoldsUpNobody(t *testing.T) {
	for name, crash := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			budget := new(places)
			opened := 0
			l := dialLimited(t, &service{duplex: unavailable}, backoffgrpc.Method{Policy: backoff.Policy{Schedule: backoff.Constant(0), Budget: budget}},
				grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
					if opened++; opened == 2 {
						crash()
					}
					return open(ctx, desc, cc, method, opts...)
				}))
			stream, err := l.FullDuplexCall(l.ctx)
			require.NoError(t, err)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				defer func() { recover() }()
				stream.Recv()
			}()
			<-gone
			require.True(t, budget.free())

			ended := make(chan struct{})
			go func() {
				defer close(ended)
				stream.Send(&pb.StreamingOutputCallRequest{})
				stream.CloseSend()
			}()
			select {
			case <-ended:
			case <-time.After(5 * time.Second):
				t.Fatal("Send waits for ever")
			}
			_, err = stream.Recv()
			require.Error(t, err)
		})
	}
}

// paced is a budget that makes a retry wait when its wait is over.
type paced struct {
	places
	paces int
}

func (p *paced) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paces++; p.paces == 1 {
		return t, 50 * time.Millisecond, true
	}
	return t, 0, true
}

func TestAStreamKeepsThePaceOfItsBudget(t *testing.T) {
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error {
		if n == 1 {
			return unavailable(stream, n)
		}
		return nil
	}}
	budget := new(paced)
	l := dialLimited(t, s, backoffgrpc.Method{Policy: backoff.Policy{Schedule: backoff.Constant(time.Millisecond), Jitter: backoff.NoJitter, Budget: budget}})
	stream, err := l.FullDuplexCall(l.ctx)
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, io.EOF, err)
	require.Equal(t, 2, budget.paces)
	require.GreaterOrEqual(t, s.times[1].Sub(s.times[0]), 50*time.Millisecond)
	require.True(t, budget.free())
}

// crashing is a stream that cannot send "two".
type crashing struct{ grpc.ClientStream }

func (c crashing) SendMsg(m any) error {
	if string(m.(*pb.StreamingOutputCallRequest).GetPayload().GetBody()) == "two" {
		panic("boom")
	}
	return c.ClientStream.SendMsg(m)
}

// In a goroutine of this package nobody could recover.
func TestAMessageThatPanicsIsNotSentAgain(t *testing.T) {
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error {
		stream.Recv()
		return fails(1, codes.Unavailable)(stream.Context(), n)
	}}
	l := dialLimited(t, s, retrying().Methods[""],
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			inner, err := open(ctx, desc, cc, method, opts...)
			return crashing{inner}, err
		}))
	stream, err := l.FullDuplexCall(l.ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(text("one")))
	require.Panics(t, func() { stream.Send(text("two")) })
	_, err = stream.Recv()
	require.Equal(t, io.EOF, err)
}
