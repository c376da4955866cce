package backoffgrpc

import (
	"context"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// sight is what grpc-go tells of one attempt by the options of its call. It
// tells nothing if an interceptor drops the options.
type sight struct {
	trailer metadata.MD
	peer    peer.Peer
	over    atomic.Bool // grpc-go has set the fields above
}

// options returns opts with those that fill in s.
func (s *sight) options(opts []grpc.CallOption) []grpc.CallOption {
	over := grpc.OnFinish(func(error) { s.over.Store(true) })
	return append(append(make([]grpc.CallOption, 0, len(opts)+3), opts...), grpc.Trailer(&s.trailer), grpc.Peer(&s.peer), over)
}

// error returns the error of the attempt, under ctx, for policies and hedges.
func (s *sight) error(ctx context.Context, err error) error {
	if !s.over.Load() {
		return attemptError(ctx, &failure{err: err})
	}
	code, opened := status.Code(err), s.peer.Addr != nil
	return attemptError(ctx, &failure{
		err:     err,
		notSent: !opened && (code == codes.Unavailable || code == codes.DeadlineExceeded),
		own:     !opened && !slices.Contains(onTheWay, code),
		trailer: s.trailer,
	})
}

// onTheWay are the codes with which grpc-go says that it opened no stream in time, or could
// not. With any other one it refused the call, such as for its metadata.
var onTheWay = []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted}
