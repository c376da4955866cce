package backoffgrpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// gRFC A6 puts the pushback into the trailers.
func TestAPushbackCountsInTheTrailerOnly(t *testing.T) {
	const key = "grpc-retry-pushback-ms"
	for name, c := range map[string]struct {
		header, trailer []string
		info            time.Duration
		calls           int
	}{
		"a no in the header":                           {[]string{key, "-1"}, nil, 0, 2},
		"a no in the header, a yes in the trailer":     {[]string{key, "-1"}, []string{key, "1"}, 0, 2},
		"a yes in the header, a no in the trailer":     {[]string{key, "1"}, []string{key, "-1"}, 0, 1},
		"centuries in the header":                      {[]string{key, "9223372036854775807"}, nil, 0, 2},
		"centuries in the trailer":                     {nil, []string{key, "99999999999999999999999"}, 0, 1},
		"two in the trailer":                           {nil, []string{key, "1", key, "1"}, 0, 1},
		"a RetryInfo of hours, a yes in the trailer":   {nil, []string{key, "1"}, 9 * time.Hour, 2},
		"a RetryInfo of nothing, a no in the trailer":  {nil, []string{key, "-1"}, 1, 1},
		"a RetryInfo below 0, nonsense in the trailer": {nil, []string{key, "soon"}, -1, 1},
	} {
		s := &service{unary: func(ctx context.Context, n int) error {
			grpc.SetHeader(ctx, metadata.Pairs(c.header...))
			grpc.SetTrailer(ctx, metadata.Pairs(c.trailer...))
			if n > 1 {
				return nil
			}
			if c.info != 0 {
				return retryInfo(codes.Unavailable, c.info)
			}
			return status.Error(codes.Unavailable, "not now")
		}}
		err := call(t, dial(t, s.serve(t), retrying()))
		require.Equal(t, c.calls, s.calls(), "%s: %v", name, err)
	}
}

// What grpc-go cannot read of the details is not there.
func TestDetailsThatCannotBeReadAreIgnored(t *testing.T) {
	info, err := anypb.New(&errdetails.RetryInfo{})
	require.NoError(t, err)
	for name, detail := range map[string]*anypb.Any{
		"garbage":           {TypeUrl: info.TypeUrl, Value: []byte{0xff, 0xff, 0xff}},
		"of no type":        {Value: []byte{1, 2, 3}},
		"of a strange type": {TypeUrl: "type.example/rpc.Nothing", Value: []byte("x")},
		"of another type":   {TypeUrl: strings.Replace(info.TypeUrl, "RetryInfo", "Help", 1)},
	} {
		s := &service{unary: failsOnce(status.FromProto(&spb.Status{Code: int32(codes.Unavailable), Message: "not now", Details: []*anypb.Any{detail, nil}}).Err())}
		require.NoError(t, call(t, dial(t, s.serve(t), retrying())), name)
		require.Equal(t, 2, s.calls(), name)
	}
	// The bytes beside grpc-status may be anything, too.
	s := &service{unary: func(ctx context.Context, n int) error {
		if n == 1 {
			grpc.SetTrailer(ctx, metadata.Pairs("grpc-status-details-bin", "\xff\xfe\xfd"))
		}
		return fails(1, codes.Unavailable)(ctx, n)
	}}
	require.NoError(t, call(t, dial(t, s.serve(t), retrying())))
	require.Equal(t, 2, s.calls())
}

// large is an error whose details have so many bytes.
func large(size int) error {
	detail, _ := anypb.New(&errdetails.DebugInfo{Detail: strings.Repeat("x", size)})
	short, _ := anypb.New(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Minute)})
	return status.FromProto(&spb.Status{Code: int32(codes.Unavailable), Message: strings.Repeat("long ", 1<<17), Details: []*anypb.Any{detail, short}}).Err()
}

// An error of megabytes would be in the text of every call that the circuit refuses, and in
// memory for as long.
func TestAStatusOfMegabytesIsNotKeptWhileACircuitIsOpen(t *testing.T) {
	s := &service{unary: func(ctx context.Context, _ int) error {
		grpc.SetTrailer(ctx, metadata.Pairs("x-long", strings.Repeat("y", 1<<20)))
		return large(4 << 20)
	}}
	client := dial(t, s.serve(t), guarded(backoff.Policy{MaxAttempts: 1, Schedule: backoff.Constant(0)}, &guard.Services{New: func(string) *guard.Service {
		return &guard.Service{FailFast: true, Breaker: &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1}}
	}}))
	err := call(t, client)
	require.Equal(t, codes.Unavailable, status.Code(err))
	var open *backoff.OpenError
	require.ErrorAs(t, call(t, client), &open)
	require.Less(t, len(open.Error()), 64<<10)
	last, ok := backoff.Cause(open.Last).(interface{ GRPCStatus() *status.Status })
	require.True(t, ok)
	require.LessOrEqual(t, proto.Size(last.GRPCStatus().Proto()), 65<<10)
	require.Len(t, last.GRPCStatus().Details(), 1, "the details that fit are there")
	require.Equal(t, map[string][]string{"grpc-status": {"14"}}, last.(interface{ ResponseHeader() map[string][]string }).ResponseHeader())
}
