package backoffhttp

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
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
// If two layers make four attempts each, the inner one then makes 4+1+1+1 calls, not 16.
// This helps where the inner layer cannot say [DoNotRetry], because its response does not
// arrive. [WriteError] says it if a policy has used up its attempts, but not if the
// policy yielded.
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

// The bounds of a plausible number of attempts and time.
const (
	maxAttempt  = 1000
	maxDeadline = 24 * time.Hour
)

// The headers of other projects that only a server reads.
const (
	headerAWSRequest     = "Amz-Sdk-Request"                // attempt=1; max=3
	headerStainlessCount = "X-Stainless-Retry-Count"        // retries, from 0
	headerEnvoyTimeout   = "X-Envoy-Expected-Rq-Timeout-Ms" // milliseconds; 0: none
	headerGRPCTimeout    = "Grpc-Timeout"                   // digits and a unit
)

// attemptOf returns the number of the attempt, from 1, or 0 if the request does
// not say. If several layers have counted, the greatest number counts.
func attemptOf(header http.Header) int {
	return max(
		number(only(header, HeaderAttempt), 0),
		number(only(header, headerEnvoyAttempt), 0),
		number(only(header, headerGRPCAttempts), 1),
		number(only(header, headerStainlessCount), 1),
		attemptOfAWS(only(header, headerAWSRequest)))
}

// only returns the value of a field, or "" if there is none, or more than one.
func only(header http.Header, name string) string {
	if values := header[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// number reads a count of attempts and adds offset. A malformed or implausible one is
// 0.
func number(value string, offset int) int {
	n, ok := digits(value)
	if n += int64(offset); !ok || n < 1 || n > maxAttempt {
		return 0
	}
	return int(n)
}

// digits reads up to 10 ASCII digits.
func digits(value string) (int64, bool) {
	n, err := strconv.ParseUint(value, 10, 63)
	return int64(n), err == nil && len(value) <= 10
}

// attemptOfAWS reads the number of the attempt from "attempt=1; max=3".
func attemptOfAWS(value string) int {
	if len(value) > 200 {
		return 0
	}
	for part := range strings.SplitSeq(value, ";") {
		if attempt, ok := strings.CutPrefix(strings.TrimSpace(part), "attempt="); ok {
			return number(attempt, 0)
		}
	}
	return 0
}

// timeLeft returns the shortest time that a header says the client still waits,
// or false if no header says a plausible one.
func timeLeft(header http.Header) (time.Duration, bool) {
	left := timeout(only(header, HeaderDeadline), time.Millisecond)
	left = shorter(left, timeout(only(header, headerEnvoyTimeout), time.Millisecond))
	left = shorter(left, grpcTimeout(only(header, headerGRPCTimeout)))
	return left, left > 0
}

// grpcUnits are the units of Grpc-Timeout. Source: gRPC over HTTP/2,
// "Requests".
var grpcUnits = map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second,
	'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}

// grpcTimeout reads the value of Grpc-Timeout.
func grpcTimeout(value string) time.Duration {
	if len(value) < 2 || len(value) > 9 {
		return 0
	}
	last := len(value) - 1
	return timeout(value[:last], grpcUnits[value[last]])
}

// timeout reads a whole number of units. A malformed or implausible one is 0.
func timeout(value string, unit time.Duration) time.Duration {
	n, ok := digits(value)
	if !ok || unit == 0 || n > int64(maxDeadline/unit) {
		return 0
	}
	return time.Duration(n) * unit
}
