package backoffgrpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/control"
)

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
