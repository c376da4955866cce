package backoffhttp

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/idemkey"
)

// Idempotency reports whether a request may be sent again, judging by the
// request alone: [backoff.Idempotent], or [backoff.NonIdempotent], which is
// sent again only if it never reached the server. A [Transport] uses it by
// default.
//
// A request is idempotent if its method is (RFC 9110, 9.2.2): GET, HEAD,
// OPTIONS, TRACE, PUT or DELETE. It is also idempotent if it carries one of
// these:
//
//   - an Idempotency-Key or X-Idempotency-Key, since a client that sends one
//     says that the server knows keys;
//   - If-Match with an entity tag, or If-None-Match: *. When the request comes
//     again, the condition no longer holds, and the server responds with 412;
//   - ifGenerationMatch or ifMetagenerationMatch in the query, which are the
//     conditions of Cloud Storage.
//
// If-Match: * and If-None-Match with a tag do not count, because they still
// hold when the request comes again. Neither does If-Unmodified-Since, which
// holds until the second is over.
//
// For most services this is right, but not for all: of the 47 operations of
// Cloud Storage 13 differ from their method. For such services see
// [Operations], and for single calls [WithRetry].
func Idempotency(req *http.Request) backoff.Idempotency {
	if slices.Contains(idempotentMethods, req.Method) || keyed(req) || conditional(req) {
		return backoff.Idempotent
	}
	return backoff.NonIdempotent
}

// RepeatAfter429 is the [backoff.Idempotency] of a request to an API whose
// owner says that a 429 comes before anything is executed. That is so in many
// APIs where every call is a POST, such as Slack's, and those of GraphQL,
// JSON-RPC, Connect and Twirp. The request is sent again after a 429, and if it
// never reached the server, but not after a 503, which may come in the middle
// of the work. By default a POST is not sent again after a 429 either.
//
//	policy := backoff.Policy{Name: "slack", Idempotency: backoffhttp.RepeatAfter429}
//
// Set it in the policy of a [Transport], or by [WithRetry]. A GET, a request
// with a key, and what Transport.Idempotency allows are then repeated as
// before. Or let Transport.Idempotency return it, or a rule of [NewOperations]
// name it. Everywhere else it is [backoff.NonIdempotent], because a failure of
// ClassThrottled need not be a 429: HTTP/2 throttles in the middle of a stream.
//
// A response with another status, such as the 200 of GraphQL, counts as a 429 if
// the error that Transport.Inspect returns for it has a *StatusError with that
// Code.
//
// The schema of a Connect service says which methods may be repeated
// (idempotency_level). The document docs/recipes.md has an interceptor that
// tells the Transport.
var RepeatAfter429 backoff.Idempotency = new(lastAnswer)

// lastAnswer is the type of RepeatAfter429. Each call has one of its own.
type lastAnswer struct{ is429 bool }

// Repeatable implements [backoff.Idempotency].
func (a *lastAnswer) Repeatable(ctx context.Context, c backoff.Class) bool {
	return a.is429 || backoff.NonIdempotent.Repeatable(ctx, c)
}

// String returns the name of the variable.
func (*lastAnswer) String() string { return "RepeatAfter429" }

// idempotentMethods are the methods that are idempotent; "" is GET.
var idempotentMethods = []string{
	"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
	http.MethodPut, http.MethodDelete,
}

// keyed reports whether a request has a key under one of the usual names.
func keyed(req *http.Request) bool {
	return req.Header.Get(HeaderIdempotencyKey) != "" || req.Header.Get(headerAltKey) != ""
}

// conditional reports whether a request has a condition that fails when the
// request comes again.
func conditional(req *http.Request) bool {
	if tag := req.Header.Get("If-Match"); tag != "" && tag != "*" || req.Header.Get("If-None-Match") == "*" {
		return true
	}
	if !strings.Contains(req.URL.RawQuery, "enerationMatch") { // to read the query takes time
		return false
	}
	query := req.URL.Query()
	return query.Get("ifGenerationMatch") != "" || query.Get("ifMetagenerationMatch") != ""
}

// KeyForm is how an Idempotency-Key is written.
type KeyForm uint8

const (
	// KeyBare writes the key as it is. Most APIs that know the header want
	// this.
	KeyBare KeyForm = iota
	// KeyQuoted writes the key in double quotes, as a string of structured
	// fields. draft-ietf-httpapi-idempotency-key-header-07, which expired
	// on 2026-04-18, wants this.
	KeyQuoted
)

// write returns the value of the header for a key.
func (f KeyForm) write(key string) string {
	if f == KeyBare {
		return key
	}
	return `"` + escaper.Replace(key) + `"`
}

// escaper escapes the characters with a meaning in a quoted string.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// errKeyUsed refuses a request whose key belongs to another one of the same attempt. Its
// server would take it for that one, and answer what it answered then.
var errKeyUsed = backoff.Permanent(errors.New("backoffhttp: another request to this address has succeeded under the idempotency key of the context: " +
	"give each request a context with its own (backoff.WithIdempotencyKey)"))

// usedKey is the key of a context under which a request is sent.
type usedKey struct {
	key     *idemkey.Key // nil if the request does not carry the key of its context
	request uint64       // a hash
}

// fits reports whether no other request has succeeded under the key.
func (u *usedKey) fits() bool { return u.key == nil || u.key.Fits(u.request) }

var seed = maphash.MakeSeed()

// hashOf returns a hash of where a request is sent, and one of up to 64 KiB of its body. It
// is not 0.
func hashOf(req *http.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(req.Method + " " + req.URL.String())
	to := h.Sum64() &^ (1<<32 - 1)
	h.WriteString(strconv.FormatInt(req.ContentLength, 10) + " ")
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			io.CopyN(&h, body, 64<<10)
			body.Close()
		}
	}
	return to | h.Sum64()>>32 | 1
}
