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
	"github.com/gobackoff/backoff/guard"
)

// maxOwnWait is the longest wait for which a server asks because of a circuit
// of its own. Clients that stay away longer would not notice that it closes.
const maxOwnWait = 5 * time.Second

// maxReported is the highest number of an attempt that a client is believed.
const maxReported = 1000

// Upstream is what a call says about its client's loop.
type Upstream struct {
	// Attempt is the number of the attempt, from 1. It is 1 if the client
	// does not say.
	Attempt int
	// Deadline is when the client gives up, or the zero time if it does not
	// say. An interceptor around this one may have set an earlier one.
	Deadline time.Time
}

// upstreamKey is the key of an Upstream in a context.
type upstreamKey struct{}

// UpstreamFrom returns what the interceptors [UnaryServer] and [StreamServer]
// read. Outside of them it returns false.
func UpstreamFrom(ctx context.Context) (Upstream, bool) {
	up, ok := ctx.Value(upstreamKey{}).(Upstream)
	return up, ok
}

// withUpstream puts into the context what the call says. An invalid
// grpc-previous-rpc-attempts is ignored.
func withUpstream(ctx context.Context) context.Context {
	up := Upstream{Attempt: 1}
	up.Deadline, _ = ctx.Deadline() // grpc-go reads grpc-timeout
	ctx = guard.WithInboundDeadline(ctx)
	if values := metadata.ValueFromIncomingContext(ctx, attemptsKey); len(values) == 1 {
		if n, err := strconv.ParseUint(values[0], 10, 31); err == nil && n < maxReported {
			up.Attempt = int(n) + 1
		}
	}
	return context.WithValue(ctx, upstreamKey{}, up)
}

// DoNotRetry tells the client of a call not to send the call again, whatever
// the status, by grpc-retry-pushback-ms: -1. It is for servers that are
// overloaded, and for servers whose own retries have failed. Call it with the
// handler's context, before the handler returns. Elsewhere it returns the error
// of grpc.SetTrailer. It takes precedence over [Pushback].
//
// Source: gRFC A6, "Pushback".
func DoNotRetry(ctx context.Context) error {
	return grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, "-1"))
}

// Pushback tells the client of a call to wait exactly d before it sends the
// call again, if it does, by grpc-retry-pushback-ms. A negative d is
// [DoNotRetry]. Call it once: a client takes two pushbacks for "do not retry".
// The context and the error are as for DoNotRetry.
func Pushback(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return DoNotRetry(ctx)
	}
	return grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, pushbackOf(d)))
}

// pushbackOf returns d in milliseconds, rounded up, as a signed 32-bit number.
func pushbackOf(d time.Duration) string {
	up := min(d, math.MaxInt32*time.Millisecond) + time.Millisecond - 1
	return strconv.Itoa(int(up / time.Millisecond))
}

// RetryAfter returns err as a status with RetryInfo: the client should make no
// attempt before d has passed. RESOURCE_EXHAUSTED is retryable to a client of
// this package only with a RetryInfo. A negative d counts as 0. An error
// without a status gets the one that [UnaryServer] would give it. An error that
// has RetryInfo already keeps it. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	if _, ok := retryInfo(err); ok {
		return err
	}
	s := Status(err)
	if detailed, bad := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(max(0, d))}); bad == nil {
		s = detailed
	}
	return &statusError{err: err, status: s}
}

// UnaryServer is an interceptor that does three things. It puts what a call
// says about its client's loop into the context ([UpstreamFrom]), and marks
// the deadline there as the client's ([guard.WithInboundDeadline]). It tells
// the client what a handler's error means: if a policy or budget below gave
// up, it sends [DoNotRetry], so that layers do not multiply; if the error says
// when to retry (backoff.RetryAfter, [backoff.Error], [backoff.OpenError]), it
// sends RetryInfo, because of a breaker for 5 seconds at most. And it keeps the
// text of internal errors from the client. If a policy that is limited to one
// attempt gave up, or a breaker refused the call before its first attempt, the
// client decides about retries.
//
// A status goes out as the handler made it. Of an error around a status, the
// status goes out and the text around it does not. Any other error gets a
// status of UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED or UNKNOWN, whose
// message is the name of the code; so does the error of a call of this package
// to which no server responded. Interceptors around this one see the whole
// error.
func UnaryServer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx = withUpstream(ctx)
	reply, err := handler(ctx, req)
	return reply, replyError(ctx, err)
}

// StreamServer is [UnaryServer] for streams.
func StreamServer(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := withUpstream(stream.Context())
	return replyError(ctx, handler(srv, &serverStream{stream, ctx}))
}

// serverStream is a stream with a context of its own.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context with the Upstream.
func (s *serverStream) Context() context.Context { return s.ctx }

// replyError returns the error for the client of a call, and sends the
// pushback.
func replyError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = finite(err)
	gave, gaveUp := errors.AsType[*backoff.Error](err)
	final := (gaveUp && !gave.RetryableError() || isRefused(err)) && !isUnsent(err)
	if final {
		DoNotRetry(ctx)
	}
	wait, _ := backoff.RetryAfterOf(err)
	if errors.Is(err, backoff.ErrOpen) {
		wait = min(wait, maxOwnWait)
	}
	// A permanent error stays permanent.
	told := wait > 0 && (final || isRefused(err) || backoff.Policy{}.Retryable(err))
	own, has := err.(interface{ GRPCStatus() *status.Status }) // what grpc-go sends for err itself
	if s := Status(err); !has || own.GRPCStatus() != s {
		err = &statusError{err: err, status: s}
	}
	if told {
		return RetryAfter(err, wait)
	}
	return err
}

// Status returns the status of err for the client of a server, or for a caller
// who expects one: that of the operation, with its message and details as they
// were made. status.Convert puts the texts of the errors around it into the
// message, such as "backoff: gave up after 3 attempts".
//
// It looks through wrappers, marks and a [*backoff.Error]. An error without a
// status gets one whose message is the name of its code, so that no internal
// text goes out: UNAVAILABLE if a policy gave up, or a budget or breaker
// refused ([*backoff.OpenError]); DEADLINE_EXCEEDED or CANCELLED if a context
// ended; and UNKNOWN otherwise. So does the error of a call of this package to
// which no server responded. Status(nil) is nil, which is OK. [UnaryServer]
// and [StreamServer] send this status.
func Status(err error) *status.Status {
	if err == nil {
		return nil
	}
	err = finite(err)
	s, ok := statusOf(err)
	switch made, isMade := errors.AsType[*statusError](err); {
	case !ok:
		return neutral(codeOf(err))
	case isMade && made.status == s && made.private:
		return neutral(s.Code())
	}
	return s
}

// neutral returns a status that says no more than its code.
func neutral(code codes.Code) *status.Status { return status.New(code, code.String()) }

// isRefused reports whether a budget or a breaker refused a call.
func isRefused(err error) bool {
	return errors.Is(err, backoff.ErrOpen) || errors.Is(err, backoff.ErrBudget)
}

// isUnsent reports whether a breaker refused a call before its first attempt.
// Whoever makes the call again repeats nothing.
func isUnsent(err error) bool {
	if gave, ok := errors.AsType[*backoff.Error](err); ok && gave.Last != nil {
		return isUnsent(gave.Last)
	}
	return errors.Is(err, backoff.ErrOpen)
}

// codeOf returns the code for an error without a status.
func codeOf(err error) codes.Code {
	_, gaveUp := errors.AsType[*backoff.Error](err)
	switch {
	case isRefused(err): // whatever the last attempt met
		return codes.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case gaveUp:
		return codes.Unavailable
	}
	return codes.Unknown
}
