package backoffhttp

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gobackoff/backoff"
)

// Idempotency says whether a request may be sent again, by what can be seen of it:
// [backoff.Idempotent], or [backoff.NonIdempotent], which is repeated only where it
// provably never reached the server. It is what a [Transport] goes by unless told
// otherwise.
//
// Idempotent are, by RFC 9110, 9.2.2, the methods GET, HEAD, OPTIONS, TRACE, PUT and
// DELETE, and whatever carries one of these:
//
//   - an Idempotency-Key, or X-Idempotency-Key: who sends one says that the server
//     knows it;
//   - If-Match with an entity tag, or If-None-Match: *, so that a repetition finds that
//     the condition does not hold any more, and answers 412;
//   - ifGenerationMatch or ifMetagenerationMatch in the query, by which Cloud Storage
//     has the same.
//
// If-Match: * and If-None-Match with a tag hold as well the second time, and
// If-Unmodified-Since does within the same second; they do not count.
//
// The method tells the truth about most services, not all: of the 47 operations of
// Cloud Storage 13 are not what their method says. For these see [Operations], and for
// single calls [WithRetry].
func Idempotency(req *http.Request) backoff.Idempotency {
	if idempotentMethod(req.Method) || keyed(req) || conditional(req) {
		return backoff.Idempotent
	}
	return backoff.NonIdempotent
}

func idempotentMethod(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

func keyed(req *http.Request) bool {
	return req.Header.Get(HeaderIdempotencyKey) != "" || req.Header.Get(headerAltKey) != ""
}

func conditional(req *http.Request) bool {
	if tag := req.Header.Get("If-Match"); tag != "" && tag != "*" || req.Header.Get("If-None-Match") == "*" {
		return true
	}
	query := req.URL.RawQuery
	return strings.Contains(query, "enerationMatch") &&
		(inQuery(query, "ifGenerationMatch") || inQuery(query, "ifMetagenerationMatch"))
}

// inQuery reports whether a query has a value for a parameter.
func inQuery(query, name string) bool {
	values, _ := url.ParseQuery(query)
	return values.Get(name) != ""
}

// KeyForm says how an Idempotency-Key is written.
type KeyForm uint8

const (
	// KeyBare is the key as it is, which most APIs want that have the header.
	KeyBare KeyForm = iota
	// KeyQuoted is the key as a structured field's string, in double quotes, as
	// draft-ietf-httpapi-idempotency-key-header-07 has it (which expired on
	// 2026-04-18).
	KeyQuoted
)

// String returns the name of the form in lower case.
func (f KeyForm) String() string { return [...]string{"bare", "quoted"}[min(f, KeyQuoted)] }

// write returns the value of the header.
func (f KeyForm) write(key string) string {
	if f == KeyBare {
		return key
	}
	return `"` + escaper.Replace(key) + `"`
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// origin returns the request that a redirect began with: req itself if there was none.
func origin(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// sameOrigin compares scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) &&
		port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if strings.EqualFold(u.Scheme, "https") {
		return "443"
	}
	return "80"
}
