package backoffotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/gobackoff/backoff"
)

// Trace returns a [backoff.Doer] that is d with spans by tp; nil means the global
// TracerProvider. A call has the span name, and each of its attempts one below it, called
// name with " attempt" after it, in whose context the operation runs: what that traces
// itself comes below.
//
//	service := backoffotel.Trace(nil, "search", backoff.Stack(breaker, policy))
//
// Put it around the outermost of a [backoff.Stack]; what is outside of it has no part in
// the call's span. A call that was refused before its first attempt has no other.
//
// An attempt's span has backoff.attempt, from the second one on http.request.resend_count
// (for operations of any kind, as the conventions have no other name for it) and
// backoff.slept, the time since the attempt before it, and if it failed error.type and an
// error as its status; backoff.class too if SpanEvents is an Observer of the policy, which
// then ends the span; otherwise the next attempt, or the end of the call, does. The time of
// its end is in any case when the operation returned. The call's span has
// backoff.attempt, the number made, and for a failure backoff.reason, error.type and the
// status.
//
// A [backoff.Hedge] is no Doer: its attempts are traced by what they call, and SpanEvents
// tells of its hedges.
//
// Both kinds of span are internal ones: a client's span for a request is made below by
// what sends it. A panic of the operation ends both, and goes on. Names should be few;
// see Metrics. What Trace returns is safe for concurrent use, if d is.
func Trace(tp trace.TracerProvider, name string, d backoff.Doer) backoff.Doer {
	if tp == nil {
		tp = otel.GetTracerProvider()
	}
	return &traced{tracer: tp.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)), name: name, doer: d}
}

type traced struct {
	tracer trace.Tracer
	name   string
	doer   backoff.Doer
}

// Do implements [backoff.Doer].
func (t *traced) Do(ctx context.Context, op func(context.Context) error) error {
	ctx, span := t.tracer.Start(ctx, t.name, trace.WithAttributes(keyOperation.String(t.name)))
	c := &call{traced: t}
	err := errLeft
	defer func() {
		c.settle()
		c.describe(span, err)
		span.End()
	}()
	err = t.doer.Do(context.WithValue(ctx, callKey{}, c), func(ctx context.Context) error { return c.attempt(ctx, op) })
	return err
}

// errLeft stands for what is not known of an operation that did not return.
var errLeft = errors.New("panicked or left its goroutine")

type callKey struct{}

// call is one under Trace. A Doer makes attempts one at a time, and observers are called
// between them.
type call struct {
	*traced
	number int
	span   trace.Span // of the last attempt; nil when it has ended
	ended  time.Time  // that attempt
}

func (c *call) attempt(ctx context.Context, op func(context.Context) error) error {
	c.settle()
	c.number++
	attributes := []attribute.KeyValue{keyOperation.String(c.name), keyAttempt.Int(c.number)}
	if c.number > 1 {
		attributes = append(attributes, semconv.HTTPRequestResendCount(c.number-1), seconds(keySlept, time.Since(c.ended)))
	}
	ctx, c.span = c.tracer.Start(ctx, c.name+" attempt", trace.WithAttributes(attributes...))
	err := errLeft
	defer func() {
		c.ended = time.Now()
		if err != nil {
			fail(c.span, err)
		}
	}()
	err = op(context.WithValue(ctx, callKey{}, (*call)(nil))) // policies inside tell of attempts of their own
	return err
}

// hear takes what an event says of the last attempt.
func (c *call) hear(e *backoff.Event) {
	if c.span == nil || e.Err == nil || e.Kind != backoff.EventRetry && e.Kind != backoff.EventReconnect && e.Kind != backoff.EventGiveUp {
		return
	}
	c.span.SetAttributes(keyClass.String(e.Class.String()))
	c.settle()
}

// settle ends the span of the last attempt as of when that ended.
func (c *call) settle() {
	if c.span != nil {
		c.span.End(trace.WithTimestamp(c.ended))
		c.span = nil
	}
}

func (c *call) describe(span trace.Span, err error) {
	span.SetAttributes(keyAttempt.Int(c.number))
	if err == nil {
		return
	}
	if gave, ok := errors.AsType[*backoff.Error](err); ok {
		span.SetAttributes(keyReason.String(gave.Reason.String()))
	} else if _, ok := errors.AsType[*backoff.OpenError](err); ok {
		span.SetAttributes(keyReason.String(backoff.ReasonOpen.String()))
	}
	fail(span, err)
}

func fail(span trace.Span, err error) {
	span.SetAttributes(errorType(err))
	span.SetStatus(codes.Error, message(err))
}
