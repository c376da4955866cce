package backoffhttp

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A ResetForm says how a vendor writes when a limit is over.
type ResetForm uint8

const (
	// ResetSeconds is a number of seconds from now: "30", or "1.25".
	ResetSeconds ResetForm = iota
	// ResetMilliseconds is a number of milliseconds from now.
	ResetMilliseconds
	// ResetUnix is a date in seconds since 1970.
	ResetUnix
	// ResetUnixMilli is a date in milliseconds since 1970.
	ResetUnixMilli
	// ResetRFC3339 is a date such as "2026-01-02T15:04:05Z".
	ResetRFC3339
	// ResetDuration is a duration as Go writes it, such as "6m0s".
	ResetDuration
)

var formNames = [...]string{"seconds", "milliseconds", "unix", "unix milliseconds", "rfc3339", "duration"}

// String returns the name of the form in lower case.
func (f ResetForm) String() string {
	if int(f) < len(formNames) {
		return formNames[f]
	}
	return "invalid"
}

// A RateLimit says in which headers, and in which form, a vendor tells of a limit. The
// same header means different things with different vendors, so none is read unless it
// is named in [Transport.RateLimits].
//
// Only an exhausted limit counts, one with nothing remaining: others do not ask for
// anything. It is a hint with the answers that are retried, and turns 403 and 429 into
// [backoff.ClassThrottled]. Where there is a Retry-After, that one stands. What cannot
// be read is ignored.
type RateLimit struct {
	Remaining string    // the header with the calls that remain; "" means that Reset alone tells
	Reset     string    // the header with the end of the limit
	Form      ResetForm // of that header
}

// The limits of some vendors, as documented in 2026. A vendor with several limits has
// several, of which the longest exhausted one stands.
var (
	// GitHubLimits are those of api.github.com, which answers 403 or 429.
	GitHubLimits = []RateLimit{{"X-Ratelimit-Remaining", "X-Ratelimit-Reset", ResetUnix}}
	// XLimits are those of api.x.com, once Twitter.
	XLimits = []RateLimit{{"X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", ResetUnix}}
	// DiscordLimits are those of discord.com.
	DiscordLimits = []RateLimit{{"X-Ratelimit-Remaining", "X-Ratelimit-Reset-After", ResetSeconds}}
	// OpenAILimits are those of api.openai.com.
	OpenAILimits = []RateLimit{
		{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", ResetDuration},
		{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", ResetDuration},
	}
	// AnthropicLimits are those of api.anthropic.com.
	AnthropicLimits = []RateLimit{
		{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset", ResetRFC3339},
		{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset", ResetRFC3339},
	}
	// DraftLimits are those of draft-ietf-httpapi-ratelimit-headers up to its revision
	// 06. Later ones put all of it into one structured field, which is not read.
	DraftLimits = []RateLimit{{"Ratelimit-Remaining", "Ratelimit-Reset", ResetSeconds}}
)

// Wait returns how long until the limit is over, and false if it is not exhausted or
// cannot be read. A date in the past is 0.
func (l RateLimit) Wait(resp *http.Response) (time.Duration, bool) { return l.wait(resp.Header) }

func (l RateLimit) wait(h http.Header) (time.Duration, bool) {
	if l.Remaining != "" {
		if n, err := strconv.ParseFloat(h.Get(l.Remaining), 64); err != nil || n > 0 {
			return 0, false
		}
	}
	return l.Form.parse(h.Get(l.Reset), time.Now())
}

// exhaustion returns the longest wait of the limits that are exhausted.
func exhaustion(h http.Header, limits []RateLimit) (longest time.Duration, exhausted bool) {
	for _, l := range limits {
		if d, ok := l.wait(h); ok {
			longest, exhausted = max(longest, d), true
		}
	}
	return longest, exhausted
}

func (f ResetForm) parse(value string, now time.Time) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	switch f {
	case ResetRFC3339:
		date, err := time.Parse(time.RFC3339, value)
		return max(0, date.Sub(now)), err == nil
	case ResetDuration:
		d, err := time.ParseDuration(value)
		return max(0, d), err == nil
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	return f.count(n, now)
}

// count reads a number. Dates are compared as numbers, which do not overflow.
func (f ResetForm) count(n float64, now time.Time) (time.Duration, bool) {
	unit := time.Second
	if f == ResetMilliseconds || f == ResetUnixMilli {
		unit = time.Millisecond
	}
	if f == ResetUnix || f == ResetUnixMilli {
		n -= float64(now.UnixMilli()) * float64(time.Millisecond) / float64(unit)
	}
	switch wait := n * float64(unit); {
	case f > ResetDuration:
		return 0, false
	case wait >= math.MaxInt64:
		return math.MaxInt64, true
	default:
		return time.Duration(max(0, wait)), true
	}
}
