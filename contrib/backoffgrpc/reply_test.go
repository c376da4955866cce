package backoffgrpc_test

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/hedge"
)

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
