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
	unknownSize = 1 << 10   // of a message that is not of protobuf
)

// Stream returns an interceptor that opens streams as the config says, and
// opens them again if they fail before the first message was received. Messages
// that were sent before are kept, up to 256 KiB, and sent again. A stream is
// committed after a larger amount, after a received message, or after a header
// that Header returned. The failure of a committed stream is that of the call.
//
// While a stream may be opened again, SendMsg returns nil even if the
// connection is lost. RecvMsg then opens the stream again, or returns why it
// does not. Errors are those of [Config.Unary]. Messages must not be changed
// after SendMsg, which grpc-go demands, too. A policy's AttemptTimeout and
// hedges do not apply to streams.
func (c *Config) Stream() grpc.StreamClientInterceptor { return c.client().stream }

// stream is the interceptor.
func (c *client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.invalid != nil {
		return nil, callError(ctx, backoff.Permanent(c.invalid))
	}
	m := c.lookup(method)
	opts = m.options(opts)
	if m.Policy == nil {
		return openOnce(ctx, m.Timeout, func(ctx context.Context, more ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(ctx, desc, cc, method, append(more, opts...)...)
		})
	}
	policy := *m.Policy
	policy.AttemptTimeout, policy.AttemptTimeoutSchedule = 0, nil
	s := &stream{ctx: ctx, oneReply: !desc.ServerStreams, cancel: func() {}}
	if m.Timeout > 0 {
		s.ctx, s.cancel = context.WithTimeout(ctx, m.Timeout)
	}
	s.run = policy.Start(s.ctx)
	s.open = func(ctx context.Context) (grpc.ClientStream, error) { return open(ctx, desc, cc, method, opts...) }
	return s.start()
}

// openOnce opens a stream that is not opened again.
func openOnce(ctx context.Context, timeout time.Duration, open func(context.Context, ...grpc.CallOption) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
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

// stream is a ClientStream that is opened again until something was received.
type stream struct {
	ctx      context.Context
	cancel   context.CancelFunc
	open     func(context.Context) (grpc.ClientStream, error)
	oneReply bool // one message ends it

	// Only the receiver uses these three.
	run       *backoff.Run
	attempts  int
	succeeded bool

	committed atomic.Bool

	mu    sync.Mutex
	inner grpc.ClientStream

	sending sync.Mutex // held while sending to inner or replacing it
	sent    []any
	size    int
	closed  bool
}

// start opens the stream for the first time.
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
	if err := s.reopen(attemptError(s.ctx, err, nil, false)); err != nil {
		return nil, err
	}
	return s, nil
}

// refusal returns why there was no first attempt.
func (s *stream) refusal() error {
	if err := s.run.Err(); err != nil {
		return err
	}
	return s.ctx.Err()
}

// attempt opens a stream.
func (s *stream) attempt() (grpc.ClientStream, error) {
	s.attempts++
	return s.open(withAttempt(s.ctx, s.attempts))
}

// reopen opens the stream again after err, or returns the error of the call.
func (s *stream) reopen(err error) error {
	for {
		if gaveUp := s.wait(err); gaveUp != nil {
			return s.fail(gaveUp)
		}
		s.sending.Lock()
		if s.committed.Load() { // meanwhile too much was sent
			s.sending.Unlock()
			return s.fail(err)
		}
		inner, again := s.attempt()
		if again == nil {
			s.replace(inner)
			return nil
		}
		s.sending.Unlock()
		err = attemptError(s.ctx, again, nil, false)
	}
}

// wait returns nil when the next attempt is due, else the error of the call.
func (s *stream) wait(err error) error {
	pause, ok := s.run.Retry(err)
	if ok && sleep(s.ctx, pause) {
		return nil
	}
	if ok { // ctx has ended, and the run shall return that
		s.run.Retry(err)
	}
	gaveUp := s.run.Err()
	if e, ok := gaveUp.(*backoff.Error); ok {
		e.Attempts = s.attempts
	}
	return gaveUp
}

// sleep waits for d or the end of ctx, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}

// fail ends the call.
func (s *stream) fail(err error) error {
	s.committed.Store(true)
	err = callError(s.ctx, err)
	s.cancel()
	return err
}

// replace makes inner the stream, and sends it the messages that were sent
// before. It sends them in a goroutine: otherwise a server that answers before
// it has read everything would wait for ever. The caller holds sending; replace
// unlocks it.
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

// replay sends the messages again.
func (s *stream) replay(inner grpc.ClientStream) {
	defer s.sending.Unlock()
	for _, m := range s.sent {
		if inner.SendMsg(m) != nil {
			return // RecvMsg returns the error
		}
	}
	if s.closed {
		inner.CloseSend()
	}
}

// current returns the stream that is open now.
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
			s.succeed(err != nil || s.oneReply)
			return err
		}
		if s.committed.Load() {
			return s.fail(err)
		}
		if err := s.reopen(attemptError(s.ctx, err, inner.Trailer(), false)); err != nil {
			return err
		}
	}
}

// succeed notes that the server has answered, and whether that was the whole
// answer.
func (s *stream) succeed(over bool) {
	s.committed.Store(true)
	if !s.succeeded {
		s.succeeded = true
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

// keep keeps a message for another attempt, unless the stream is committed.
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

// Header implements grpc.ClientStream. A header that the caller has seen must
// not change, so it commits the stream.
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
