package backoffhttp

import (
	"net/http"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
)

// maxAWSHint is how much of x-amz-retry-after counts: with the tenth that the library
// spreads a hint by, 5 s.
const maxAWSHint = 5 * time.Second * 10 / 11

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
func RetryAfter(resp *http.Response) (time.Duration, bool) { return hintIn(resp.Header) }

func hintIn(h http.Header) (longest time.Duration, found bool) {
	for _, name := range [...]string{headerRetryAfter, headerRetryMS, headerAzureRetryMS, headerAWSRetryMS} {
		for _, value := range h[name] {
			if d, ok := parseHint(name, value); ok {
				longest, found = max(longest, d), true
			}
		}
	}
	return longest, found
}

func parseHint(name, value string) (time.Duration, bool) {
	switch name {
	case headerRetryAfter:
		return backoff.ParseRetryAfter(value, time.Now())
	case headerAWSRetryMS:
		d, ok := backoff.ParseRetryAfterMS(value)
		return min(d, maxAWSHint), ok
	}
	return backoff.ParseRetryAfterMS(value)
}

// advised returns err, in whose tree e is, with what the header says of retrying, and
// what the vendor's rate limits say.
func (e *StatusError) advised(err error, limits []RateLimit) error {
	wait, hinted := hintIn(e.Header)
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
	if pushback, ok := backoff.ParsePushback(e.Header[headerPushback]...); ok {
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
