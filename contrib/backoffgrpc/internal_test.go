package backoffgrpc

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// A pushback is a count of milliseconds, or it is a no.
func TestAPushbackIsRoundedUpAndNeverADoNotRetry(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", math.MaxInt64: "2147483647", math.MaxInt64 - 1: "2147483647",
	} {
		require.Equal(t, want, pushbackOf(d), d)
	}
}

// To a server of HTTP and to one of gRPC the header means the same.
func FuzzParsePushback(f *testing.F) {
	for _, value := range []string{
		"0", "25", "0025", "2147483648", "9223372036854", "9223372036855", "9223372036854775808", "-1", "-0", "",
		" 25", "+25", "2.5", "soon", "1e3", "٠",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, values := range [][]string{nil, {value}, {value, value}} {
			want, wantGiven := retryafter.ParsePushback(values...)
			got, given := parsePushback(values)
			require.Equal(t, wantGiven, given, "%q", values)
			require.Equal(t, want, got, "%q", values)
		}
	})
}

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

	s = &stream{inner: sink{}, most: maxBuffer}
	for range 10_000 {
		require.NoError(t, s.SendMsg(&pb.Empty{}))
	}
	require.Empty(t, s.sent, "messages without fields take memory, too")
}
