package backoffhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gobackoff/backoff/internal/retryafter"
)

// RetryAfter returns how long the server asks to wait: the longest valid value
// of Retry-After, in seconds or as a date, and of retry-after-ms,
// x-ms-retry-after-ms and x-amz-retry-after, in milliseconds. If there is none,
// it reads the header RateLimit, and returns the longest reset time (t, in
// seconds) of the limits of which nothing remains (r=0), as in
//
//	RateLimit: "default";r=0;t=30
//
// RetryAfter returns false if there is neither.
//
// Malformed values are ignored, numbers beyond the range of a duration
// saturate, and a date in the past is 0. A RateLimit field is ignored as a whole
// if it is malformed anywhere (RFC 9651, 4.2), if it is longer than 64 KiB, and
// if an Age says that it comes from a cache. A limit that ends after more than a
// year is ignored. Dates are compared with the local clock: see
// [Transport.ServerClock]. RetryAfter reads the header only: it does not look at
// the status, and knows no limit, unlike [backoff.Policy.MaxRetryAfter].
//
// Of x-amz-retry-after at most 4.5 s count: with the tenth that a policy may
// add, the wait is no longer than the 5 s of the AWS SDK, unless the policy's
// own wait is.
//
// The rate-limit headers of vendors, and of older drafts, are not read, because
// one name means seconds, milliseconds or a date, depending on the vendor. See
// [Transport.RateLimits].
//
// Source: RFC 9110, 10.2.3; draft-ietf-httpapi-ratelimit-headers-10, 4, 7 and
// 8.5.1.
func RetryAfter(resp *http.Response) (time.Duration, bool) {
	return retryafter.From(resp.Header, time.Now())
}

// clock returns the time with which the dates of a header are compared.
func (t *engine) clock(h http.Header) time.Time {
	if !t.ServerClock {
		return time.Now()
	}
	date, err := time.Parse(http.TimeFormat, h.Get("Date"))
	if err != nil {
		return time.Now()
	}
	if age, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		date = date.Add(time.Duration(age) * time.Second)
	}
	return date
}

// ParseRetryAfter reads the value of a Retry-After header (RFC 9110, 10.2.3):
// whole seconds, or a date in any of the three forms of HTTP, which is compared
// with now. A date in the past is 0. Seconds beyond the range of a duration
// saturate.
//
// ParseRetryAfter returns false for everything else, which a client ignores:
// signs, fractions (see [RateLimit]), digits that are not ASCII, a zone other
// than GMT.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	return retryafter.Parse(value, now)
}

// ParseRetryAfterMS reads a number of milliseconds, as in the headers
// retry-after-ms (OpenAI, Azure), x-ms-retry-after-ms (Azure) and
// x-amz-retry-after (AWS). Large values saturate. ParseRetryAfterMS returns
// false for everything but ASCII digits.
func ParseRetryAfterMS(value string) (time.Duration, bool) { return retryafter.ParseMS(value) }
