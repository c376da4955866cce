package backoffslog

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/errortype"
	"github.com/gobackoff/backoff/internal/errtree"
)

// describe adds the attributes of an event to its record.
func (w *writer) describe(ctx context.Context, r *slog.Record, e *backoff.Event) {
	addNames(r, e.Name, endpointName(ctx))
	if e.Kind == backoff.EventTransition {
		if e.Transition != nil {
			addTransition(r, e.Transition)
		}
		return
	}
	addAttempt(r, e)
	if hasReason(e.Kind) {
		r.AddAttrs(slog.String("reason", e.Reason.String()))
		if setting := settings[e.Reason]; setting != "" {
			r.AddAttrs(slog.String("setting", setting))
		}
	}
	if e.Waiting {
		r.AddAttrs(slog.Bool("waiting", true))
	}
	switch {
	case e.Err != nil:
		r.AddAttrs(slog.String("class", classOf(e).String()))
		addError(r, e.Err)
	case e.Kind == backoff.EventGiveUp && e.Attempt == 0:
		addNotStarted(r, e)
	}
	addTimes(r, e)
	if group := w.selectHeaders(e.Header); len(group) > 0 {
		r.AddAttrs(slog.GroupAttrs("header", group...))
	}
}

// endpointName returns the name of what the call is sent to, or "".
func endpointName(ctx context.Context) string {
	if to := endpoint.Of(ctx); to != nil {
		return to.Name
	}
	return ""
}

// addNames adds who calls, and what is called if that is known: a URL without
// its scheme.
func addNames(r *slog.Record, name, to string) {
	to = clip(redactURL(to), maxText)
	r.AddAttrs(slog.String("operation", cmp.Or(Redact(name), to)))
	if to != "" {
		r.AddAttrs(slog.String("endpoint", to))
	}
}

// settings are the fields that set the limits.
var settings = map[backoff.Reason]string{
	backoff.ReasonAttempts:      "MaxAttempts",
	backoff.ReasonElapsed:       "MaxElapsed",
	backoff.ReasonRetryAfter:    "MaxRetryAfter",
	backoff.ReasonNotIdempotent: "Idempotency",
	backoff.ReasonBudget:        "Budget",
	backoff.ReasonOpen:          "OpenFor", // of the breaker
}

// addNotStarted adds the error of a call that ended before its first attempt,
// such as one that waited for its turn. It is the caller's error, as far as the
// event tells. It has no type: that of a deadline would look like a slow service.
func addNotStarted(r *slog.Record, e *backoff.Event) {
	err := &backoff.Error{Name: e.Name, Reason: e.Reason}
	r.AddAttrs(slog.String("class", backoff.ClassNotSent.String()), slog.String("error", Redact(err.Error())))
}

// classOf returns the class of the error. That of a refusal by a breaker is the
// class of the failure that opened the circuit. An event of a call that ended
// while it waited has the class of that, which is unknown, and the error of the
// last attempt.
func classOf(e *backoff.Event) backoff.Class {
	if e.Waiting && e.Class == backoff.ClassUnknown {
		return backoff.DefaultClassifier(e.Err)
	}
	open, ok := e.Err.(*backoff.OpenError)
	if !ok || open == nil || open.Last == nil {
		return e.Class
	}
	if gave, ok := errtree.As[*backoff.Error](open.Last); ok && gave != nil && gave.Last != nil {
		return backoff.DefaultClassifier(gave.Last)
	}
	return backoff.DefaultClassifier(open.Last)
}

// hasReason reports whether events of a kind have a Reason.
func hasReason(k backoff.EventKind) bool {
	return k == backoff.EventGiveUp || k == backoff.EventRefused
}

// addAttempt adds the number of the attempt and the limit.
func addAttempt(r *slog.Record, e *backoff.Event) {
	if e.Kind == backoff.EventRefused && e.Attempt == 0 {
		return
	}
	r.AddAttrs(slog.Int("attempt", e.Attempt))
	if e.MaxAttempts > 0 {
		r.AddAttrs(slog.Int("max_attempts", e.MaxAttempts))
	}
	if e.Kind == backoff.EventHedgeWon || e.Kind == backoff.EventHedgeLost {
		r.AddAttrs(slog.Int("hedge", e.Attempt-1))
	}
}

// addError adds the error's text and type.
func addError(r *slog.Record, err error) {
	r.AddAttrs(slog.String("error", Redact(errortype.Text(err))), slog.String("error_type", ErrorType(err)))
}

// addTimes adds the times before the next attempt, if there is one, and before
// the last one, if that was waited for.
func addTimes(r *slog.Record, e *backoff.Event) {
	again := e.Kind == backoff.EventRetry || e.Kind == backoff.EventReconnect
	add := func(name string, d time.Duration, always bool) {
		if d > 0 || always {
			r.AddAttrs(slog.Duration(name, d))
		}
	}
	add("delay", e.Delay, again)
	add("wait", e.Wait, again)
	add("slept", e.Slept, again)
	add("retry_after", e.RetryAfter, false)
	add("elapsed", e.Elapsed, false)
}

// addTransition adds what a breaker's transition says.
func addTransition(r *slog.Record, t *backoff.BreakerTransition) {
	r.AddAttrs(
		slog.String("from", t.From.String()),
		slog.String("to", t.To.String()),
		slog.String("trigger", t.Trigger),
		slog.Uint64("generation", t.Generation),
	)
	if t.RetryAfter > 0 {
		r.AddAttrs(slog.Duration("retry_after", t.RetryAfter.Round(time.Millisecond)))
	}
	if t.Err != nil {
		addError(r, t.Err)
	}
}

// headersOf returns the headers that Options.Headers names, in lower case.
func headersOf(names []string) []string {
	if names == nil {
		names = DefaultHeaders()
	}
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strings.ToLower(name)
	}
	return all
}

// maxHeader is how many bytes of a header are logged.
const maxHeader = 256

// selectHeaders returns the headers that are logged.
func (w *writer) selectHeaders(h map[string][]string) []slog.Attr {
	var group []slog.Attr
	for _, wanted := range w.headers {
		for name, values := range h {
			if strings.EqualFold(name, wanted) {
				group = append(group, slog.String(wanted, headerText(wanted, values)))
			}
		}
	}
	return group
}

// headerText returns the text that is logged for the values of a header.
func headerText(name string, values []string) string {
	if isSecret(name) {
		return mask
	}
	return clip(Redact(strings.Join(values, ", ")), maxHeader)
}

// ErrorType returns a short name for the kind of err. There are few such names,
// so they can be used for grouping and as labels of metrics, unlike an error's
// text. OpenTelemetry calls it error.type:
//
//   - the status of an HTTP response, such as "503", from HTTPStatusCode() int
//     if that is 100 to 599
//   - the code of a gRPC error, such as "UNAVAILABLE", from GRPCStatus()
//   - the SQLSTATE, such as "40001", from SQLState() string
//   - what went wrong in the network: "connection refused", "connection reset",
//     "host unreachable", "no such host", "host lookup failed", "timeout",
//     "canceled" or "EOF"
//   - otherwise the type, such as "*fs.PathError", of the first error in the
//     tree that is not just a wrapper: one of packages fmt and errors, a
//     [net/url.Error], or one that this library put around the operation's
//     error (see [backoff.Cause])
//
// ErrorType(nil) is "".
func ErrorType(err error) string { return errortype.Of(err) }
