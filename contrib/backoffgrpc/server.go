package backoffgrpc

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gobackoff/backoff"
)

const maxAttempt = 1000 // that is believed

// Upstream is what a call says of its client's loop.
type Upstream struct {
	// Attempt is the number of the attempt, from 1; a client that does not say is at its first.
	Attempt int
	// Deadline is when the client gives up; the zero time if it does not say.
	Deadline time.Time
}

type upstreamKey struct{}

// UpstreamFrom returns what the interceptors [UnaryServer] and [StreamServer] read, and false
// outside of them.
func UpstreamFrom(ctx context.Context) (Upstream, bool) {
	up, ok := ctx.Value(upstreamKey{}).(Upstream)
	return up, ok
}

// inbound reads grpc-previous-rpc-attempts. Nonsense counts as silence.
func inbound(ctx context.Context) context.Context {
	up := Upstream{Attempt: 1}
	up.Deadline, _ = ctx.Deadline() // grpc-go reads grpc-timeout
	if values := metadata.ValueFromIncomingContext(ctx, attemptsKey); len(values) == 1 {
		if n, err := strconv.ParseUint(values[0], 10, 31); err == nil && n < maxAttempt {
			up.Attempt = int(n) + 1
		}
	}
	return context.WithValue(ctx, upstreamKey{}, up)
}

// DoNotRetry tells the client of a call not to send it again, by grpc-retry-pushback-ms: -1,
// whatever the status. It is for servers that are overloaded, and for those that have retried in
// vain themselves. Call it from the handler, before it returns, with its context; elsewhere it
// returns the error of grpc.SetTrailer. It takes precedence over [Pushback].
//
// Source: gRFC A6, "Pushback".
func DoNotRetry(ctx context.Context) error {
	return grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, "-1"))
}

// Pushback tells the client of a call to send it again in exactly d, by grpc-retry-pushback-ms, if
// it sends it again at all. A negative d is [DoNotRetry]. Call it once: a client takes two pushbacks for
// "do not retry". Otherwise as there.
func Pushback(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return DoNotRetry(ctx)
	}
	ms := min((d+time.Millisecond-1)/time.Millisecond, math.MaxInt32) // signed 32-bit
	return grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, strconv.Itoa(int(ms))))
}

// RetryAfter returns err as a status with RetryInfo: no attempt before d has passed. It is what makes
// RESOURCE_EXHAUSTED retryable to a client of this package. A negative d counts as 0. An
// error without a status becomes UNKNOWN, and one that has RetryInfo already keeps it. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	if _, ok := retryInfo(err); ok {
		return err
	}
	s, ok := statusOf(err)
	if !ok {
		s = status.Convert(err)
	}
	detailed, bad := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(max(0, d))})
	if bad != nil { // an OK, which is no error
		return err
	}
	return &final{err: err, status: detailed}
}

// UnaryServer is an interceptor that puts what a call says of its client's loop into the context
// ([UpstreamFrom]), and makes a handler's error speak to it: what a policy, budget or breaker below gave up on
// becomes [DoNotRetry], so that layers do not multiply, and a hint within it (backoff.RetryAfter, [backoff.Error])
// becomes RetryInfo. Errors without a status get one: UNAVAILABLE, DEADLINE_EXCEEDED or UNKNOWN.
// What a policy limited to one attempt gave up on is left to the client.
func UnaryServer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx = inbound(ctx)
	reply, err := handler(ctx, req)
	return reply, speak(ctx, err)
}

// StreamServer is [UnaryServer] for streams.
func StreamServer(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := inbound(stream.Context())
	return speak(ctx, handler(srv, &serverStream{stream, ctx}))
}

type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }

// speak gives an error to the client of the call.
func speak(ctx context.Context, err error) error {
	gave, ok := errors.AsType[*backoff.Error](err)
	refused := errors.Is(err, backoff.ErrBudget) || errors.Is(err, backoff.ErrOpen)
	if err == nil || !ok && !refused && hintOf(err) <= 0 {
		return err
	}
	if _, ok := statusOf(err); !ok {
		err = &final{err: err, status: status.New(codeOf(err), err.Error())}
	}
	if ok && !gave.RetryableError() || refused {
		DoNotRetry(ctx)
	}
	if d := hintOf(err); d > 0 {
		return RetryAfter(err, d)
	}
	return err
}

func codeOf(err error) codes.Code {
	_, gaveUp := errors.AsType[*backoff.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case gaveUp, errors.Is(err, backoff.ErrOpen), errors.Is(err, backoff.ErrBudget):
		return codes.Unavailable
	}
	return codes.Unknown
}

// hintOf returns how long err asks to wait.
func hintOf(err error) time.Duration {
	if gave, ok := errors.AsType[*backoff.Error](err); ok {
		return gave.RetryAfter()
	}
	hint, _ := asker.Decide(1, err)
	return hint
}

// asker waits exactly as long as an error asks for.
var asker = backoff.Policy{
	Schedule:      backoff.Constant(0),
	Jitter:        backoff.NoJitter,
	MaxRetryAfter: -1,
	Rand:          func() float64 { return 0 },
}
