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
	size := 0
	for _, line := range lines {
		size += len(line) + len(", ")
	}
	if size > maxField {
		return 0, false
	}
	f := field{strings.TrimLeft(strings.Join(lines, ", "), " ")}
	for f.text != "" {
		remaining, seconds, ok := f.limit()
		if !ok || !f.next() {
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
)

// What a parameter counts if it is no whole number from 0 on, or is not there.
const (
	noCount = -1
	absent  = -2
)

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

// next reads what is between two members of a list.
func (f *field) next() bool {
	f.span(" \t")
	if f.text == "" {
		return true
	}
	comma := f.take(",")
	f.span(" \t")
	return comma && f.text != ""
}

// limit reads a member of a RateLimit field: an item whose parameter r counts
// what remains, and t the seconds until there is more, if it is there.
func (f *field) limit() (remaining, seconds int64, ok bool) {
	remaining, seconds = noCount, absent
	_, ok = f.item()
	for ok && f.take(";") {
		f.span(" ")
		key, value := f.key(), int64(noCount)
		if ok = key != ""; ok && f.take("=") {
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

// key reads the name of a parameter. It returns "" if there is none.
func (f *field) key() string {
	all := f.text
	if f.take("*") || f.text != "" && strings.Contains(lower, f.text[:1]) {
		f.span(lower + digits + "_-.*")
	}
	return all[:len(all)-len(f.text)]
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
	for i := 0; i < len(f.text); i++ {
		switch c := f.text[i]; {
		case c == '"':
			f.text = f.text[i+1:]
			return true
		case c < ' ' || c > '~':
			return false
		case c == '\\':
			if i++; i == len(f.text) || f.text[i] != '"' && f.text[i] != '\\' {
				return false
			}
		}
	}
	return false
}

// restOfDisplayString reads a string of Unicode from its third character on.
func (f *field) restOfDisplayString() bool {
	inside, rest, ended := strings.Cut(f.text, `"`)
	f.text = rest
	text := make([]byte, 0, 64)
	for i := 0; i < len(inside); i++ {
		c := inside[i]
		switch {
		case c < ' ' || c > '~':
			return false
		case c == '%':
			hex := inside[i+1 : min(i+3, len(inside))]
			b, err := strconv.ParseUint(hex, 16, 8)
			if err != nil || len(hex) < 2 || strings.ToLower(hex) != hex {
				return false
			}
			c, i = byte(b), i+2
		}
		text = append(text, c)
	}
	return ended && utf8.Valid(text)
}

// restOfBytes reads a sequence of bytes from its second character on: Base64,
// whose padding may be left out.
func (f *field) restOfBytes() bool {
	data := len(f.span(letter + digits + "+/"))
	padding := len(f.span("="))
	return data%4 != 1 && (padding == 0 || padding < 3 && (data+padding)%4 == 0) && f.take(":")
}
