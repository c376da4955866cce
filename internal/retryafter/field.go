package retryafter

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxReset is the longest time until the end of a limit that is believed: no
// quota lasts longer than a year. draft-ietf-httpapi-ratelimit-headers-10,
// 8.5.1, wants such a threshold.
const MaxReset = 366 * 24 * time.Hour

// maxField is the longest RateLimit field that is read, in bytes.
const maxField = 64 << 10

// reset returns the longest time until the end of a limit of which nothing
// remains, as the lines of a RateLimit field say. It returns false if there is
// none. A malformed value makes the whole field say nothing.
//
// Source: draft-ietf-httpapi-ratelimit-headers-10, 4.1 and 7; RFC 9651, 4.2.
func reset(lines []string) (longest time.Duration, found bool) {
	f := field{strings.TrimLeft(strings.Join(lines, ", "), " ")}
	if len(f.text) > maxField {
		return 0, false
	}
	for more := f.text != ""; more; {
		remaining, seconds, ok := f.limit()
		f.span(" \t")
		more = f.take(",")
		f.span(" \t")
		if !ok || !more && f.text != "" {
			return 0, false
		}
		if remaining == 0 && seconds >= 0 && seconds <= int64(MaxReset/time.Second) {
			longest, found = max(longest, time.Duration(seconds)*time.Second), true
		}
	}
	return longest, found
}

// A field is what is left to read of a structured field (RFC 9651). Its methods
// read from the front, and return false if that is malformed.
type field struct{ text string }

// The characters of a structured field.
const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	letter = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	plain  = letter + digits + " !#$&'()*+,-./:;<=>?@[]^_`{|}~" // in both kinds of strings
)

// What a parameter counts if it is no whole number from 0 on, or is not there.
const noCount, absent = -1, -2

// span reads the characters that come next and are among chars.
func (f *field) span(chars string) string {
	all := f.text
	f.text = strings.TrimLeft(all, chars)
	return all[:len(all)-len(f.text)]
}

// take reads prefix, and reports whether it came next.
func (f *field) take(prefix string) (ok bool) {
	f.text, ok = strings.CutPrefix(f.text, prefix)
	return ok
}

// limit reads a member of a RateLimit field: an item whose parameter r counts
// what remains, and t the seconds until there is more, if it is there.
func (f *field) limit() (remaining, seconds int64, ok bool) {
	remaining, seconds = noCount, absent
	for _, ok = f.item(); ok && f.take(";"); {
		f.span(" ")
		key, value := f.span(lower+digits+"_-.*"), int64(noCount)
		ok = key != "" && strings.Contains(lower+"*", key[:1])
		if ok && f.take("=") {
			value, ok = f.item()
		}
		switch key { // the last one of a name counts
		case "r":
			remaining = value
		case "t":
			seconds = value
		}
	}
	return remaining, seconds, ok && remaining != noCount && seconds != noCount
}

// item reads an item without its parameters, and returns what it counts.
func (f *field) item() (count int64, ok bool) {
	switch first := f.text[:min(1, len(f.text))]; {
	case first == "":
		return noCount, false
	case strings.Contains(digits+"-", first):
		return f.number()
	case strings.Contains(letter+"*", first):
		return noCount, f.span(letter+digits+"!#$%&'*+-.^_`|~:/") != ""
	case f.take("@"): // a date
		f.take("-")
		return noCount, isDigits(f.span(digits), 15)
	case f.take("?"): // a boolean
		return noCount, f.take("0") || f.take("1")
	case f.take(`"`):
		return noCount, f.restOfString()
	case f.take(`%"`):
		return noCount, f.restOfDisplayString()
	}
	return noCount, f.take(":") && f.restOfBytes()
}

// isDigits reports whether a number has 1 to most digits.
func isDigits(number string, most int) bool { return number != "" && len(number) <= most }

// number reads an integer or a decimal.
func (f *field) number() (count int64, ok bool) {
	negative, whole := f.take("-"), f.span(digits)
	if f.take(".") {
		return noCount, isDigits(whole, 12) && isDigits(f.span(digits), 3)
	}
	count, _ = strconv.ParseInt(whole, 10, 64)
	if negative {
		count = max(-count, noCount)
	}
	return count, isDigits(whole, 15)
}

// restOfString reads a string from its second character on.
func (f *field) restOfString() bool {
	for f.span(plain + "%"); f.take(`\"`) || f.take(`\\`); f.span(plain + "%") {
	}
	return f.take(`"`)
}

// restOfDisplayString reads a string of Unicode from its third character on.
func (f *field) restOfDisplayString() bool {
	text := make([]byte, 0, 64)
	for {
		text = append(text, f.span(plain+`\`)...)
		if !f.take("%") {
			return f.take(`"`) && utf8.Valid(text)
		}
		hex := f.span(digits + "abcdef")
		if len(hex) < 2 {
			return false
		}
		b, _ := strconv.ParseUint(hex[:2], 16, 8)
		text = append(append(text, byte(b)), hex[2:]...)
	}
}

// restOfBytes reads a sequence of bytes from its second character on: Base64,
// whose padding may be left out.
func (f *field) restOfBytes() bool {
	data := len(f.span(letter + digits + "+/"))
	padding := len(f.span("="))
	return data%4 != 1 && (padding == 0 || padding < 3 && (data+padding)%4 == 0) && f.take(":")
}
