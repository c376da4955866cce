package backoffhttp

import (
	"net/http"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/evidence"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// RetryAfter returns how long a server asks to be left alone: the longest valid one of
// Retry-After, in seconds or any form of HTTP-date, and retry-after-ms and
// x-ms-retry-after-ms, both in milliseconds. It returns false where there is none.
//
// Nonsense is ignored, numbers beyond the range of a duration saturate, a date in the
// past is 0, and where a header comes in several lines the longest one stands. Dates
// are compared with the local clock. It looks at the header only: whether the status is
// one to be retried is another question, and how much is too much is
// [backoff.Policy.MaxRetryAfter]'s.
//
// x-amz-retry-after, in milliseconds, counts up to 4.5 s, so that the wait, the
// policy's own coming on top of it, is at most 5 s longer than that, which is where the
// AWS SDK clamps it.
//
// Rate-limit headers are not read: the same name means seconds, milliseconds or a date,
// depending on who sends it. See [Transport.RateLimits].
//
// Source: RFC 9110, 10.2.3.
func RetryAfter(resp *http.Response) (time.Duration, bool) {
	return retryafter.From(resp.Header, time.Now())
}

// advised returns err, in whose tree e is, with what the header says of retrying, and
// what the vendor's rate limits say.
func (e *StatusError) advised(err error, limits []RateLimit) error {
	wait, hinted := retryafter.From(e.Header, time.Now())
	if reset, exhausted := exhaustion(e.Header, limits); exhausted {
		if e.Code == http.StatusForbidden || e.Code == http.StatusTooManyRequests {
			e.class = backoff.ClassThrottled
		}
		if !hinted { // Retry-After wins
			wait, hinted = reset, true
		}
	}
	if e.Code == http.StatusRequestEntityTooLarge && hinted {
		e.class = backoff.ClassRetryable // too large for now (RFC 9110, 15.5.14)
	}
	if hinted {
		err = backoff.RetryAfter(err, wait)
	}
	return signalled(err, e)
}

// signalled marks err by the headers that say whether, not when, to retry. They are
// obeyed above any classifier: "no" is the server's own way to shed load, and "yes" is
// sent by servers that know better than their status, as Stripe does.
func signalled(err error, e *StatusError) error {
	if pushback, ok := retryafter.ParsePushback(e.Header[headerPushback]...); ok {
		return backoff.Pushback(err, pushback)
	}
	switch verdict(e.Header) {
	case refuse:
		if Classify(e) == backoff.ClassPermanent { // a declined card says nothing of the server
			return backoff.Permanent(err)
		}
		return backoff.WithClass(err, backoff.ClassOverloaded)
	case invite:
		return backoff.WithClass(err, inviteClass(e))
	}
	return err
}

func inviteClass(e *StatusError) backoff.Class {
	if class := Classify(e); class.Retryable() {
		return class
	}
	return backoff.ClassRetryable
}

type advice uint8

const (
	none advice = iota
	invite
	refuse
)

// verdict reads the "do not retry" and "do retry" of meshes and vendors; a "no" beats a
// "yes". Envoy's headers count by being there.
func verdict(h http.Header) advice {
	if h.Get(headerEnvoyLoad) != "" || h.Get(headerEnvoyLimit) != "" {
		return refuse
	}
	said := none
	for _, name := range [...]string{headerShouldRetry, headerStripeRetry} {
		switch strings.ToLower(h.Get(name)) {
		case "false":
			return refuse
		case "true":
			said = invite
		}
	}
	return said
}

// StatusClass returns the class of an HTTP status. 408, 425 and 5xx are
// [backoff.ClassRetryable], except 501, 505, 506, 507, 508, 510 and 511; 429 is
// [backoff.ClassThrottled]; the other 4xx and 5xx are [backoff.ClassPermanent]. All
// other numbers are [backoff.ClassUnknown].
//
// Source: RFC 9110 and RFC 8470; Google Cloud IoT Core and Cloud Storage, retry
// strategy.
func StatusClass(code int) backoff.Class { return backoff.Class(evidence.Status(code)) }

// ParseRetryAfter reads the value of a Retry-After header (RFC 9110, 10.2.3): whole
// seconds, or a date in any of the three forms of HTTP, which is compared with now. A
// date in the past is 0. Seconds beyond the range of a duration saturate.
//
// ParseRetryAfter returns false for everything else, which a client ignores: signs,
// fractions, digits that are not ASCII, a zone other than GMT.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	return retryafter.Parse(value, now)
}

// ParseRetryAfterMS reads a number of milliseconds, as in the headers retry-after-ms
// (OpenAI, Azure), x-ms-retry-after-ms (Azure) and x-amz-retry-after (AWS). Large
// values saturate. ParseRetryAfterMS returns false for everything but ASCII digits.
func ParseRetryAfterMS(value string) (time.Duration, bool) { return retryafter.ParseMS(value) }
