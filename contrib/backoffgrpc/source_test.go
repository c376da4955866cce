package backoffgrpc_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
)

// uploading is around the whole stream; the method of the stream has MaxAttempts: 1.
var uploading = backoff.Policy{Name: "upload", Classify: backoffgrpc.Classify}

func uploadLines(ctx context.Context, client pb.TestServiceClient, file io.ReadSeeker) (*pb.StreamingInputCallResponse, error) {
	return backoff.DoValue(ctx, uploading, func(ctx context.Context) (*pb.StreamingInputCallResponse, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends a stream that is left before its end
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		stream, err := client.StreamingInputCall(ctx)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			body := bytes.Clone(lines.Bytes()) // a message must not change after Send
			err := stream.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: body}})
			if err == io.EOF {
				break // the server ended the stream: only CloseAndRecv returns its status
			} else if err != nil {
				return nil, err
			}
		}
		if err := lines.Err(); err != nil {
			return nil, err // not CloseAndRecv, which would tell the server that this was all
		}
		return stream.CloseAndRecv()
	})
}

// counts returns a handler that counts lines. It fails calls times, after some of them.
func counts(after, calls int) func(pb.TestService_StreamingInputCallServer, int) error {
	return func(stream pb.TestService_StreamingInputCallServer, n int) error {
		for lines := int32(0); ; lines++ {
			_, err := stream.Recv()
			switch {
			case err == io.EOF:
				return stream.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: lines})
			case err != nil:
				return err
			case n <= calls && int(lines) == after-1:
				return status.Error(codes.Unavailable, "not now")
			}
		}
	}
}

// Each attempt sends the whole file, which is larger than what a stream keeps.
func TestAFileIsUploadedFromItsBeginningInEachAttempt(t *testing.T) {
	const lines = 5000
	s := &service{input: counts(1000, 2)}
	once := retrying(func(p *backoff.Policy) { p.MaxAttempts = 1 }).Methods[""]
	l := dialLimited(t, s, once)
	reply, err := uploadLines(l.ctx, l, strings.NewReader(strings.Repeat(strings.Repeat("x", 500)+"\n", lines)))
	require.NoError(t, err)
	require.EqualValues(t, lines, reply.GetAggregatedPayloadSize())
	require.Equal(t, 3, s.calls())
}

// breaking is a file that cannot be read to its end.
type breaking struct{ *strings.Reader }

func (b breaking) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p[:min(len(p), 1000)])
	if err == io.EOF {
		err = os.ErrClosed
	}
	return n, err
}

// The server is not told that a file that could not be read was complete.
func TestAFileThatBreaksOffIsNotUploaded(t *testing.T) {
	ended := make(chan error, 1)
	s := &service{input: func(stream pb.TestService_StreamingInputCallServer, _ int) error {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- err
				return err
			}
		}
	}}
	l := dialLimited(t, s, retrying(func(p *backoff.Policy) { p.MaxAttempts = 1 }).Methods[""])
	_, err := uploadLines(l.ctx, l, breaking{strings.NewReader(strings.Repeat("a line\n", 1000))})
	require.ErrorIs(t, err, os.ErrClosed)
	require.Equal(t, codes.Canceled, status.Code(<-ended))
}
