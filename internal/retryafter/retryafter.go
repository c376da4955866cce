// Package retryafter reads and writes how long a server asks its clients to
// wait before they try again.
package retryafter

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// maxAWS is the most of x-amz-retry-after that counts. The library waits up to
// a tenth longer than a server asks for, so that comes to 5 s.
const maxAWS = 5 * time.Second * 10 / 11

// maxValues is how many values of a field are read. Servers and proxies send
// one each.
const maxValues = 100

// From returns how long the header of a refusal asks to wait: as Asked says, or
// else the longest time of the limits in the RateLimit field of which nothing
// remains. It returns false if there is neither. A RateLimit field that is
// malformed, longer than 64 KiB, or that of a response from a cache says
// nothing, and neither does a limit that ends later than MaxReset.
//
// Source: draft-ietf-httpapi-ratelimit-headers-10, 7.
func From(header map[string][]string, now time.Time) (longest time.Duration, found bool) {
	age, _ := parseDigits(strings.Join(header["Age"], ""), time.Second)
	if longest, found = Asked(header, now); found || age > 0 {
		return longest, found
	}
	return reset(header["Ratelimit"])
}

// Asked returns the longest valid wait that an HTTP header asks for, or false if
// there is none. The keys of header are canonical, as in http.Header.
//
// Asked reads Retry-After, and in milliseconds Retry-After-Ms,
// X-Ms-Retry-After-Ms and X-Amz-Retry-After, of which at most 4.5 s count. It
// reads up to 100 values of each.
func Asked(header map[string][]string, now time.Time) (longest time.Duration, found bool) {
	for _, name := range [...]string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"} {
		for _, value := range header[name][:min(len(header[name]), maxValues)] {
			d, ok := ParseMS(value)
			switch name {
			case "Retry-After":
				d, ok = Parse(value, now)
			case "X-Amz-Retry-After":
				d = min(d, maxAWS)
			}
			if ok {
				longest, found = max(longest, d), true
			}
		}
	}
	return longest, found
}

// Parse reads the value of a Retry-After header (RFC 9110, 10.2.3): whole
// seconds, or a date in any of the three forms of HTTP, which is compared with
// now. A date in the past is 0. Seconds beyond the range of a duration
// saturate.
//
// Parse returns false for everything else, which a client ignores: signs,
// fractions, digits that are not ASCII, a zone other than GMT.
func Parse(value string, now time.Time) (time.Duration, bool) {
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

// Format returns the value of a Retry-After header for wait: seconds, rounded
// up.
func Format(wait time.Duration) string {
	return strconv.FormatFloat(math.Ceil(wait.Seconds()), 'f', 0, 64)
}

// ParseMS reads a number of milliseconds, as in Retry-After-Ms. Large values
// saturate. ParseMS returns false for everything but ASCII digits.
func ParseMS(value string) (time.Duration, bool) {
	return parseDigits(strings.Trim(value, " \t"), time.Millisecond)
}

// ParsePushback reads Grpc-Retry-Pushback-Ms, given all its values. It returns
// false if there is none. A negative number, a malformed value and more than
// one value all mean "do not retry", and give -1. This is the opposite of
// Retry-After, where a malformed value is ignored.
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

// parseDigits reads one or more ASCII digits as a number of units. It
// saturates.
func parseDigits(s string, unit time.Duration) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return math.MaxInt64, true
	}
	return time.Duration(n) * unit, true
}

// parseDate reads an HTTP-date (RFC 9110, 5.6.7). It differs from time.Parse in
// two points. time.Parse reads an unknown zone as UTC, but the RFC allows only
// GMT. And time.Parse takes two-digit years from 69 on for years before 2000,
// but in the RFC a year that appears to be more than 50 years ahead is in the
// past.
func parseDate(s string, now time.Time) (time.Time, bool) {
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", time.ANSIC} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
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
