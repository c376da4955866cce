// Package backoffotel reports to OpenTelemetry what policies, hedges and
// breakers do.
//
//	policy := backoff.Policy{Name: "fetch", Observer: backoff.JoinObservers(
//		backoffotel.Metrics(nil),
//		backoffotel.SpanEvents,
//	)}
//	fetch := backoffotel.Trace(nil, "fetch", policy)
//
// [Metrics] counts. [SpanEvents] adds events to the span of the call's context.
// [Trace] makes spans: one for the call, and one below it for each attempt.
// Each can be used alone. [Resends] is for package backoffhttp over otelhttp,
// which makes the spans of attempts itself.
//
// The package imports the API of OpenTelemetry. The program chooses the SDK and
// the exporter.
//
// # Names
//
// If the semantic conventions have a name, it is used: error.type (see
// [backoffslog.ErrorType]), exception.message, http.request.resend_count,
// http.response.header.*. All other names begin with "backoff.". Times are in
// seconds. The text of an error goes through [backoffslog.Redact]. It is only
// set on spans, never as an attribute of a metric.
package backoffotel

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/gobackoff/backoff/backoffslog"
)

// scope is the name of the instrumentation.
const scope = "github.com/gobackoff/backoff/contrib/backoffotel"

// Attributes that the conventions have no name for.
const (
	keyOperation   = attribute.Key("backoff.operation") // policy, hedge or breaker
	keyEndpoint    = attribute.Key("backoff.endpoint")  // what the call is sent to
	keyOutcome     = attribute.Key("backoff.outcome")
	keyReason      = attribute.Key("backoff.reason")
	keyClass       = attribute.Key("backoff.class")
	keyAttempt     = attribute.Key("backoff.attempt") // from 1
	keyMaxAttempts = attribute.Key("backoff.max_attempts")
	keyDelay       = attribute.Key("backoff.delay") // before jitter
	keyWait        = attribute.Key("backoff.wait")  // what will be slept
	keySlept       = attribute.Key("backoff.slept")
	keyRetryAfter  = attribute.Key("backoff.retry_after")
	keyElapsed     = attribute.Key("backoff.elapsed")
	keyWaiting     = attribute.Key("backoff.waiting")
	keyHedge       = attribute.Key("backoff.hedge")
	keyFrom        = attribute.Key("backoff.breaker.from")
	keyTo          = attribute.Key("backoff.breaker.to")
	keyTrigger     = attribute.Key("backoff.breaker.trigger")
	keyState       = attribute.Key("backoff.breaker.state")
	keyKeys        = attribute.Key("backoff.keys") // the name of Services
)

// seconds returns an attribute of a duration.
func seconds(k attribute.Key, d time.Duration) attribute.KeyValue { return k.Float64(d.Seconds()) }

// errorType returns the attribute error.type.
func errorType(err error) attribute.KeyValue {
	return semconv.ErrorTypeKey.String(backoffslog.ErrorType(err))
}

// Names that are longer than maxName bytes are counted together.
const (
	maxName = 200
	other   = "other"
)

// nameOf returns a name as an attribute of a metric.
func nameOf(name string) string {
	if len(name) > maxName {
		return other
	}
	return valid(name)
}

// valid replaces what is not UTF-8: for one such byte, which a server may send,
// an exporter refuses all that it was to send.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// textOf returns a text without its secrets.
func textOf(text string) string { return valid(backoffslog.Redact(text)) }

// message returns the text of an error without its secrets. The Error method
// may panic.
func message(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "(Error panicked)"
		}
	}()
	return textOf(err.Error())
}
