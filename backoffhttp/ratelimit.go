package backoffhttp

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobackoff/backoff/internal/retryafter"
)

// A ResetForm is how a vendor writes the end of a rate limit.
type ResetForm uint8

const (
	// ResetSeconds is a number of seconds from now: "30", or "1.25". A part of
	// a nanosecond counts as one.
	ResetSeconds ResetForm = iota
	// ResetMilliseconds is a number of milliseconds from now.
	ResetMilliseconds
	// ResetUnix is a date in seconds since 1970.
	ResetUnix
	// ResetUnixMilli is a date in milliseconds since 1970.
	ResetUnixMilli
	// ResetRFC3339 is a date such as "2026-01-02T15:04:05Z", or without the
	// seconds, as Jira writes it.
	ResetRFC3339
	// ResetDuration is a duration as Go writes it, such as "6m0s", or as Azure
	// does: "00:06:00".
	ResetDuration
)

// A RateLimit names the headers in which a vendor describes a rate limit, and
// their form. One header means different things for different vendors, so a
// [Transport] reads only the headers that are named in [Transport.RateLimits].
//
// A limit counts if it is exhausted, that is if no calls remain. Then the wait
// until its end counts like a Retry-After, unless the response has one. If a
// limit is exhausted, or there is a Retry-After, then the statuses 403, 429 and
// Status are [backoff.ClassThrottled]. Malformed values are ignored, and so is an
// end that is more than a year away.
//
// Linear responds with 400:
//
//	backoffhttp.RateLimit{
//		Remaining: "X-Ratelimit-Requests-Remaining", Reset: "X-Ratelimit-Requests-Reset",
//		Form: backoffhttp.ResetUnixMilli, Status: 400,
//	}
//
// A Retry-After with a fraction, such as 0.5, is malformed (RFC 9110). For a
// server that sends it, RateLimit{Reset: "Retry-After"} reads it. It overrides the other
// limits.
type RateLimit struct {
	Remaining string    // header with the number of calls that remain; "" if a Reset alone means that the limit is exhausted
	Reset     string    // header with the end of the limit
	Form      ResetForm // form of the value of Reset
	Status    int       // status that says "too much" besides 403 and 429, such as 400; 0 for none
}

// The rate limits of some vendors, as documented in 2026. If several limits of
// a vendor are exhausted, the longest wait counts.
var (
	// GitHubLimits are the limits of api.github.com, which responds with 403 or
	// 429. Its secondary limits send nothing but a Retry-After.
	GitHubLimits = []RateLimit{{"X-Ratelimit-Remaining", "X-Ratelimit-Reset", ResetUnix, 0}}
	// XLimits are the limits of api.x.com, formerly Twitter.
	XLimits = []RateLimit{{"X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", ResetUnix, 0}}
	// DiscordLimits are the limits of discord.com.
	DiscordLimits = []RateLimit{{"X-Ratelimit-Remaining", "X-Ratelimit-Reset-After", ResetSeconds, 0}}
	// OpenAILimits are the limits of api.openai.com, and a Retry-After with a
	// fraction, which its SDKs read.
	OpenAILimits = []RateLimit{
		{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", ResetDuration, 0},
		{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", ResetDuration, 0},
		{"", headerRetryAfter, ResetSeconds, 0},
	}
	// AnthropicLimits are the limits of api.anthropic.com, and a Retry-After with
	// a fraction, which its SDKs read.
	AnthropicLimits = []RateLimit{
		{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset", ResetRFC3339, 0},
		{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset", ResetRFC3339, 0},
		{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset", ResetRFC3339, 0},
		{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset", ResetRFC3339, 0},
		{"", headerRetryAfter, ResetSeconds, 0},
	}
)

// Wait returns the time until the end of the limit. It returns false if the
// limit is not exhausted, a header is malformed, or the end is more than a year
// away. A date in the past is 0.
func (l RateLimit) Wait(resp *http.Response) (time.Duration, bool) {
	return l.wait(resp.Header, time.Now())
}

// wait is Wait for a header at the time now.
func (l RateLimit) wait(h http.Header, now time.Time) (time.Duration, bool) {
	if l.Remaining != "" {
		if n, ok := parseNumber(h.Get(l.Remaining)); !ok || n > 0 {
			return 0, false
		}
	}
	if d, ok := l.Form.parse(h.Get(l.Reset), now); ok && d <= retryafter.MaxReset {
		return d, true
	}
	return 0, false
}

// exhausted returns the longest wait of the limits that are exhausted, or that
// of a Retry-After that is one of them. It returns false if there is none.
func exhausted(h http.Header, limits []RateLimit, now time.Time) (longest time.Duration, found bool) {
	for _, l := range limits {
		d, ok := l.wait(h, now)
		switch {
		case ok && strings.EqualFold(l.Reset, headerRetryAfter):
			return d, true
		case ok:
			longest, found = max(longest, d), true
		}
	}
	return longest, found
}

// limitsRefuseWith reports whether a status can be that of an exceeded limit.
func limitsRefuseWith(status int, limits []RateLimit) bool {
	return slices.ContainsFunc(limits, func(l RateLimit) bool {
		return status == http.StatusForbidden || status == http.StatusTooManyRequests || status == l.Status
	})
}

// parse reads the end of a limit, as the time from now.
func (f ResetForm) parse(value string, now time.Time) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	switch f {
	case ResetRFC3339:
		date, err := time.Parse(time.RFC3339, value)
		if err != nil {
			date, err = time.Parse("2006-01-02T15:04Z07:00", value)
		}
		return max(0, date.Sub(now)), err == nil
	case ResetDuration:
		parts := strings.SplitN(value, ":", 4)
		if len(parts) == 3 && !strings.Contains(parts[0]+parts[1], ".") { // in 1.02:03:04 the 1 counts days
			value = parts[0] + "h" + parts[1] + "m" + parts[2] + "s"
		}
		d, err := time.ParseDuration(value)
		return max(0, d), err == nil
	}
	n, ok := parseNumber(value)
	unit := time.Second
	if f == ResetMilliseconds || f == ResetUnixMilli {
		unit = time.Millisecond
	}
	if f == ResetUnix || f == ResetUnixMilli { // as numbers, dates do not overflow
		n -= float64(now.UnixMilli()) * float64(time.Millisecond) / float64(unit)
	}
	wait := n * float64(unit)
	if !ok || f > ResetDuration || wait >= math.MaxInt64 {
		return 0, false
	}
	return time.Duration(max(0, math.Ceil(wait))), true
}

// parseNumber reads a decimal number. What else strconv takes for a number is
// malformed: NaN, infinity, hexadecimal digits.
func parseNumber(value string) (float64, bool) {
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil && strings.Trim(value, "0123456789.eE+-") == ""
}

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
