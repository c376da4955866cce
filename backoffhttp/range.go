package backoffhttp

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// strongValidator returns an entity tag, or a date, that changes with every
// byte of the resource, or "". A date does so if the answer is at least a
// second younger (RFC 9110, 8.8.2.2).
func strongValidator(h http.Header) string {
	tag := h.Get("Etag")
	if strings.HasPrefix(tag, `"`) {
		return tag
	}
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	date, err2 := http.ParseTime(h.Get("Date"))
	if tag != "" || err != nil || err2 != nil || date.Sub(modified) < time.Second {
		return ""
	}
	return h.Get("Last-Modified")
}

// coding returns the content coding of a body.
func coding(h http.Header) string {
	return cmp.Or(strings.ToLower(strings.Join(h["Content-Encoding"], ",")), "identity")
}

// contentRange is a Content-Range. last and size are -1 if they are not known.
type contentRange struct{ first, last, size int64 }

// parseRange reads "bytes 0-9/100" and "bytes 0-9/*".
func parseRange(value string) (contentRange, bool) {
	unit, rest, ok := strings.Cut(value, " ")
	span, size, ok2 := strings.Cut(rest, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !strings.EqualFold(unit, "bytes") || !ok || !ok2 || !ok3 {
		return contentRange{}, false
	}
	r := contentRange{first: offset(first), last: offset(last), size: offset(size)}
	return r, r.first >= 0 && r.last >= r.first && (r.size > r.last || size == "*")
}

// offset reads a number of bytes, or returns -1.
func offset(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || digits[0] < '0' || digits[0] > '9' || n == math.MaxInt64 {
		return -1
	}
	return n
}

// partOf returns which part of the resource an answer holds. It returns false if
// the answer is neither a 200 nor a 206, holds several parts, or contradicts
// itself.
func partOf(resp *http.Response) (contentRange, bool) {
	length := resp.ContentLength
	switch {
	case resp.StatusCode == http.StatusOK && length <= 0: // a RoundTripper may leave it out
		return contentRange{last: -1, size: -1}, true
	case resp.StatusCode == http.StatusOK:
		return contentRange{last: length - 1, size: length}, true
	}
	values := resp.Header["Content-Range"]
	if resp.StatusCode != http.StatusPartialContent || len(values) != 1 || strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "multipart/byteranges") {
		return contentRange{}, false
	}
	part, ok := parseRange(values[0])
	return part, ok && (length <= 0 || length == part.last-part.first+1)
}

// sizeOf returns the complete length of the resource that a 416 tells, or -1.
func sizeOf(resp *http.Response) int64 {
	unit, size, _ := strings.Cut(resp.Header.Get("Content-Range"), " */")
	if !strings.EqualFold(unit, "bytes") {
		return -1
	}
	return offset(size)
}
