// Package evidence tells what the errors of other libraries, and the codes of
// the services behind them, mean for a retry.
package evidence

// A Class says what a failure means for a retry. The classes have the order of
// backoff.Class, so that one converts into the other.
type Class uint8

const (
	// Unknown says nothing.
	Unknown Class = iota
	// NotSent is a failure that never reached the server.
	NotSent
	// Retryable is a transient failure.
	Retryable
	// Throttled is a server that gets too many requests.
	Throttled
	// Overloaded is a server that asks not to be retried.
	Overloaded
	// Permanent is a failure that every repetition would meet again.
	Permanent
)

// Status returns the class of an HTTP status, and Unknown for all below 400 and
// above 999.
//
// Source: RFC 9110 and RFC 8470; Google Cloud IoT Core and Cloud Storage, retry
// strategy.
func Status(code int) Class {
	switch {
	case code == 408, code == 425:
		return Retryable
	case code == 429, code == 529: // 529 is "overloaded" at Anthropic and others
		return Throttled
	case code == 501, code >= 505 && code <= 508, code == 510, code == 511, code >= 400 && code < 500:
		return Permanent
	case code >= 500 && code < 1000: // from 600 on as a 5xx (RFC 9110, 15)
		return Retryable
	}
	return Unknown
}
