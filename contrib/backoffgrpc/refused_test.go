package backoffgrpc_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
)

// resetting refuses the streams of its first connection by RST_STREAM, with REFUSED_STREAM,
// and ends the connection after so many.
type resetting struct {
	net.Listener
	refusals int32
	refused  atomic.Int32
}

func (l *resetting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil && l.refused.Load() < l.refusals {
		l.serve(conn)
		return l.Accept()
	}
	return conn, err
}

func (l *resetting) serve(conn net.Conn) {
	defer conn.Close()
	const headers, refusedStream = 1, 7
	conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
	io.CopyN(io.Discard, conn, 24)                // the preface
	for frame := make([]byte, 9); l.refused.Load() < l.refusals; {
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(append([]byte{0}, frame[:3]...))))
		if frame[3] == headers {
			l.refused.Add(1)
			conn.Write(append(append([]byte{0, 0, 4, 3, 0}, frame[5:]...), 0, 0, 0, refusedStream)) // RST_STREAM
		}
	}
}

// RFC 9113, 8.7: what was refused so was not processed. grpc-go sends it again once, and the
// policy does from then on.
func TestACallWhoseStreamIsRefusedIsMadeAgain(t *testing.T) {
	for _, refusals := range []int32{1, 2, 5} {
		s := &service{unary: fails(0, 0)}
		l := &resetting{Listener: listen(t), refusals: refusals}
		addr := s.serveOn(t, l)
		client := dial(t, addr, retrying(func(p *backoff.Policy) { p.MaxAttempts = 20 }))
		require.NoError(t, call(t, client))
		require.Equal(t, 1, s.calls())
		require.Equal(t, refusals, l.refused.Load())
	}
}

// grpc-go itself takes a header for an answer, and does not repeat the call.
func TestAFailureAfterTheHeaderIsRetriedUnlessTheProgramHasReadIt(t *testing.T) {
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer, n int) error {
		stream.SendHeader(metadata.Pairs("a", "b"))
		if n == 1 {
			return status.Error(codes.Unavailable, "not now")
		}
		return stream.Send(&pb.StreamingOutputCallResponse{})
	}}
	client := dial(t, s.serve(t), retrying())
	require.NoError(t, receive(t.Context(), client))
	require.Equal(t, 2, s.calls())

	s.reset()
	var header metadata.MD
	stream, err := client.FullDuplexCall(t.Context(), grpc.Header(&header))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err, "that grpc-go fills in a header is not to read it")
	require.Equal(t, 2, s.calls())
}
