package backoffhttp

// The names of headers that clients and servers use.
const (
	// HeaderIdempotencyKey is the header with the key by which a server recognizes a
	// repetition.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderAttempt is the header with the number of the attempt, from 1:
	// "2" is the first retry.
	HeaderAttempt = "Backoff-Attempt"
	// HeaderDeadline is the header with the time that is left for the
	// response, in whole milliseconds, rounded up. It is not a date, because
	// the clocks of two hosts differ.
	HeaderDeadline = "Backoff-Deadline-Ms"

	// Names of other projects are in the canonical form of net/http, in which it
	// sends them and looks them up.
	headerEnvoyAttempt = "X-Envoy-Attempt-Count"      // from 1
	headerGRPCAttempts = "Grpc-Previous-Rpc-Attempts" // attempts before this one
	headerEnvoyLoad    = "X-Envoy-Overloaded"         // any value: do not retry
	headerEnvoyLimit   = "X-Envoy-Ratelimited"        // any value: do not retry
	headerPushback     = "Grpc-Retry-Pushback-Ms"     // negative or malformed: do not retry
	headerShouldRetry  = "X-Should-Retry"             // "true" or "false"
	headerStripeRetry  = "Stripe-Should-Retry"        // "true" or "false"
	headerRetryAfter   = "Retry-After"                // RFC 9110, 10.2.3
	headerAltKey       = "X-Idempotency-Key"          // net/http treats it like Idempotency-Key
)
