package backoffgrpc

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
)

const (
	pushbackKey = "grpc-retry-pushback-ms"
	attemptsKey = "grpc-previous-rpc-attempts"
)

// Classify sorts the errors of calls by their code. UNAVAILABLE is ClassRetryable, or ClassNotSent
// where a client of this package knows that no stream was opened. RESOURCE_EXHAUSTED is
// ClassThrottled if the server said when to come back, by RetryInfo or pushback, and ClassPermanent else, as it
// may mean a quota of the day. All others are ClassPermanent, and so is nil.
//
// DEADLINE_EXCEEDED, INTERNAL, ABORTED, UNKNOWN and RESOURCE_EXHAUSTED in general are for those who know what
// their servers mean by them:
//
//	policy.Classify = backoff.OnCode(status.Code, codes.Unavailable, codes.Aborted)
//
// It is a [backoff.Classifier], is used where a policy's own has no opinion, and is safe for concurrent use. Source:
// AIP-194; gRPC, "Status codes and their use".
func Classify(err error) backoff.Class {
	if err == nil {
		return backoff.ClassPermanent
	}
	failure, known := errors.AsType[*failure](err)
	switch status.Code(err) {
	case codes.Unavailable:
		if known && failure.unsent {
			return backoff.ClassNotSent
		}
		return backoff.ClassRetryable
	case codes.ResourceExhausted:
		if _, ok := retryInfo(err); ok || known && failure.pushed {
			return backoff.ClassThrottled
		}
	}
	return backoff.ClassPermanent
}

// falling is a classifier that falls back on Classify.
func falling(first backoff.Classifier) backoff.Classifier {
	if first == nil {
		return Classify
	}
	return func(err error) backoff.Class {
		if class := first(err); class != backoff.ClassUnknown {
			return class
		}
		return Classify(err)
	}
}

// failure is the error of an attempt, with what is not in its status.
type failure struct {
	err     error
	unsent  bool // no stream was opened
	pushed  bool // by pushback
	expired bool // by the attempt's own time
	trailer metadata.MD
}

func (f *failure) Error() string              { return f.err.Error() }
func (f *failure) GRPCStatus() *status.Status { return status.Convert(f.err) }

// ResponseHeader is the trailer, with the code as it was sent, for observers.
func (f *failure) ResponseHeader() map[string][]string {
	h := f.trailer.Copy()
	if h == nil {
		h = metadata.MD{}
	}
	h.Set("grpc-status", strconv.Itoa(int(status.Code(f.err))))
	return h
}

// Unwrap adds what a policy knows its own timeouts by: a status does not match the context's error.
func (f *failure) Unwrap() []error {
	if f.expired {
		return []error{f.err, backoff.ErrAttemptTimeout}
	}
	return []error{f.err}
}

// failed returns the error of an attempt under ctx as policies and hedges understand it.
func failed(ctx context.Context, err error, trailer metadata.MD, unsent bool) error {
	f := &failure{err: err, unsent: unsent, trailer: trailer}
	if status.Code(err) == codes.DeadlineExceeded {
		f.expired = expired(ctx)
	}
	if d, ok := parsePushback(trailer.Get(pushbackKey)); ok {
		f.pushed = d >= 0
		return pushed(f, d)
	}
	if d, ok := retryInfo(err); ok {
		return backoff.RetryAfter(f, d)
	}
	return f
}

// grace is how much sooner than the client's own clock the server's may say that time is over.
const grace = 10 * time.Millisecond

// expired reports whether the attempt's own time is over, after DEADLINE_EXCEEDED.
func expired(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= grace {
		<-ctx.Done() // any moment now
	}
	return context.Cause(ctx) == backoff.ErrAttemptTimeout
}

// pushed marks a failure with the server's pushback. A "do not retry" must not make a definitive
// error look like an overload, so that it comes back as it is.
func pushed(f *failure, d time.Duration) error {
	if d < 0 && !mayPass(status.Code(f.err)) {
		return backoff.Permanent(f)
	}
	return backoff.Pushback(f, d)
}

// mayPass reports whether anybody retries a code.
func mayPass(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.Unknown, codes.DeadlineExceeded:
		return true
	}
	return false
}

// retryInfo returns what a status says of when to come back.
func retryInfo(err error) (time.Duration, bool) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay() != nil {
			return max(0, info.GetRetryDelay().AsDuration()), true
		}
	}
	return 0, false
}

// final is what a call returns: an error of package backoff that is also a status.
type final struct {
	err    error
	status *status.Status
}

func (f *final) Error() string              { return f.err.Error() }
func (f *final) Unwrap() error              { return f.err }
func (f *final) GRPCStatus() *status.Status { return f.status }

// outward returns the error of a call with its status: that of the last attempt, unless the
// call's context has ended or there was none.
func outward(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s, ok := statusOf(err)
	switch {
	case ctx.Err() != nil:
		s = status.New(status.FromContextError(ctx.Err()).Code(), err.Error())
	case ok:
	case errors.Is(err, context.DeadlineExceeded):
		s = status.New(codes.DeadlineExceeded, err.Error())
	case errors.Is(err, backoff.ErrBudget), errors.Is(err, backoff.ErrOpen):
		s = status.New(codes.Unavailable, err.Error())
	default:
		s = status.New(codes.Unknown, err.Error())
	}
	return &final{err: err, status: s}
}

// statusOf returns the status within err as it was sent: status.Convert would change its message.
func statusOf(err error) (*status.Status, bool) {
	e, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err)
	if !ok {
		return nil, false
	}
	return e.GRPCStatus(), true
}
