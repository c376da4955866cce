package backoffgrpc_test

import (
	"context"
	"fmt"
	"strings"
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
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/plug"
)

// guarded is a config under whose policy calls ask the Services.
func guarded(policy backoff.Policy, services *guard.Services) *backoffgrpc.Config {
	return &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {Policy: policy}}, Services: services}
}

// waiting is guarded by nothing but a line.
func waiting(policy backoff.Policy) *backoffgrpc.Config {
	return guarded(policy, &guard.Services{New: func(key string) *guard.Service {
		return &guard.Service{Name: key, NoBudget: true, NoBreaker: true}
	}})
}

func TestACallOutlivesAnOutageBeyondItsAttempts(t *testing.T) {
	quick := backoff.Policy{Schedule: backoff.Constant(time.Millisecond)}
	s := &service{unary: fails(9, codes.Unavailable)}
	addr := s.serve(t)
	require.NoError(t, call(t, dial(t, addr, waiting(quick))))
	require.Equal(t, 10, s.calls())

	s = &service{unary: fails(9, codes.NotFound)}
	require.Equal(t, codes.NotFound, status.Code(call(t, dial(t, s.serve(t), waiting(quick)))))
	require.Equal(t, 1, s.calls(), "a permanent error is returned at once")

	quick.Idempotency = backoff.NonIdempotent
	s = &service{unary: fails(9, codes.Unavailable)}
	require.Equal(t, codes.Unavailable, status.Code(call(t, dial(t, s.serve(t), waiting(quick)))))
	require.Equal(t, 1, s.calls(), "what may be executed twice is not sent again")
}

func TestACallThatWaitedInVainHasTheStatusOfTheEndAndTheLastError(t *testing.T) {
	s := &service{unary: fails(1000, codes.Unavailable)}
	config := waiting(backoff.Policy{Schedule: backoff.Constant(time.Millisecond)})
	config.Methods[""] = backoffgrpc.Method{Policy: config.Methods[""].Policy, Timeout: 400 * time.Millisecond}
	err := call(t, dial(t, s.serve(t), config))
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	gave := policyError(t, err)
	require.Equal(t, backoff.ReasonDeadline, gave.Reason)
	require.Equal(t, codes.Unavailable, status.Code(gave.Last))
}

func TestWhatIsNoFaultOfTheServiceCountsForNoneOfItsGuards(t *testing.T) {
	for name, c := range map[string]struct {
		code    codes.Code // that the server answers
		value   string     // of the metadata
		want    codes.Code
		answers uint64
	}{
		"metadata that cannot be sent": {codes.OK, "a\nb", codes.Internal, 0},
		"an answer that is repeated":   {codes.NotFound, "", codes.NotFound, 10},
		"a conflict":                   {codes.Aborted, "", codes.Aborted, 10},
	} {
		t.Run(name, func(t *testing.T) {
			var guards guard.Service
			config := guarded(backoff.Policy{
				Schedule: backoff.Constant(time.Millisecond),
				Classify: plug.OnCode(status.Code, c.code),
			}, &guard.Services{New: func(string) *guard.Service { return &guards }})
			s := &service{unary: fails(1000, c.code)}
			client := dial(t, s.serve(t), config)
			for range 10 {
				_, err := client.UnaryCall(metadata.AppendToOutgoingContext(t.Context(), "x-name", c.value), &pb.SimpleRequest{})
				require.Equal(t, c.want, status.Code(err))
			}
			state := guards.State()
			require.Equal(t, []uint64{c.answers, 0}, []uint64{state.Breaker.Successes, state.Breaker.Failures})
			require.Equal(t, []uint64{4 * c.answers, 0}, []uint64{state.Budget.Successes, state.Budget.Retries})
			require.EqualValues(t, 4*c.answers, s.calls())
		})
	}
}

func TestClientsShareTheGuardsOfATarget(t *testing.T) {
	budget := new(places)
	services := &guard.Services{New: func(string) *guard.Service {
		breaker := &backoff.Breaker{Name: "orders", ConsecutiveFailures: 2, ConsecutiveSpan: -1}
		return &guard.Service{Budget: budget, Breaker: breaker, FailFast: true}
	}}
	s := &service{unary: func(ctx context.Context, n int) error {
		if n <= 5 {
			return status.Error(codes.NotFound, "")
		}
		return status.Error(codes.Unavailable, "")
	}}
	target, other := s.serve(t), (&service{unary: fails(0, 0)}).serve(t)
	once := backoff.Policy{Name: "once", MaxAttempts: 1}
	a, b := dial(t, target, guarded(once, services)), dial(t, target, guarded(once, services))
	_, breaker := services.For("passthrough:///" + target).Parts()
	for range 5 {
		require.Equal(t, codes.NotFound, status.Code(call(t, a)))
	}
	require.Equal(t, backoff.BreakerClosed, breaker.State(), "an answer is no failure")
	require.Error(t, call(t, a))
	require.Error(t, call(t, b))
	require.Equal(t, backoff.BreakerOpen, breaker.State())
	err := call(t, a)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "orders: circuit open")
	require.Equal(t, 7, s.calls())
	require.Equal(t, 7, budget.asked())
	require.NoError(t, call(t, dial(t, other, guarded(once, services))), "another server has guards of its own")
}

func TestACallWhoseRetriesAreSwitchedOffDoesNotWait(t *testing.T) {
	var panel control.Panel
	budget := new(places)
	config := controlled(&panel)
	config.Services = &guard.Services{New: func(string) *guard.Service { return &guard.Service{Budget: budget} }}
	target := control.Target{What: control.Retries, Name: "call"}
	require.NoError(t, panel.Set(t.Context(), control.Override{Target: target, To: control.Off, Who: "ada", Why: "drill"}))
	s := &service{unary: fails(100, codes.Unavailable)}
	addr := s.serve(t)
	require.Equal(t, codes.Unavailable, status.Code(call(t, dial(t, addr, config))))
	require.Equal(t, 1, s.calls())
	require.Equal(t, 1, budget.asked())
	_, breaker := config.Services.For("passthrough:///" + addr).Parts()
	breaker.Trip()
	require.ErrorIs(t, call(t, dial(t, addr, config)), backoff.ErrOpen)
	require.Equal(t, 1, s.calls())
}

// controlled returns a config whose only policy has a handle of the panel.
func controlled(panel *control.Panel) *backoffgrpc.Config {
	handle := panel.Policy(backoff.Policy{Name: "call", Schedule: backoff.Constant(time.Millisecond)})
	return &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {Control: handle}}}
}

func TestCallsAndStreamsFollowTheirControl(t *testing.T) {
	var panel control.Panel
	fail := fails(100, codes.Unavailable)
	s := &service{unary: fail, duplex: func(_ pb.TestService_FullDuplexCallServer, n int) error { return fail(nil, n) }}
	client := dial(t, s.serve(t), controlled(&panel))
	around := backoff.Policy{Classify: backoffgrpc.Classify, Schedule: backoff.Constant(0)}
	open := func() error { return receive(t.Context(), client) }
	for name, do := range map[string]func() error{"unary": func() error { return call(t, client) }, "stream": open} {
		s.reset()
		require.Error(t, do())
		require.Equal(t, 4, s.calls(), name)
		target := control.Target{What: control.Retries, Name: "call"}
		require.NoError(t, panel.Set(t.Context(), control.Override{Target: target, To: control.Off, Who: "ada", Why: "drill"}))
		s.reset()
		err := around.Do(t.Context(), func(context.Context) error { return do() })
		require.Equal(t, 1, s.calls(), "%s: a policy around the call does not retry instead", name)
		require.Equal(t, codes.Unavailable, status.Code(err))
		gave := policyError(t, err)
		require.Equal(t, "call", gave.Name)
		require.Equal(t, "retries are switched off", gave.Note)
		require.NoError(t, panel.Clear(t.Context(), target, "ada", "over"))
		s.reset()
		require.Error(t, do())
		require.Equal(t, 4, s.calls(), name)
	}
}

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
	conn := connect(t, "example.test", &backoffgrpc.Config{})
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
