package backoffgrpc_test

import (
	"context"
	"io"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

// places is a budget that counts the places that are taken, and keeps how the
// attempts ended that gave theirs back.
type places struct {
	backoff.BudgetDefaults

	pause time.Duration // before a first attempt

	mu      sync.Mutex
	last    uint64
	taken   map[uint64]bool
	ended   []string
	classes []backoff.Class
}

func (p *places) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == nil {
		p.taken = make(map[uint64]bool)
	}
	p.last++
	p.taken[p.last] = true
	if !a.First() {
		return backoff.Ticket{Word: p.last}, 0, true
	}
	return backoff.Ticket{Word: p.last}, p.pause, true
}

func (p *places) Done(t backoff.Ticket, r backoff.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[t.Word] {
		delete(p.taken, t.Word)
		p.ended, p.classes = append(p.ended, r.String()), append(p.classes, r.Class)
	}
}

func (p *places) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.last)
}

func (p *places) free() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.taken) == 0
}

// limited is a client whose streams take places.
type limited struct {
	pb.TestServiceClient
	conn *grpc.ClientConn
	ctx  context.Context
	end  context.CancelFunc
}

// dialLimited returns a client of s under the method.
func dialLimited(t *testing.T, s *service, m backoffgrpc.Method, opts ...grpc.DialOption) *limited {
	c := &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": m}}
	conn := connect(t, s.serve(t), c, opts...)
	l := &limited{TestServiceClient: pb.NewTestServiceClient(conn), conn: conn}
	l.ctx, l.end = context.WithCancel(context.Background())
	t.Cleanup(l.end)
	return l
}

// hangs is a stream whose server never answers.
func hangs(stream pb.TestService_FullDuplexCallServer, _ int) error {
	<-stream.Context().Done()
	return nil
}

var unavailable = streams(fails(math.MaxInt, codes.Unavailable))

func TestAStreamGivesItsPlaceBackHoweverItEnds(t *testing.T) {
	type stream = pb.TestService_FullDuplexCallClient
	canceled, permanent := []string{"canceled"}, []string{"permanent"}
	success := []string{"success"}
	later := func(f func()) { time.AfterFunc(20*time.Millisecond, f) }
	for name, c := range map[string]struct {
		serve   func(pb.TestService_FullDuplexCallServer, int) error // nil hangs
		timeout time.Duration
		wait    time.Duration // between attempts
		pause   time.Duration // before the first one
		opts    []grpc.CallOption
		use     func(*limited, stream)
		want    []string
	}{
		"cancelled, and nobody receives": {use: func(l *limited, s stream) { l.end() }, want: canceled},
		"cancelled after sending, and nobody receives": {
			use:  func(l *limited, s stream) { s.Send(text("one")); s.CloseSend(); l.end() },
			want: canceled,
		},
		"cancelled while receiving":                     {use: func(l *limited, s stream) { later(l.end); s.Recv() }, want: canceled},
		"cancelled, and then received":                  {use: func(l *limited, s stream) { l.end(); s.Recv(); s.Recv() }, want: canceled},
		"out of time, and nobody receives":              {timeout: 500 * time.Millisecond, use: func(*limited, stream) {}, want: canceled},
		"the connection is closed, and nobody receives": {use: func(l *limited, s stream) { l.conn.Close() }, want: permanent},
		"the connection is closed while receiving": {
			use:  func(l *limited, s stream) { later(func() { l.conn.Close() }); s.Recv() },
			want: permanent,
		},
		"a message cannot be sent": {
			opts: []grpc.CallOption{grpc.MaxCallSendMsgSize(1)},
			use:  func(l *limited, s stream) { s.Send(text("too long")) },
			want: permanent,
		},
		"cancelled before the pause of the budget is over": {pause: time.Hour, want: []string{"not sent"}},
		"cancelled before it is opened again": {
			serve: unavailable,
			wait:  time.Hour,
			use:   func(l *limited, s stream) { later(l.end); s.Recv() },
			want:  []string{"failed", "not sent"},
		},
		"the server fails after the header was read": {
			serve: func(s pb.TestService_FullDuplexCallServer, _ int) error {
				s.SendHeader(metadata.Pairs("a", "b"))
				return status.Error(codes.Unavailable, "not now")
			},
			use:  func(l *limited, s stream) { s.Header(); s.Recv() },
			want: []string{"failed"},
		},
		"the server fails before a header, and nobody receives": {
			serve: unavailable,
			use:   func(l *limited, s stream) { s.Header(); l.end() },
			want:  canceled,
		},
		"the server says no": {
			serve: func(s pb.TestService_FullDuplexCallServer, _ int) error { return status.Error(codes.NotFound, "no") },
			use:   func(l *limited, s stream) { s.Recv() },
			want:  permanent,
		},
		"it is not read to its end": {
			serve: func(s pb.TestService_FullDuplexCallServer, n int) error {
				s.Send(&pb.StreamingOutputCallResponse{})
				return hangs(s, n)
			},
			use:  func(l *limited, s stream) { s.Recv() },
			want: success,
		},
		"it is empty": {
			serve: func(pb.TestService_FullDuplexCallServer, int) error { return nil },
			use:   func(l *limited, s stream) { s.Recv() },
			want:  success,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{duplex: c.serve}
			if c.serve == nil {
				s.duplex = hangs
			}
			budget := &places{pause: c.pause}
			l := dialLimited(t, s, backoffgrpc.Method{Timeout: c.timeout, Policy: backoff.Policy{
				Schedule: backoff.Constant(c.wait), Jitter: backoff.NoJitter, Budget: budget,
			}})
			if c.pause > 0 {
				later(l.end)
			}
			stream, err := l.FullDuplexCall(l.ctx, c.opts...)
			if c.use != nil {
				require.NoError(t, err)
				c.use(l, stream)
			}
			require.Eventually(t, budget.free, 5*time.Second, time.Millisecond)
			require.Equal(t, c.want, budget.ended)
		})
	}
}

func TestManyStreamsCancelledAtAnyMomentLeaveNoPlaceTaken(t *testing.T) {
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error {
		if n%3 == 0 {
			stream.Send(&pb.StreamingOutputCallResponse{})
		}
		if n%3 == 1 {
			return unavailable(stream, n)
		}
		return hangs(stream, n)
	}}
	budget := new(places)
	l := dialLimited(t, s, backoffgrpc.Method{Policy: backoff.Policy{Schedule: backoff.Constant(time.Millisecond), Budget: budget}})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(l.ctx, time.Duration(i%20)*time.Millisecond)
			defer cancel()
			stream, err := l.FullDuplexCall(ctx)
			for err == nil && i%4 > 0 {
				if i%4 > 1 {
					stream.Send(text("one"))
				}
				_, err = stream.Recv()
			}
		})
	}
	wg.Wait()
	require.Eventually(t, budget.free, 5*time.Second, time.Millisecond)
	require.Positive(t, budget.asked())
}

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
	s := &service{duplex: streams(fails(1, codes.Unavailable))}
	budget := new(paced)
	l := dialLimited(t, s, backoffgrpc.Method{Policy: backoff.Policy{Schedule: backoff.Constant(time.Millisecond), Jitter: backoff.NoJitter, Budget: budget}})
	require.Equal(t, io.EOF, receive(l.ctx, l))
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
