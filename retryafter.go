package backoff

import (
	"errors"
	"math"
	"strings"
	"time"
)

// hint is what a server asked for.
type hint struct {
	after time.Duration
	given bool
	exact bool // to be waited as it is, neither spread nor compared
}

// longer returns the hint to obey where an error tree holds two.
func (h hint) longer(other hint) hint {
	if !h.given || other.given && other.after > h.after {
		return other
	}
	return h
}

// RetryAfter marks err with a server's hint: no attempt before d has passed. The
// loop waits d and, on top of it, the longer of its own jittered delay and a random part of
// up to 10 % of d, so that a fleet that was told "120" does not come back as one.
// A hint beyond [Policy.MaxRetryAfter], or beyond the time the call has left, ends the call
// at once, with the hint in the [Error]. A negative d counts as 0.
//
// An error says the same by a method RetryAfter() time.Duration. A hint says when,
// not whether: a permanent error stays permanent. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, hint: hint{after: max(0, d), given: true}}
}

// Pushback marks err with gRPC's form of a hint, which differs from [RetryAfter]: the
// wait is exactly d, and the schedule starts again after it; a negative d means
// "do not retry" and makes the error ClassOverloaded. Pushback(nil, d) is nil.
//
// Source: gRFC A6, "Pushback".
func Pushback(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	if d < 0 {
		return WithClass(err, ClassOverloaded)
	}
	return &marked{err: err, hint: hint{after: d, given: true, exact: true}}
}

// RetryAfterOf returns the server's hint that err carries, by [RetryAfter], [Pushback], a
// method RetryAfter() time.Duration, or as an [Error]: for those who pass it on. It
// returns false if there is none.
func RetryAfterOf(err error) (time.Duration, bool) {
	if gave, ok := errors.AsType[*Error](err); ok && gave.retryAfter > 0 {
		return gave.retryAfter, true
	}
	h := judge(nil, err).hint
	return h.after, h.given
}

// ParseRetryAfter reads the value of a Retry-After header (RFC 9110, 10.2.3): whole
// seconds, or a date in any of the three forms of HTTP, of which the distance from
// now is taken. A date in the past is 0. Seconds beyond the range of a duration
// saturate.
//
// It returns false for everything else, which a client ignores: signs, fractions,
// digits that are not ASCII, a zone other than GMT.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	if d, ok := parseDigits(value, time.Second); ok {
		return d, true
	}
	date, ok := parseDate(value, now)
	if !ok {
		return 0, false
	}
	return max(0, date.Sub(now)), true
}

// ParseRetryAfterMS reads the value of a header that carries a hint in whole
// milliseconds: retry-after-ms (OpenAI, Azure), x-ms-retry-after-ms (Azure),
// x-amz-retry-after (AWS). Large values saturate; it returns false for anything but
// ASCII digits.
func ParseRetryAfterMS(value string) (time.Duration, bool) {
	return parseDigits(strings.Trim(value, " \t"), time.Millisecond)
}

// ParsePushback reads grpc-retry-pushback-ms, given all its values. The answer is
// for [Pushback]: a negative number, a malformed value, and more than one value all mean
// "do not retry", and give -1; the opposite of Retry-After, where nonsense is
// ignored. It returns false where there is no value at all.
//
// Source: gRFC A6, "Pushback".
func ParsePushback(values ...string) (time.Duration, bool) {
	if len(values) == 0 {
		return 0, false
	}
	if d, ok := parseDigits(values[0], time.Millisecond); ok && len(values) == 1 {
		return d, true
	}
	return -1, true
}

// parseDigits reads one or more ASCII digits as a count of units, saturating.
func parseDigits(s string, unit time.Duration) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	n := int64(0)
	most := math.MaxInt64 / int64(unit) // with a digit more still an int64: units are of a millisecond or longer
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n <= most {
			n = n*10 + int64(c-'0')
		}
	}
	if n > most {
		return maxDuration, true
	}
	return time.Duration(n) * unit, true
}

// parseDate reads an HTTP-date (RFC 9110, 5.6.7). time.Parse takes a zone it does
// not know as UTC, and puts the pivot of two-digit years at 1969; the RFC allows
// only GMT, and wants a year that looks more than 50 years ahead to be past.
func parseDate(s string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", s); err == nil {
		return t, true
	}
	if t, err := time.Parse(time.ANSIC, s); err == nil {
		return t, true
	}
	t, err := time.Parse("Monday, 02-Jan-06 15:04:05 GMT", s)
	if err != nil {
		return time.Time{}, false
	}
	year := now.UTC().Year()
	t = t.AddDate(year-year%100-t.Year()+t.Year()%100, 0, 0)
	if t.After(now.AddDate(50, 0, 0)) {
		t = t.AddDate(-100, 0, 0)
	} else if t.Before(now.AddDate(-50, 0, 0)) {
		t = t.AddDate(100, 0, 0)
	}
	return t, true
}
