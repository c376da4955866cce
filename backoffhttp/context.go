package backoffhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
)

// Upstream is what a request says of the loops it comes from.
type Upstream struct {
	// Attempt is the number of the attempt, from 1; 0 if the request does not say. Above 1
	// somebody up the chain is retrying.
	Attempt int
	// Deadline is when the client gives up; the zero time if the request does not say.
	Deadline time.Time
}

// Inbound is middleware that puts what a request says of the loops it comes from into its
// context, so that the loops inside do not multiply them:
//
//   - the attempt, for [UpstreamFrom]. Where it is a retry, a [Transport] makes one
//     attempt for each request under the context, and so does a policy with [Yield]:
//     the retrying is left to who does it already.
//   - the time left, as a deadline: no work is done for a client that is not waiting any more.
//
// The attempt is read from Backoff-Attempt, X-Envoy-Attempt-Count,
// Grpc-Previous-Rpc-Attempts, X-Stainless-Retry-Count and Amz-Sdk-Request, of which the
// greatest counts; the time left from Backoff-Deadline-Ms, X-Envoy-Expected-Rq-Timeout-Ms
// and Grpc-Timeout, of which the shortest counts. A field that is malformed, there twice,
// or beyond belief (0 or above 1000 attempts, 0 or above 24 hours) is ignored. Both can
// only take from the request itself, a deadline no less than what the server allows: a
// client that lies harms nobody else. The absolute ttl of the AWS SDKs is not read, as
// clocks differ.
//
// The time that the request spent on the way counts for nothing, as nobody can tell it. A
// handler that wants its attempts all the same says so by [WithRetry].
func Inbound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up := Upstream{Attempt: attemptOf(r.Header)}
		ctx := r.Context()
		if left, ok := timeLeft(r.Header); ok {
			up.Deadline = time.Now().Add(left)
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, up.Deadline)
			defer cancel()
		}
		if up.Attempt > 1 {
			ctx = WithRetry(ctx, once)
		}
		if up != (Upstream{}) {
			r = r.WithContext(context.WithValue(ctx, upstreamKey{}, up))
		}
		next.ServeHTTP(w, r)
	})
}

type upstreamKey struct{}

// UpstreamFrom returns what [Inbound] read, and false where the request said nothing.
func UpstreamFrom(ctx context.Context) (Upstream, bool) {
	up, ok := ctx.Value(upstreamKey{}).(Upstream)
	return up, ok
}

// once leaves retrying to others. It is not backoff.NeverRetry, so that a key is still
// sent.
func once(p *backoff.Policy) { p.MaxAttempts = 1 }

// retried reports whether the request that ctx belongs to is a retry.
func retried(ctx context.Context) bool {
	up, _ := UpstreamFrom(ctx)
	return up.Attempt > 1
}

// Yield returns a [backoff.Idempotency] that leaves retrying to the caller where the
// request that a call belongs to is a retry, as [Inbound] found: then only what provably
// never reached a server (ClassNotSent) is sent again. Otherwise it is i; nil means
// [backoff.Idempotent]. It is for policies; a [Transport] yields by itself.
//
// Of two loops around one another, of four attempts each, the inner one makes 4+1+1+1
// calls, then, instead of 16. This is for where the answer between them cannot say
// [DoNotRetry], because it never arrives; [WriteError] says it where a policy has used its
// attempts up, and does not where it has yielded.
//
// Around [backoff.Keyed] the key must be in the context ([backoff.WithIdempotencyKey]),
// because the policy does not make one; without it, nothing is repeated that may have
// arrived.
func YieldToCaller(i backoff.Idempotency) backoff.Idempotency {
	if i == nil {
		i = backoff.Idempotent
	}
	return yield{i}
}

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

type retryKey struct{}

// RetryNumber tells the Base of a [Transport] which attempt a request's context belongs
// to: 0 for the first, and outside of a Transport; 1 for the first retry, and so on. Under
// a retry of another Transport, further up, it goes on from there. With it a RoundTripper
// marks what it logs or traces, as http.request.resend_count does.
func RetryNumber(ctx context.Context) int {
	n, _ := ctx.Value(retryKey{}).(int)
	return n
}

func withRetryNumber(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, retryKey{}, RetryNumber(ctx)+n)
}
