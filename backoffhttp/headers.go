package backoffhttp

// Header names that both sides use. Names of others keep the spelling of their
// owner; net/http sends and looks them up in canonical form.
const (
	// HeaderIdempotencyKey carries the key by which a server knows a repetition.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderAttempt carries the number of the attempt, from 1: "2" is a first retry.
	HeaderAttempt = "Backoff-Attempt"
	// HeaderDeadline carries the time that is left for the answer, in whole
	// milliseconds: a time left, as the clocks of two hosts differ.
	HeaderDeadline = "Backoff-Deadline-Ms"

	headerEnvoyAttempt = "X-Envoy-Attempt-Count"      // from 1
	headerGRPCAttempts = "Grpc-Previous-Rpc-Attempts" // attempts before this one
	headerEnvoyLoad    = "X-Envoy-Overloaded"         // any value: do not retry
	headerEnvoyLimit   = "X-Envoy-Ratelimited"        // any value: do not retry
	headerPushback     = "Grpc-Retry-Pushback-Ms"     // negative or malformed: do not retry
	headerShouldRetry  = "X-Should-Retry"             // "true" or "false"
	headerStripeRetry  = "Stripe-Should-Retry"        // "true" or "false"
	headerRetryAfter   = "Retry-After"                // RFC 9110, 10.2.3
	headerRetryMS      = "Retry-After-Ms"             // OpenAI, Azure
	headerAzureRetryMS = "X-Ms-Retry-After-Ms"        // Azure
	headerAWSRetryMS   = "X-Amz-Retry-After"          // AWS, milliseconds
	headerAltKey       = "X-Idempotency-Key"          // net/http replays under this too
)
