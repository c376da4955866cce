package backoffhttp

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/inbound"
)

// Upstream is what a request says about the retries of its client.
type Upstream struct {
	// Number of the attempt, from 1; 0 if the request does not say. Above 1 the
	// client, or a client of the client, is retrying.
	Attempt int

	// Time at which the client gives up; zero if the request does not say.
	Deadline time.Time
}

// Inbound is middleware that reads what a request says about the retries of its
// client, and puts it into the request's context:
//
//   - the number of the attempt, for [UpstreamFrom]. If the request is a retry,
//     the client is retrying already: a [Transport] makes one attempt for each
//     call under the context, and a policy with [YieldToCaller] repeats only
//     what was not sent.
//   - the time that is left, as a deadline. No work is done for a client that
//     no longer waits.
//
// The number is the greatest of Backoff-Attempt, X-Envoy-Attempt-Count,
// Grpc-Previous-Rpc-Attempts, X-Stainless-Retry-Count and Amz-Sdk-Request. The
// time is the shortest of Backoff-Deadline-Ms, X-Envoy-Expected-Rq-Timeout-Ms
// and Grpc-Timeout. A header is ignored if it is malformed, if there are two of
// it, or if it is implausible: 1 to 1000 attempts are plausible, and up to 24
// hours. A client that lies harms only its own request, because it can only
// make attempts fewer and the deadline earlier, and because a deadline that
// leaves a call less than a second is no failure to a breaker (see
// [backoff.Breaker]'s MinAttemptTime). The absolute ttl of the AWS SDKs is not
// read, because clocks differ.
//
// The time that the request was under way is not known, and not subtracted. A
// handler can have all its attempts back with [WithRetry].
func Inbound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up := Upstream{Attempt: attemptOf(r.Header)}
		ctx := r.Context()
		if left, ok := timeLeft(r.Header); ok {
			up.Deadline = time.Now().Add(left)
			var cancel context.CancelFunc
			ctx, cancel = inbound.WithDeadline(ctx, up.Deadline)
			defer cancel()
		}
		if up.Attempt > 1 {
			ctx = WithRetry(ctx, limitToOneAttempt)
		}
		if up != (Upstream{}) {
			r = r.WithContext(context.WithValue(ctx, upstreamKey{}, up))
		}
		next.ServeHTTP(w, r)
	})
}

// upstreamKey is the key of the Upstream in a context.
type upstreamKey struct{}

// UpstreamFrom returns what [Inbound] read from the request, or false if the
// request said nothing.
func UpstreamFrom(ctx context.Context) (Upstream, bool) {
	up, ok := ctx.Value(upstreamKey{}).(Upstream)
	return up, ok
}

// limitToOneAttempt limits a policy to one attempt, whatever that fails with.
func limitToOneAttempt(p *backoff.Policy) { p.MaxAttempts, p.ByClass = 1, nil }

// retried reports whether the request that ctx belongs to is a retry.
func retried(ctx context.Context) bool {
	up, _ := UpstreamFrom(ctx)
	return up.Attempt > 1
}

// YieldToCaller returns a [backoff.Idempotency] that leaves retries to the
// caller if the caller is retrying already, as [Inbound] found out. Then only
// an operation that never reached its server (ClassNotSent) is repeated. If the
// caller is not retrying, i decides; nil means [backoff.Idempotent]. It is for
// policies: a [Transport] leaves retries to the caller by itself.
//
// If two layers make four attempts each, the inner one makes 4+1+1+1 calls
// then, instead of 16. This helps where the inner layer cannot say
// [DoNotRetry], because its response does not arrive. [WriteError] says it if
// a policy has used up its attempts, but not if the policy yielded.
//
// With [backoff.Keyed] the key must be in the context
// ([backoff.WithIdempotencyKey]), because here the policy makes none. Without a
// key, nothing is repeated that may have arrived.
func YieldToCaller(i backoff.Idempotency) backoff.Idempotency {
	return yield{cmp.Or[backoff.Idempotency](i, backoff.Idempotent)}
}

// yield is the Idempotency of YieldToCaller.
type yield struct{ backoff.Idempotency }

// Repeatable implements [backoff.Idempotency].
func (y yield) Repeatable(ctx context.Context, c backoff.Class) bool {
	switch {
	case c == backoff.ClassNotSent:
	case retried(ctx), y.Idempotency == backoff.Keyed && backoff.IdempotencyKey(ctx) == "":
		return false
	}
	return y.Idempotency.Repeatable(ctx, c)
}
