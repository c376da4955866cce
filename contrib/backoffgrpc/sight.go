package backoffgrpc

import (
	"context"
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
		return attemptError(ctx, err, nil, false)
	}
	return attemptError(ctx, err, s.trailer, s.peer.Addr == nil && status.Code(err) == codes.Unavailable)
}
