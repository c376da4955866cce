package backoffgrpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gobackoff/backoff"
)

// sink is a stream that takes everything and answers with nothing.
type sink struct{ grpc.ClientStream }

func (sink) SendMsg(any) error { return nil }
func (sink) RecvMsg(any) error { return nil }

func TestAStreamKeepsNoMoreThanItMaySendAgain(t *testing.T) {
	policy := backoff.Policy{}
	s := &stream{ctx: t.Context(), cancel: func() {}, inner: sink{}, carried: &carried{policy: policy}, run: policy.Start(t.Context())}
	require.NoError(t, s.next(nil))
	require.NoError(t, s.SendMsg(&pb.StreamingOutputCallRequest{}))
	require.Len(t, s.sent, 1)
	require.NoError(t, s.RecvMsg(&pb.StreamingOutputCallResponse{}))
	require.Empty(t, s.sent, "it was answered")

	s = &stream{inner: sink{}}
	for range 10_000 {
		require.NoError(t, s.SendMsg(&pb.Empty{}))
	}
	require.Empty(t, s.sent, "messages without fields take memory, too")
}
