package backoffhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/problem"
	"github.com/gobackoff/backoff/internal/refused"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// maxRetryAfter is the longest wait of another service that WriteError passes
// on. Whoever comes back too early is told again.
const maxRetryAfter = 24 * time.Hour

// doNotRetryAfter is the Retry-After of DoNotRetry, for clients that read no
// other header. Most clients do not wait that long.
const doNotRetryAfter = time.Minute

// DoNotRetry tells the client not to send the request again. It sets all
// headers that clients and proxies read for that: Grpc-Retry-Pushback-Ms: -1
// (gRPC, Linkerd), X-Envoy-Overloaded and X-Envoy-Ratelimited (Envoy, Istio),
// X-Should-Retry: false (SDKs of OpenAI and Stainless), Stripe-Should-Retry:
// false, and Retry-After: 60 if the response has no Retry-After. A [Transport]
// does not retry such a response. If the status is 429, it slows its calls to
// the server down, as after any 429. A 5xx slows no other call, and is no
// failure to the breaker while any call succeeds. Any other response, such as
// that to a declined card, is a success to the breaker.
//
// Use DoNotRetry where no repetition can help, or where an overload lasts: the call of the
// client then ends. A server that is full for a moment sends a plain 503 with a Retry-After
// instead, after which clients come back. A server that has retried without success itself
// calls [WriteError]: if three layers make four attempts each, the last layer gets 64
// requests, so only one layer should retry. Call DoNotRetry before WriteHeader. It sets
// neither the status nor the body.
//
// Source: Google SRE book, "Handling Overload" ("overloaded; don't retry").
func DoNotRetry(w http.ResponseWriter) {
	header := w.Header()
	if header.Get(headerRetryAfter) == "" {
		header.Set(headerRetryAfter, retryafter.Format(doNotRetryAfter))
	}
	sayOverload(header)
}

// sayOverload sets the headers of DoNotRetry that say no time.
func sayOverload(header http.Header) {
	header.Set(headerPushback, "-1")
	header.Set(headerEnvoyLoad, "true")
	header.Set(headerEnvoyLimit, "true")
	forbidRetry(header)
}

// forbidRetry sets the headers that say that a request is not to be sent again,
// and nothing about the server.
func forbidRetry(header http.Header) {
	header.Set(headerShouldRetry, "false")
	header.Set(headerStripeRetry, "false")
}

// WriteError writes the response to a request that failed with err because
// another service failed. It writes nothing if err is nil.
// httputil.ReverseProxy takes it as its ErrorHandler. The status is
//
//   - 504 if the deadline of r, or the time of the call, has passed;
//   - 429 if the other service throttled the last attempt, with its
//     Retry-After;
//   - 503 if a policy gave up for any other reason, such as attempts, time or
//     budget, or a breaker refused the call, with the Retry-After of the other
//     service, or the time of the breaker;
//   - 503 if the context of r, or that of the call, was cancelled;
//   - 502 if the error is permanent (backoff.Permanent): the caller is not at
//     fault;
//   - 500 for any other error.
//
// If a policy gave up, or the error is permanent, WriteError also sets
// X-Should-Retry and Stripe-Should-Retry to false, so that the caller does not
// repeat all attempts. It sets all headers of [DoNotRetry] but Retry-After if
// other requests would fail as well, because the other service has too much to
// do: a budget refused, the last attempt was throttled, or its response said
// what DoNotRetry says.
//
// WriteError leaves the retry to the caller if nothing was repeated here. That
// is so if the policy makes one attempt only, if it leaves retries to a caller
// that is retrying ([Inbound], [YieldToCaller]), and if a breaker refused the
// call before its first attempt. WriteError also does so if a context was
// cancelled: the client has gone, or this server stops, and another one may answer.
//
// A Retry-After of the other service is passed on, but never more than 24
// hours. That of a breaker is from 1 to 5 seconds: callers that stay away
// longer would not notice that the service is back. Where no time is known,
// WriteError invents none.
//
// The body says no more than the status, because err may name hosts. Log err
// in the service.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		return
	}
	status, final, overload := statusFor(r, err)
	if wait := waitOf(err); wait > 0 && w.Header().Get(headerRetryAfter) == "" {
		w.Header().Set(headerRetryAfter, retryafter.Format(wait))
	}
	switch {
	case final && overload:
		sayOverload(w.Header())
	case final:
		forbidRetry(w.Header())
	}
	problem.Write(w, problem.Details{Title: http.StatusText(status), Status: status})
}

// statusFor returns the status for err, and whether the caller must not retry. If so,
// overload says that another service has too much to do, and not only that one
// request failed.
func statusFor(r *http.Request, err error) (status int, final, overload bool) {
	var why refusal
	ok := errors.As(err, &why)
	if gave, ok := why.(*backoff.Error); ok {
		status, overload = statusForGivenUp(gave)
		return status, !yielded(r.Context(), gave) && !refused.Unsent(gave), overload
	}
	switch {
	case ok, errors.Is(err, backoff.ErrOpen):
		return http.StatusServiceUnavailable, false, false
	case errors.Is(err, backoff.ErrBudget):
		return http.StatusServiceUnavailable, true, true
	case r.Context().Err() == context.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, false, false
	case r.Context().Err() != nil:
		return http.StatusServiceUnavailable, false, false
	}
	switch backoff.DefaultClassifier(err) {
	case backoff.ClassPermanent:
		return http.StatusBadGateway, true, saysTooMuch(err)
	case backoff.ClassOverloaded:
		if throttles(err) {
			return http.StatusTooManyRequests, true, true
		}
		return http.StatusServiceUnavailable, true, saysTooMuch(err)
	case backoff.ClassThrottled:
		return http.StatusTooManyRequests, false, false
	case backoff.ClassRetryable, backoff.ClassNotSent:
		return http.StatusServiceUnavailable, false, false
	}
	return http.StatusInternalServerError, false, false
}

// saysTooMuch reports whether the error of an attempt is that of a service that
// throttles or is overloaded.
func saysTooMuch(err error) bool {
	if backoff.DefaultClassifier(err) != backoff.ClassOverloaded {
		return throttles(err)
	}
	var e *StatusError
	ok := errors.As(err, &e) // to which "do not retry" is not enough
	return !ok || saysOverload(e.Header) || throttles(e)
}

// throttles reports whether the error of an attempt is that of a service that
// throttles, also if it says "do not retry" besides.
func throttles(err error) bool {
	if e, ok := errtree.As[*StatusError](err); ok && Classify(e) == backoff.ClassThrottled {
		return true
	}
	return backoff.DefaultClassifier(err) == backoff.ClassThrottled
}

// refusal is what *backoff.Error and *backoff.OpenError have in common. The
// outermost one of a tree tells of the call.
type refusal interface {
	error
	NonRetriable()
	RetryableError() bool
	RetryAfter() time.Duration
}

// statusForGivenUp is statusFor for a call that a policy gave up on.
func statusForGivenUp(e *backoff.Error) (status int, overload bool) {
	switch {
	case e.Reason == backoff.ReasonDeadline:
		return http.StatusGatewayTimeout, false
	case e.Reason == backoff.ReasonCanceled:
		return http.StatusServiceUnavailable, false
	case e.Last != nil && throttles(e.Last):
		return http.StatusTooManyRequests, true
	}
	return http.StatusServiceUnavailable, e.Reason == backoff.ReasonBudget || saysTooMuch(e.Last)
}

// yielded reports whether the policy left the retries to the caller, or could not make them
// because the context was cancelled.
func yielded(ctx context.Context, e *backoff.Error) bool {
	return e.RetryableError() || e.Reason == backoff.ReasonCanceled || e.Reason == backoff.ReasonNotIdempotent && retried(ctx)
}

// waitOf returns how long the caller is to wait after err, or 0. A circuit that
// admits calls in less than a second says nothing: whole seconds are too coarse.
func waitOf(err error) time.Duration {
	var why refusal
	if errors.As(err, &why) {
		wait := refused.Wait(why, why.RetryAfter())
		if wait < time.Second && errors.Is(why, backoff.ErrOpen) {
			return 0
		}
		return min(wait, maxRetryAfter)
	}
	var asks interface{ RetryAfter() time.Duration }
	if errors.As(err, &asks) {
		return min(asks.RetryAfter(), maxRetryAfter)
	}
	return 0
}
