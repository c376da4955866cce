package backoffgrpc

import (
	"cmp"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gobackoff/backoff"
)

const (
	maxBuffer   = 256 << 10 // the default of Method.MaxBuffer, as grpc-go's own
	leastSize   = 64        // of a message, also of one without fields
	unknownSize = 1 << 10   // of a message that is not of protobuf
)

// Stream returns an interceptor that opens streams as the config says, and
// opens them again if they fail before the first message was received.
// Messages that were sent before are kept, up to [Method.MaxBuffer], and sent
// again; one without fields counts as 64 bytes. A stream is committed after a
// larger amount, after a received message, or after a header that Header
// returned. It then keeps nothing. A header that arrived, but that the program
// did not ask for, does not commit it. The failure of a committed stream is that
// of the call: after a message as the server sent it, and otherwise with a
// [*backoff.Error] that says what committed it.
//
// A stream holds its slot in a Budget until the first message or its end.
// grpc-go wants every stream to be received from until an error, its context
// to be cancelled, or its connection to be closed. A stream to which none of
// this happens keeps its slot, and a goroutine of grpc-go, forever.
//
// While a stream may be opened again, SendMsg returns nil even if the
// connection is lost. RecvMsg then opens the stream again, or returns why it
// does not. A message is kept only if SendMsg did not panic. Errors and replies
// are those of [Config.Unary]. Messages must not be changed after SendMsg, which
// grpc-go demands, too. A policy's AttemptTimeout and hedges do not apply to
// streams. Under a Keyed policy all attempts send the same key, as those of Unary do.
// Observers can see which method is called, but attempts are not measured: how long a
// stream takes is up to the program.
func (c *Config) Stream() grpc.StreamClientInterceptor { return c.client().stream }

// stream is the interceptor.
func (c *client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.invalid != nil {
		return nil, callError(ctx, backoff.Permanent(c.invalid))
	}
	m := c.lookup(method)
	opts = m.options(opts)
	carried := m.carry()
	if carried == nil {
		return openOnce(ctx, m.Timeout, func(ctx context.Context, more ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(ctx, desc, cc, method, append(more, opts...)...)
		})
	}
	if carried.policy.Idempotency == backoff.Keyed { // all attempts have the key of the call
		ctx = backoff.WithIdempotencyKey(ctx, backoff.IdempotencyKey(ctx))
	}
	ctx, _ = c.observed(ctx, carried.policy.Observer, cc, method)
	s := &stream{ctx: ctx, cancel: func() {}, carried: carried, most: cmp.Or(m.MaxBuffer, maxBuffer)}
	if m.Timeout > 0 {
		s.ctx, s.cancel = context.WithTimeout(ctx, m.Timeout)
	}
	policy := carried.policy
	policy.AttemptTimeout, policy.AttemptTimeoutSchedule = 0, nil
	policy.Idempotency, policy.Observer = uncommitted{s, policy.Idempotency}, s.observer(policy.Observer)
	s.waits = grow(&policy)
	s.run = policy.Start(s.ctx)
	opts = append(opts[:len(opts):len(opts)], grpc.OnFinish(func(err error) {
		if cc.GetState() == connectivity.Shutdown {
			s.abort(err)
		}
	}))
	s.open = func(ctx context.Context, seen *sight) (grpc.ClientStream, error) {
		return open(ctx, desc, cc, method, seen.options(opts)...)
	}
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
	ctx     context.Context
	cancel  context.CancelFunc
	carried *carried
	most    int64 // bytes of messages that are kept; negative for no limit
	open    func(context.Context, *sight) (grpc.ClientStream, error)

	succeeded bool // only for the receiver
	attempts  atomic.Int32
	committed atomic.Bool

	running sync.Mutex // held while using these
	run     *backoff.Run
	waits   *growth
	late    bool // only that it is committed keeps the stream from being opened again

	mu    sync.Mutex
	inner grpc.ClientStream
	sent  []any // for another attempt; nil once the stream is committed
	size  int64

	sending sync.Mutex // held while sending to inner or replacing it
	closed  bool
}

// uncommitted is the Idempotency of a stream: once the stream is committed, it
// is not opened again.
type uncommitted struct {
	stream *stream
	policy backoff.Idempotency
}

// Repeatable implements backoff.Idempotency.
func (u uncommitted) Repeatable(ctx context.Context, c backoff.Class) bool {
	if u.policy != nil && !u.policy.Repeatable(ctx, c) {
		return false
	}
	u.stream.late = u.stream.committed.Load()
	return !u.stream.late
}

// observer returns an observer that hears of a stream that is late what it would hear
// of a call with one attempt.
func (s *stream) observer(o backoff.Observer) backoff.Observer {
	if o == nil {
		return nil
	}
	return func(ctx context.Context, e backoff.Event) {
		if s.late && e.Reason == backoff.ReasonNotIdempotent {
			e.Reason, e.MaxAttempts = backoff.ReasonAttempts, e.Attempt
		}
		o(ctx, e)
	}
}

// why returns the error of the run. That of a stream that is late says what
// committed it, and leaves retries to the caller if it was opened only once.
func (s *stream) why() error {
	err := s.run.Err()
	gave, ok := err.(*backoff.Error)
	if !ok || !s.late || gave.Reason != backoff.ReasonNotIdempotent {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	note := "the program has read the header of the stream"
	if s.isFull() {
		note = "the stream sent more than it keeps (Method.MaxBuffer)"
	}
	once := s.carried.policy
	once.MaxAttempts, once.ByClass = 1, nil
	return once.GiveUp(s.ctx, backoff.Error{Attempts: int(s.attempts.Load()), Reason: backoff.ReasonAttempts, Last: gave.Last, Note: note})
}

// commit makes the stream one that is not opened again.
func (s *stream) commit() {
	s.committed.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = nil
}

// start opens the stream for the first time. From then on the end of the
// context ends the call, whether somebody receives or not.
func (s *stream) start() (grpc.ClientStream, error) {
	if refused := s.next(nil); refused != nil {
		return nil, s.fail(refused)
	}
	cancel, stop := s.cancel, context.AfterFunc(s.ctx, func() { s.end(s.ctx.Err()) })
	s.cancel = func() { stop(); cancel() }
	inner, err := s.attempt()
	if err == nil {
		s.inner = inner
		return s, nil
	}
	if err := s.reopen(err); err != nil {
		return nil, err
	}
	return s, nil
}

// attempt opens a stream.
func (s *stream) attempt() (inner grpc.ClientStream, err error) {
	defer func() {
		if inner == nil && err == nil { // it panicked
			s.abort(status.Error(codes.Unavailable, "the stream was not opened"))
		}
	}()
	seen := new(sight)
	inner, err = s.open(withAttempt(s.ctx, int(s.attempts.Add(1)), s.carried.policy.Idempotency), seen)
	if err != nil {
		return nil, seen.error(s.ctx, err)
	}
	return inner, nil
}

// reopen opens the stream again after err, or returns the error of the call.
func (s *stream) reopen(err error) error {
	for {
		if gaveUp := s.next(err); gaveUp != nil {
			return s.fail(gaveUp)
		}
		again, ok := s.again()
		switch {
		case !ok:
			return s.fail(s.end(err))
		case again == nil:
			return nil
		}
		err = again
	}
}

// again opens the stream again, and sends what was sent before. It does not, and
// returns false, if meanwhile too much was sent.
func (s *stream) again() (err error, ok bool) {
	s.sending.Lock()
	replaying := false
	defer func() {
		if !replaying { // also where an interceptor panics
			s.sending.Unlock()
		}
	}()
	if s.committed.Load() {
		return nil, false
	}
	inner, err := s.attempt()
	if err == nil {
		replaying = s.replace(inner)
	}
	return err, true
}

// next waits until the next attempt is due, and returns nil, or the error of
// the call. The attempt before failed with err, nil if there was none.
func (s *stream) next(err error) error {
	s.running.Lock()
	defer s.running.Unlock()
	pause, ok := time.Duration(0), true
	if err != nil {
		pause, ok = s.run.Retry(exhausted(s.waits.hear(err), s.carried.policy.Classify))
	}
	if ok {
		_, ok = s.run.Begin(pause)
	}
	if ok {
		return nil
	}
	return s.why()
}

// end tells the run how the call ended, nil if it succeeded, unless the run
// knows. The budget then has its place back. end returns the error of the call.
func (s *stream) end(err error) error {
	s.running.Lock()
	defer s.running.Unlock()
	s.run.Retry(exhausted(err, s.carried.policy.Classify))
	return cmp.Or(s.why(), err)
}

// abort ends the call of a stream that cannot go on.
func (s *stream) abort(err error) {
	s.commit()
	s.end(err)
}

// fail returns the error of a call that has ended.
func (s *stream) fail(err error) error {
	s.commit()
	err = s.carried.error(s.ctx, err)
	s.cancel()
	return err
}

// replace makes inner the stream, and sends it the messages that were sent
// before. It sends them in a goroutine: otherwise a server that answers before
// it has read everything would wait for ever. The caller holds sending; replace
// reports whether that goroutine unlocks it.
func (s *stream) replace(inner grpc.ClientStream) (replaying bool) {
	s.mu.Lock()
	s.inner = inner
	sent := s.sent
	s.mu.Unlock()
	if len(sent) == 0 && !s.closed {
		return false
	}
	go s.replay(inner, sent)
	return true
}

// replay sends the messages again.
func (s *stream) replay(inner grpc.ClientStream, sent []any) {
	defer s.sending.Unlock()
	for _, m := range sent {
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
		inner, own, deliver := s.current(), m, func() {}
		if !s.committed.Load() {
			own, deliver = fresh(m)
		}
		err := inner.RecvMsg(own)
		if err == nil || err == io.EOF {
			if err == nil {
				deliver()
			}
			s.succeed(err != nil)
			return err
		}
		failed := attemptError(s.ctx, &failure{err: err, trailer: inner.Trailer()})
		switch {
		case s.succeeded:
			return s.fail(err)
		case s.committed.Load():
			return s.fail(s.end(failed))
		}
		if err := s.reopen(failed); err != nil {
			return err
		}
	}
}

// succeed notes that the server has answered, and whether that was the whole
// answer.
func (s *stream) succeed(over bool) {
	if !s.succeeded {
		s.succeeded = true
		s.commit()
		s.end(nil)
	}
	if over {
		s.cancel()
	}
}

// SendMsg implements grpc.ClientStream.
func (s *stream) SendMsg(m any) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	err := s.current().SendMsg(m)
	if err == nil || err == io.EOF { // to send it again must not panic in a goroutine of this package
		s.keep(m)
	}
	switch {
	case err == io.EOF && !s.committed.Load():
		return nil // RecvMsg opens it again
	case err != nil && err != io.EOF: // the message cannot be sent, and nobody need receive
		s.abort(err)
	}
	return err
}

// keep keeps a message for another attempt, unless the stream is committed.
func (s *stream) keep(m any) {
	size := int64(unknownSize)
	if p, ok := m.(proto.Message); ok && !s.committed.Load() {
		size = int64(max(leastSize, proto.Size(p)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed.Load() {
		return
	}
	s.size, s.sent = s.size+size, append(s.sent, m)
	if s.isFull() {
		s.committed.Store(true)
		s.sent = nil
	}
}

// isFull reports, under mu, whether the program has sent more than is kept.
func (s *stream) isFull() bool { return s.most > 0 && s.size > s.most }

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
		s.commit()
	}
	return md, err
}

// Trailer implements grpc.ClientStream.
func (s *stream) Trailer() metadata.MD { return s.current().Trailer() }

// Context implements grpc.ClientStream.
func (s *stream) Context() context.Context { return s.current().Context() }
