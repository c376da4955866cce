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
)

func patient(policy backoff.Policy) *backoffgrpc.Config {
	return &backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"": {Policy: policy}}, Patient: true}
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
