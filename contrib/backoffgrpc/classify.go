package backoffgrpc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
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

	idempotencyKey = "idempotency-key"
)

// Classify sorts the errors of calls by their code. UNAVAILABLE is
// ClassRetryable, or ClassNotSent if a client of this package knows that no
// stream was opened; so is an attempt that got no connection before its
// AttemptTimeout. RESOURCE_EXHAUSTED is ClassThrottled if the server said
// when to retry, by RetryInfo or pushback. Otherwise it is ClassOverloaded: it
// is not retried, since it may mean a daily quota, but budgets get
// ClassThrottled. If it says that a message is larger than a limit of grpc-go, it
// is ClassPermanent. All other codes are ClassPermanent, and so is nil. Of
// errors that are joined the greatest class counts, and ClassNotSent only if
// all of them are.
//
// With any classifier, a client of this package marks two errors as
// [backoff.Permanent]: that one side does not trust the certificate of the
// other, which grpc-go calls UNAVAILABLE, and that a message is larger than a
// limit of grpc-go. A policy's own classifier decides whether any other
// RESOURCE_EXHAUSTED is retried. Its budget counts it as throttled in either
// case.
//
// DEADLINE_EXCEEDED, INTERNAL, ABORTED, UNKNOWN and RESOURCE_EXHAUSTED in
// general should be retried only by clients that know what their servers mean
// by them:
//
//	policy.Classify = plug.OnCode(status.Code, codes.Unavailable, codes.Aborted)
//
// Classify is a [backoff.Classifier]. It is used where a policy's own
// classifier has no opinion. It is safe for concurrent use. Source: AIP-194;
// gRPC, "Status codes and their use".
func Classify(err error) backoff.Class {
	if class, known := classOf(finite(err)); known {
		return class
	}
	return backoff.ClassPermanent
}

// classOf returns the class of err, and whether there is a status in its tree.
func classOf(err error) (class backoff.Class, known bool) {
	switch e := err.(type) {
	case *backoff.OpenError:
		return backoff.ClassPermanent, true
	case *backoff.Error:
		if e == nil {
			return backoff.ClassPermanent, true
		}
		return classOf(e.Last)
	case *failure:
		class, known = classOf(e.err)
		switch code := status.Code(e); {
		case e.notSent && class == backoff.ClassRetryable:
			class = backoff.ClassNotSent
		case e.pushed && code == codes.ResourceExhausted:
			class = backoff.ClassThrottled
		}
		return class, known
	case interface{ GRPCStatus() *status.Status }:
		if s := e.GRPCStatus(); s.Code() != codes.OK {
			return classOfStatus(s, err), true
		}
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return classOfAll(several.Unwrap())
	}
	if inner := errors.Unwrap(err); inner != nil {
		return classOf(inner)
	}
	return backoff.ClassUnknown, false
}

// classOfStatus returns the class of an error with the status s. What the error
// wraps may know more than the code.
func classOfStatus(s *status.Status, err error) backoff.Class {
	below, _ := classOf(errors.Unwrap(err))
	switch code := s.Code(); {
	case code == codes.Unavailable && below == backoff.ClassNotSent:
		return backoff.ClassNotSent
	case code == codes.Unavailable:
		return backoff.ClassRetryable
	case code != codes.ResourceExhausted || isTooLarge(s):
		return backoff.ClassPermanent
	}
	if _, told := retryInfo(s.Err()); told || below == backoff.ClassThrottled {
		return backoff.ClassThrottled
	}
	return backoff.ClassOverloaded
}

// classOfAll returns the greatest class of several errors. All must be known not
// to have been sent, or one may have been.
func classOfAll(errs []error) (class backoff.Class, known bool) {
	all := true
	for _, err := range errs {
		if err == nil {
			continue
		}
		c, ok := classOf(err)
		class, known, all = max(class, c), known || ok, all && ok && c == backoff.ClassNotSent
	}
	if class == backoff.ClassNotSent && !all {
		class = backoff.ClassRetryable
	}
	return class, known
}

// forPolicy is withFallback for a policy, whose budget hears of every
// RESOURCE_EXHAUSTED. Whether it is retried is what first says.
func forPolicy(first backoff.Classifier) backoff.Classifier {
	first = withFallback(first)
	return func(err error) backoff.Class {
		class, own := first(err), Classify(err)
		switch {
		case own != backoff.ClassThrottled && own != backoff.ClassOverloaded:
			return class
		case class.Retryable():
			return backoff.ClassThrottled
		}
		return backoff.ClassOverloaded
	}
}

// withFallback returns a classifier that asks first, and Classify if first has
// no opinion.
func withFallback(first backoff.Classifier) backoff.Classifier {
	if first == nil {
		return Classify
	}
	return func(err error) backoff.Class { return cmp.Or(first(err), Classify(err)) }
}

// failure is the error of an attempt, with what its status does not tell.
type failure struct {
	err     error
	notSent bool  // no stream was opened
	own     bool  // grpc-go refused the call before that
	pushed  bool  // the server sent a pushback to retry
	expired error // ErrAttemptTimeout, if the attempt's own timeout is over
	trailer metadata.MD
}

// Error returns the text of the attempt's error.
func (f *failure) Error() string { return f.err.Error() }

// GRPCStatus returns the status of the attempt, or nil if an interceptor failed
// it without one.
func (f *failure) GRPCStatus() *status.Status {
	s, _ := statusOf(f.err)
	return s
}

// BackoffFault tells guards whose fault the failure is, where the class does not. ABORTED is
// the answer of a service that works, and met a conflict.
func (f *failure) BackoffFault() string {
	switch {
	case f.own:
		return "own"
	case status.Code(f) == codes.Aborted:
		return "answered"
	}
	return ""
}

// ResponseHeader returns the trailer and the code as it was sent, for
// observers.
func (f *failure) ResponseHeader() map[string][]string {
	h := f.trailer.Copy() // never nil
	h.Set("grpc-status", strconv.Itoa(int(status.Code(f))))
	return h
}

// Unwrap adds the error by which a policy knows its own timeout. A status does
// not match the context's error.
func (f *failure) Unwrap() []error {
	if f.expired != nil {
		return []error{f.err, f.expired}
	}
	return []error{f.err}
}

// attemptError returns the error of an attempt under ctx, which failed so, in a form that
// policies and hedges understand.
func attemptError(ctx context.Context, f *failure) error {
	pushback, told := parsePushback(f.trailer.Get(pushbackKey))
	f.err, f.trailer = kept(finite(f.err)), keptTrailer(f.trailer)
	if f.notSent && isDistrust(f.Error()) || isTooLarge(status.Convert(f)) {
		return backoff.Permanent(f)
	}
	switch {
	case status.Code(f) != codes.DeadlineExceeded || !expired(ctx):
	case f.notSent: // it waited for a connection, or for a place on one
		f.err, f.expired = backoff.OfClass(f.err, backoff.ClassNotSent), backoff.OfClass(backoff.ErrAttemptTimeout, backoff.ClassNotSent)
	default:
		f.expired = backoff.ErrAttemptTimeout
	}
	if told {
		f.pushed = pushback >= 0
		return withPushback(f, pushback)
	}
	if d, ok := retryInfo(f.err); ok {
		return backoff.RetryAfter(f, d)
	}
	return f
}

// isTooLarge reports whether grpc-go, here or on the server, refused a message
// because it is larger than its limit: it would do so again. grpc-go gives the
// text only.
func isTooLarge(s *status.Status) bool {
	return s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "message ") && strings.Contains(s.Message(), " larger than max ")
}

// isDistrust reports whether the text of a connection's error says that one
// side does not trust the certificate of the other. grpc-go keeps the text
// only.
func isDistrust(text string) bool {
	_, alert, _ := strings.Cut(text, "remote error: tls: ")
	return strings.Contains(text, "tls: failed to verify certificate: ") || strings.Contains(alert, "certificate")
}

// grace is how much earlier than the client's clock the server's clock may say
// that the time is over.
const grace = 10 * time.Millisecond

// expired reports, after DEADLINE_EXCEEDED, whether the attempt's own timeout
// is over.
func expired(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= grace {
		<-ctx.Done() // any moment now
	}
	return context.Cause(ctx) == backoff.ErrAttemptTimeout
}

// withPushback marks a failure with the server's pushback. A "do not retry"
// must not make a permanent error look like an overload, so the policy returns
// the error as it is.
func withPushback(f *failure, d time.Duration) error {
	switch {
	case d >= 0:
		return backoff.Pushback(f, d)
	case !slices.Contains(transient, status.Code(f)):
		return backoff.Permanent(f)
	}
	return overloaded(f)
}

// overloaded marks an error that must not be retried. A RESOURCE_EXHAUSTED stays
// ClassThrottled to budgets.
func overloaded(err error) error {
	if isExhausted(err) {
		err = backoff.OfClass(err, backoff.ClassThrottled)
	}
	return backoff.OfClass(err, backoff.ClassOverloaded)
}

// exhausted marks the error of an attempt if it is a RESOURCE_EXHAUSTED that the
// classifier of a policy does not retry, and not marked yet. The class alone
// would not tell the budget that the server throttles.
func exhausted(err error, classify backoff.Classifier) error {
	if !isExhausted(err) || backoff.DefaultClassifier(err) != backoff.ClassUnknown || classify(err) != backoff.ClassOverloaded {
		return err
	}
	return overloaded(err)
}

// isExhausted reports whether the status of an error is RESOURCE_EXHAUSTED.
func isExhausted(err error) bool {
	s, ok := statusOf(err)
	return ok && s.Code() == codes.ResourceExhausted
}

// transient are the codes that clients may retry at all.
var transient = []codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.Unknown, codes.DeadlineExceeded}

// retryInfo returns how long to wait, if the status of err says so. A negative
// delay is ignored, and of more than one the longest counts.
func retryInfo(err error) (longest time.Duration, ok bool) {
	s, _ := statusOf(err)
	for _, detail := range s.Details() {
		info, isInfo := detail.(*errdetails.RetryInfo)
		if delay := info.GetRetryDelay(); isInfo && delay != nil && delay.AsDuration() >= 0 {
			longest, ok = max(longest, delay.AsDuration()), true
		}
	}
	return longest, ok
}

// statusError is the error of a call: an error of package backoff with a
// status.
type statusError struct {
	err     error
	status  *status.Status
	private bool // the status has the text of err, which is for the caller only
}

// Error returns the text of the error.
func (e *statusError) Error() string { return e.err.Error() }

// Unwrap returns the error without the status.
func (e *statusError) Unwrap() error { return e.err }

// GRPCStatus returns the status.
func (e *statusError) GRPCStatus() *status.Status { return e.status }

// callError returns the error of a call with a status. It is the status of the
// last attempt, unless the call's context has ended or no attempt was made.
func callError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s, ok := statusOf(err)
	if ok && ctx.Err() == nil {
		return &statusError{err: err, status: s}
	}
	code := codes.Unknown
	switch {
	case ctx.Err() != nil:
		code = status.FromContextError(ctx.Err()).Code()
	case isRefused(err): // whatever the last attempt met
		code = codes.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	return &statusError{err: err, status: status.New(code, err.Error()), private: true}
}

// statusOf returns the first status within err, if it is not OK, as it was sent.
// status.Convert would change its message.
func statusOf(err error) (s *status.Status, ok bool) {
	var e interface{ GRPCStatus() *status.Status }
	if errors.As(err, &e) {
		s = e.GRPCStatus()
	}
	if s.Code() == codes.OK {
		return nil, false
	}
	return s, true
}
