package backoffgrpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/guard"
)

// guarded is a config under whose policy calls ask the Services.
func guarded(policy backoff.Policy, services *guard.Services) *backoffgrpc.Config {
	return &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {Policy: policy}}, Services: services}
}

// patient is guarded by nothing but a line.
func patient(policy backoff.Policy) *backoffgrpc.Config {
	return guarded(policy, &guard.Services{New: func(key string) *guard.Service {
		return &guard.Service{Name: key, Patient: true, NoBudget: true, NoBreaker: true}
	}})
}

func TestAPatientCallOutlivesAnOutageBeyondItsAttempts(t *testing.T) {
	quick := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Millisecond)}
	s := &service{unary: fails(9, codes.Unavailable)}
	addr := s.serve(t)
	require.NoError(t, call(t, dial(t, addr, patient(quick))))
	require.Equal(t, 10, s.calls())

	s = &service{unary: fails(9, codes.NotFound)}
	require.Equal(t, codes.NotFound, status.Code(call(t, dial(t, s.serve(t), patient(quick)))))
	require.Equal(t, 1, s.calls(), "a definitive answer is returned at once")

	quick.Idempotency = backoff.NonIdempotent
	s = &service{unary: fails(9, codes.Unavailable)}
	require.Equal(t, codes.Unavailable, status.Code(call(t, dial(t, s.serve(t), patient(quick)))))
	require.Equal(t, 1, s.calls(), "what may be executed twice is not sent again")
}

func TestAPatientCallThatEndsHasTheStatusOfTheEndAndTheLastError(t *testing.T) {
	s := &service{unary: fails(1000, codes.Unavailable)}
	config := patient(backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Millisecond)})
	config.Methods[""] = backoffgrpc.Method{Policy: config.Methods[""].Policy, Timeout: 400 * time.Millisecond}
	err := call(t, dial(t, s.serve(t), config))
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	gave := policyError(t, err)
	require.Equal(t, backoff.ReasonDeadline, gave.Reason)
	require.Equal(t, codes.Unavailable, status.Code(gave.Last))
}

func TestClientsShareTheGuardsOfATarget(t *testing.T) {
	budget := new(places)
	services := &guard.Services{New: func(string) *guard.Service {
		breaker := &backoff.Breaker{Name: "orders", ConsecutiveFailures: 2, ConsecutiveSpan: -1}
		return &guard.Service{Budget: budget, Breaker: breaker}
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
	config.Services = &guard.Services{New: func(string) *guard.Service { return &guard.Service{Patient: true, Budget: budget} }}
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
