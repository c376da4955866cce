package backoffotel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/guard/endpoint"
)

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
