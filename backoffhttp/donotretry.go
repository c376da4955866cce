package backoffhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/problem"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// defaultRest is what DoNotRetry tells those who know no other word than Retry-After:
// longer than most of them are willing to wait.
const defaultRest = time.Minute

// DoNotRetry tells the clients of an answer not to send the request again, in all the words
// for it that are understood already: Retry-After (a minute, unless the header has one),
// Grpc-Retry-Pushback-Ms: -1 (gRPC, Linkerd), X-Envoy-Overloaded and X-Envoy-Ratelimited
// (Envoy, Istio), X-Should-Retry: false (SDKs of OpenAI's and Stainless's make) and
// Stripe-Should-Retry: false. [Transport] obeys all of them but the first, which says when
// and not whether.
//
// It is for servers that are overloaded, and for those that have retried in vain themselves
// ([WriteError]): a layer that retries must be the only one, or three layers of four
// attempts make 64. Call it before WriteHeader; it sets neither status nor body. Source:
// Google SRE book, "Handling Overload" ("overloaded; don't retry").
func DoNotRetry(w http.ResponseWriter) { forbid(w.Header()) }

func forbid(header http.Header) {
	if header.Get(headerRetryAfter) == "" {
		header.Set(headerRetryAfter, retryafter.Format(defaultRest))
	}
	header.Set(headerPushback, "-1")
	header.Set(headerEnvoyLoad, "true")
	header.Set(headerEnvoyLimit, "true")
	header.Set(headerShouldRetry, "false")
	header.Set(headerStripeRetry, "false")
}

// WriteError answers a request that failed with err because another service did. A nil err
// writes nothing. It has the shape of the ErrorHandler of httputil.ReverseProxy.
//
//   - 504: the time of r, or of the call, was over.
//   - 429: the other service said "too much" to the last attempt; Retry-After
//     passes on for how long.
//   - 503: all else a policy gave up on, for lack of attempts, time or budget, and
//     the refusal of a breaker; Retry-After tells what is known.
//   - 502: a definitive answer (backoff.Permanent), which is not the caller's fault.
//   - 500: any other error.
//
// What a policy gave up on, and what is definitive, is [DoNotRetry]: the caller must not do
// all of it again. Not so what a policy did not even try to repeat, being limited to one
// attempt or leaving that to a caller that is retrying already ([Inbound], [Yield]), and
// what no policy stood around.
//
// The body says no more than the status: err may name hosts, and it is for the service's
// own log.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		return
	}
	status, final := outward(r, err)
	if wait := hintOf(err); wait > 0 && w.Header().Get(headerRetryAfter) == "" {
		w.Header().Set(headerRetryAfter, retryafter.Format(wait))
	}
	if final {
		DoNotRetry(w)
	}
	problem.Write(w, problem.Details{Title: http.StatusText(status), Status: status})
}

// outward returns the status for err, and whether its caller must not retry.
func outward(r *http.Request, err error) (status int, final bool) {
	gave, ok := errors.AsType[*backoff.Error](err)
	switch {
	case ok:
		return gaveUp(gave), !yielded(r.Context(), gave)
	case errors.Is(err, backoff.ErrOpen), errors.Is(err, backoff.ErrBudget):
		return http.StatusServiceUnavailable, true
	case r.Context().Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, false
	}
	switch backoff.DefaultClassifier(err) {
	case backoff.ClassPermanent:
		return http.StatusBadGateway, true
	case backoff.ClassOverloaded:
		return http.StatusServiceUnavailable, true
	case backoff.ClassThrottled:
		return http.StatusTooManyRequests, false
	case backoff.ClassRetryable, backoff.ClassNotSent:
		return http.StatusServiceUnavailable, false
	}
	return http.StatusInternalServerError, false
}

func gaveUp(e *backoff.Error) int {
	switch {
	case e.Reason == backoff.ReasonDeadline || e.Reason == backoff.ReasonCanceled:
		return http.StatusGatewayTimeout
	case e.Last != nil && backoff.DefaultClassifier(e.Last) == backoff.ClassThrottled:
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// yielded reports whether the policy left retrying to the caller.
func yielded(ctx context.Context, e *backoff.Error) bool {
	return e.RetryableError() || e.Reason == backoff.ReasonNotIdempotent && retried(ctx)
}

// hintOf returns how long err asks to wait.
func hintOf(err error) time.Duration {
	if gave, ok := errors.AsType[*backoff.Error](err); ok && gave.RetryAfter() > 0 {
		return gave.RetryAfter()
	}
	var speaks interface{ RetryAfter() time.Duration }
	if errors.As(err, &speaks) {
		return speaks.RetryAfter()
	}
	return 0
}
