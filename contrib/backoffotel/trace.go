package backoffotel

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// Trace returns a [backoff.Doer] that is d with spans by tp. A nil tp means the
// global TracerProvider. A call has a span called name. Each of its attempts
// has a span below it, called name with " attempt" after it. The operation runs
// in the context of the attempt's span.
//
//	search := backoffotel.Trace(nil, "search", service.With(policy))
//
// Put it around all that guards the policy, such as a guard.Service: what is outside
// of it does not appear in the call's span. A call that was refused before its first
// attempt has no span but its own.
//
// An attempt's span has backoff.attempt. From the second attempt on it has
// http.request.resend_count (for operations of any kind, since the conventions
// have no other name for it) and backoff.slept, the time since the attempt
// before. If the attempt failed, it has error.type and an error as its status.
// If SpanEvents is an Observer of the policy, it has backoff.class, too, and
// ends with the event. Otherwise it is ended by the next attempt or by the end
// of the call. The time of its end is always when the operation returned. The
// call's span has backoff.attempt, the number of attempts, and for a failure
// backoff.reason, error.type and the status.
//
// A [hedge.Hedge] is no Doer: its attempts are traced by what they call, and
// SpanEvents reports its hedges.
//
// Both kinds of span are internal: the client span of a request is made by the
// layer that sends it. A panic of the operation ends both spans and goes on.
// There should be few names (see Metrics). What Trace returns is safe for
// concurrent use if d is.
func Trace(tp trace.TracerProvider, name string, d backoff.Doer) backoff.Doer {
	tracer := cmp.Or(tp, otel.GetTracerProvider()).Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	return &traced{tracer: tracer, name: name, doer: d}
}

// traced is the Doer of Trace.
type traced struct {
	tracer trace.Tracer
	name   string
	doer   backoff.Doer
}

// Do implements [backoff.Doer].
func (t *traced) Do(ctx context.Context, op func(context.Context) error) error {
	ctx, span := t.tracer.Start(ctx, t.name, trace.WithAttributes(keyOperation.String(t.name)))
	c := &call{traced: t}
	err := errNoReturn
	defer func() {
		c.endAttempt()
		c.describe(span, err)
		span.End()
	}()
	err = t.doer.Do(context.WithValue(ctx, callKey{}, c), func(ctx context.Context) error { return c.attempt(ctx, op) })
	return err
}

// errNoReturn stands for the unknown result of an operation that did not
// return.
var errNoReturn = errors.New("panicked or left its goroutine")

// callKey is the key of a call in a context.
type callKey struct{}

// call is a call under Trace. A Doer makes its attempts one at a time, and
// calls observers between them.
type call struct {
	*traced
	number int
	span   trace.Span // of the last attempt; nil when it has ended
	ended  time.Time  // the last attempt
}

// attempt makes one attempt in a span.
func (c *call) attempt(ctx context.Context, op func(context.Context) error) error {
	c.endAttempt()
	c.number++
	attributes := []attribute.KeyValue{keyOperation.String(c.name), keyAttempt.Int(c.number)}
	if c.number > 1 {
		attributes = append(attributes, semconv.HTTPRequestResendCount(c.number-1), seconds(keySlept, time.Since(c.ended)))
	}
	ctx, c.span = c.tracer.Start(ctx, c.name+" attempt", trace.WithAttributes(attributes...))
	err := errNoReturn
	defer func() {
		c.ended = time.Now()
		if err != nil {
			setError(c.span, err)
		}
	}()
	// Policies inside the operation make attempts of their own.
	err = op(context.WithValue(ctx, callKey{}, (*call)(nil)))
	return err
}

// observe takes the class of the last attempt from an event, and ends its span.
func (c *call) observe(e *backoff.Event) {
	if c.span == nil || e.Err == nil || e.Kind != backoff.EventRetry && e.Kind != backoff.EventReconnect && e.Kind != backoff.EventGiveUp {
		return
	}
	c.span.SetAttributes(keyClass.String(e.Class.String()))
	c.endAttempt()
}

// endAttempt ends the span of the last attempt, at the time when that ended.
func (c *call) endAttempt() {
	if c.span != nil {
		c.span.End(trace.WithTimestamp(c.ended))
		c.span = nil
	}
}

// describe sets the attributes of the call's span.
func (c *call) describe(span trace.Span, err error) {
	span.SetAttributes(keyAttempt.Int(c.number))
	if err == nil {
		return
	}
	left := maxErrors
	if reason, ok := reasonOf(err, &left); ok {
		span.SetAttributes(keyReason.String(reason.String()))
	}
	setError(span, err)
}

// maxErrors is how many errors of a tree are read: it may be a cycle.
const maxErrors = 10_000

// reasonOf returns why a call ended, if its error says so. The outermost error of
// package backoff tells of the call: what opened a circuit was another one. It
// may read left errors of the tree.
func reasonOf(err error, left *int) (why backoff.Reason, ok bool) {
	*left--
	var inner []error
	switch e := err.(type) {
	case *backoff.Error:
		if e != nil {
			return e.Reason, true
		}
	case *backoff.OpenError:
		return backoff.ReasonOpen, true
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	for i := 0; i < len(inner) && !ok && *left > 0; i++ {
		why, ok = reasonOf(inner[i], left)
	}
	return why, ok
}

// setError makes a span one of an error.
func setError(span trace.Span, err error) {
	span.SetAttributes(errorType(err))
	span.SetStatus(codes.Error, message(err))
}

// Resends returns a RoundTripper that sets http.request.resend_count on the
// span of each request that was sent before: the retries of a
// [backoffhttp.Transport], and the redirects that [http.Client] follows. Put it
// below the RoundTripper that makes the spans, and that one below the
// Transport:
//
//	transport := &backoffhttp.Transport{
//		Base: otelhttp.NewTransport(backoffotel.Resends(nil)),
//	}
//
// Every attempt then has a client span of its own, below the span in the
// request's context. A nil base means [http.DefaultTransport].
func Resends(base http.RoundTripper) http.RoundTripper {
	return &resends{cmp.Or(base, http.DefaultTransport)}
}

// resends is the RoundTripper of Resends.
type resends struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (r *resends) RoundTrip(req *http.Request) (*http.Response, error) {
	if n := resendCount(req); n > 0 {
		trace.SpanFromContext(req.Context()).SetAttributes(semconv.HTTPRequestResendCount(n))
	}
	return r.base.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the base. See
// [http.Client.CloseIdleConnections].
func (r *resends) CloseIdleConnections() {
	if c, ok := r.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// resendCount counts the attempts before this one, and those of all requests
// whose redirects led to it.
func resendCount(req *http.Request) int {
	n := backoffhttp.RetryNumber(req.Context())
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
		n += 1 + backoffhttp.RetryNumber(req.Context())
	}
	return n
}

// SpanEvents is a [backoff.Observer] that adds events to the span in the
// context of the call, if that span is recorded. It adds an event for every
// retry, reconnect, refusal, hedge and transition, and for the end, except for
// a success at the first attempt. Events are named after their kind, such as
// backoff.retry and backoff.give_up. They have the attributes that apply, as
// the records of package backoffslog do: backoff.operation, backoff.attempt and
// so on, error.type, exception.message, and http.response.header.* for the
// headers of [backoffslog.DefaultHeaders]. A retry has
// http.request.resend_count, with the value of the request that follows.
//
// OpenTelemetry is about to replace events of spans by logs that belong to the
// span: those of package backoffslog do, if the slog.Handler is the bridge to
// OpenTelemetry (otelslog), since they are written with the context of the call.
//
// Under [Trace] it also sets the class of its error on the span of an attempt.
func SpanEvents(ctx context.Context, e backoff.Event) {
	if c, ok := ctx.Value(callKey{}).(*call); ok && c != nil {
		c.observe(&e)
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() || e.Kind == backoff.EventSuccess && e.Attempt <= 1 {
		return
	}
	span.AddEvent("backoff."+strings.ReplaceAll(e.Kind.String(), " ", "_"), trace.WithAttributes(attributesOf(endpoint.Of(ctx), &e)...))
}

// attributesOf returns the attributes of an event.
func attributesOf(to *endpoint.Endpoint, e *backoff.Event) []attribute.KeyValue {
	all := []attribute.KeyValue{keyOperation.String(textOf(e.Name))}
	if to != nil {
		all = append(all, keyEndpoint.String(textOf(to.Name)))
	}
	if e.Transition != nil {
		return withTransition(all, e.Transition)
	}
	if e.Attempt > 0 {
		all = append(all, keyAttempt.Int(e.Attempt))
	}
	if e.MaxAttempts > 0 {
		all = append(all, keyMaxAttempts.Int(e.MaxAttempts))
	}
	switch e.Kind {
	case backoff.EventRetry:
		all = append(all, semconv.HTTPRequestResendCount(e.Attempt))
	case backoff.EventHedgeWon, backoff.EventHedgeLost:
		all = append(all, keyHedge.Int(e.Attempt-1))
	case backoff.EventGiveUp, backoff.EventRefused:
		all = append(all, keyReason.String(e.Reason.String()))
	}
	if e.Waiting {
		all = append(all, keyWaiting.Bool(true))
	}
	if e.Err != nil {
		all = append(withError(all, e.Err), keyClass.String(e.Class.String()))
	}
	return withHeader(withTimes(all, e), e.Header)
}

// withError adds the attributes of an error.
func withError(all []attribute.KeyValue, err error) []attribute.KeyValue {
	return append(all, errorType(err), semconv.ExceptionMessage(message(err)))
}

// withTransition adds the attributes of a transition.
func withTransition(all []attribute.KeyValue, t *backoff.BreakerTransition) []attribute.KeyValue {
	all = append(all, keyFrom.String(t.From.String()), keyTo.String(t.To.String()), keyTrigger.String(t.Trigger))
	if t.Err != nil {
		all = withError(all, t.Err)
	}
	return all
}

// withTimes adds the delays, the waits and the time elapsed.
func withTimes(all []attribute.KeyValue, e *backoff.Event) []attribute.KeyValue {
	if e.Kind == backoff.EventRetry || e.Kind == backoff.EventReconnect {
		all = append(all, seconds(keyDelay, e.Delay), seconds(keyWait, e.Wait))
	}
	all = append(all, seconds(keySlept, e.Slept))
	if e.Elapsed > 0 {
		all = append(all, seconds(keyElapsed, e.Elapsed))
	}
	if e.RetryAfter > 0 {
		all = append(all, seconds(keyRetryAfter, e.RetryAfter))
	}
	return all
}

// headers are the response headers that become attributes.
var headers = backoffslog.DefaultHeaders()

// A server may send many headers, and long ones.
const (
	maxValues = 4   // of a header
	maxHeader = 256 // bytes of a value, as in package backoffslog
)

// withHeader adds the response headers.
func withHeader(all []attribute.KeyValue, h map[string][]string) []attribute.KeyValue {
	for name, values := range h {
		for _, wanted := range headers {
			if strings.EqualFold(name, wanted) {
				shown := make([]string, min(len(values), maxValues))
				for i := range shown {
					text := textOf(values[i])
					shown[i] = valid(text[:min(len(text), maxHeader)])
				}
				all = append(all, semconv.HTTPResponseHeader(strings.ToLower(name), shown...))
			}
		}
	}
	return all
}
