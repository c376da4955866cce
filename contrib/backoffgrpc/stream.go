package backoffgrpc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/gobackoff/backoff"
)

const (
	maxBuffer   = 256 << 10 // as grpc-go's own
	unknownSize = 1 << 10   // of messages that are not protobuf's
)

// Stream returns an interceptor that opens streams as the config says, and opens them again when
// they fail before the first message was received. What was sent by then is kept and
// sent again, up to 256 KiB; after more, after a message, or after a header that Header returned, the
// stream is committed, and its failure is that of the call.
//
// While a stream may be opened again, SendMsg returns nil although the connection is lost: RecvMsg
// opens it again, or returns why not. Errors are those of [Config.Unary]. Messages must not be
// changed after SendMsg, as grpc-go demands itself. A policy's AttemptTimeout and hedges do
// not apply to streams.
func (c *Config) Stream() grpc.StreamClientInterceptor { return c.client().stream }

func (c *client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.invalid != nil {
		return nil, outward(ctx, backoff.Permanent(c.invalid))
	}
	m := c.lookup(method)
	opts = m.options(opts)
	if m.Policy == nil {
		return once(ctx, m.Timeout, func(ctx context.Context, more ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(ctx, desc, cc, method, append(more, opts...)...)
		})
	}
	policy := *m.Policy
	policy.AttemptTimeout, policy.AttemptTimeoutSchedule = 0, nil
	s := &stream{ctx: ctx, single: !desc.ServerStreams, cancel: func() {}}
	if m.Timeout > 0 {
		s.ctx, s.cancel = context.WithTimeout(ctx, m.Timeout)
	}
	s.run = policy.Start(s.ctx)
	s.open = func(ctx context.Context) (grpc.ClientStream, error) { return open(ctx, desc, cc, method, opts...) }
	return s.start()
}

// once opens a stream that is not opened again.
func once(ctx context.Context, timeout time.Duration, open func(context.Context, ...grpc.CallOption) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	if timeout <= 0 {
		return open(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	s, err := open(ctx, grpc.OnFinish(func(error) { cancel() }))
	if err != nil {
		cancel()
	}
	return s, err
}

// stream is a ClientStream that is opened again while nothing was received.
type stream struct {
	ctx    context.Context
	cancel context.CancelFunc
	open   func(context.Context) (grpc.ClientStream, error)
	single bool // one message ends it

	run     *backoff.Run // the receiver's, as are the next two
	made    int
	settled bool

	committed atomic.Bool

	mu    sync.Mutex
	inner grpc.ClientStream

	sending sync.Mutex // held while inner is sent to, or replaced
	sent    []any
	size    int
	closed  bool
}

func (s *stream) start() (grpc.ClientStream, error) {
	pause, ok := s.run.Admit()
	if !ok || !sleep(s.ctx, pause) {
		return nil, s.fail(s.refusal())
	}
	inner, err := s.attempt()
	if err == nil {
		s.inner = inner
		return s, nil
	}
	if err := s.reopen(failed(s.ctx, err, nil, false)); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *stream) refusal() error {
	if err := s.run.Err(); err != nil {
		return err
	}
	return s.ctx.Err()
}

func (s *stream) attempt() (grpc.ClientStream, error) {
	s.made++
	return s.open(announce(s.ctx, s.made))
}

// reopen opens the stream again after err, or returns the error of the call.
func (s *stream) reopen(err error) error {
	for {
		if gaveUp := s.wait(err); gaveUp != nil {
			return s.fail(gaveUp)
		}
		s.sending.Lock()
		if s.committed.Load() { // by too much to keep, meanwhile
			s.sending.Unlock()
			return s.fail(err)
		}
		inner, again := s.attempt()
		if again == nil {
			s.replace(inner)
			return nil
		}
		s.sending.Unlock()
		err = failed(s.ctx, again, nil, false)
	}
}

// wait returns nil when the next attempt is due.
func (s *stream) wait(err error) error {
	pause, ok := s.run.Retry(err)
	if ok && sleep(s.ctx, pause) {
		return nil
	}
	if ok { // ctx has ended: have the run say so, of an attempt that there was not
		s.run.Retry(err)
	}
	gaveUp := s.run.Err()
	if e, ok := gaveUp.(*backoff.Error); ok {
		e.Attempts = s.made
	}
	return gaveUp
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fail ends the call.
func (s *stream) fail(err error) error {
	s.committed.Store(true)
	err = outward(s.ctx, err)
	s.cancel()
	return err
}

// replace makes inner the stream, and sends it what the one before was sent: beside
// the receiver, or a server that answers before it has read all would wait for ever. It unlocks sending.
func (s *stream) replace(inner grpc.ClientStream) {
	s.mu.Lock()
	s.inner = inner
	s.mu.Unlock()
	if len(s.sent) == 0 && !s.closed {
		s.sending.Unlock()
		return
	}
	go s.replay(inner)
}

func (s *stream) replay(inner grpc.ClientStream) {
	defer s.sending.Unlock()
	for _, m := range s.sent {
		if inner.SendMsg(m) != nil {
			return // RecvMsg tells
		}
	}
	if s.closed {
		inner.CloseSend()
	}
}

func (s *stream) current() grpc.ClientStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner
}

// RecvMsg implements grpc.ClientStream.
func (s *stream) RecvMsg(m any) error {
	for {
		inner := s.current()
		err := inner.RecvMsg(m)
		if err == nil || err == io.EOF {
			s.succeed(err != nil || s.single)
			return err
		}
		if s.committed.Load() {
			return s.fail(err)
		}
		if err := s.reopen(failed(s.ctx, err, inner.Trailer(), false)); err != nil {
			return err
		}
	}
}

// succeed notes that the server has answered, and whether that was all.
func (s *stream) succeed(over bool) {
	s.committed.Store(true)
	if !s.settled {
		s.settled = true
		s.run.Retry(nil)
	}
	if over {
		s.cancel()
	}
}

// SendMsg implements grpc.ClientStream.
func (s *stream) SendMsg(m any) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.keep(m)
	err := s.current().SendMsg(m)
	switch {
	case err == io.EOF && !s.committed.Load():
		return nil // RecvMsg opens it again
	case err != nil:
		s.committed.Store(true)
	}
	return err
}

// keep keeps a message for another attempt, unless there is to be none.
func (s *stream) keep(m any) {
	s.size += unknownSize
	if p, ok := m.(proto.Message); ok {
		s.size += proto.Size(p) - unknownSize
	}
	if s.size > maxBuffer {
		s.committed.Store(true)
	}
	if s.committed.Load() {
		s.sent = nil
		return
	}
	s.sent = append(s.sent, m)
}

// CloseSend implements grpc.ClientStream.
func (s *stream) CloseSend() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.closed = true
	return s.current().CloseSend()
}

// Header implements grpc.ClientStream. A header that was seen must stay the one.
func (s *stream) Header() (metadata.MD, error) {
	md, err := s.current().Header()
	if err == nil && md != nil {
		s.committed.Store(true)
	}
	return md, err
}

// Trailer implements grpc.ClientStream.
func (s *stream) Trailer() metadata.MD { return s.current().Trailer() }

// Context implements grpc.ClientStream.
func (s *stream) Context() context.Context { return s.current().Context() }
