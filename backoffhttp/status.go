package backoffhttp

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
)

// StatusError is an HTTP answer as an error. [Check] returns one, and a
// [Transport] passes one to classifiers and observers. The caller of a
// Transport does not get a StatusError: it gets the answer itself.
//
// A StatusError holds the header, for request IDs and rate limits, but not the
// body, the URL or the request. Its text is the status line, so it puts no
// credentials into a log.
type StatusError struct {
	Code   int         // such as 503
	Status string      // such as "503 Service Unavailable"
	Header http.Header // of the answer, not to be changed; beyond 64 KiB without the fields of more than 1 KiB

	class backoff.Class // unless ClassUnknown, it goes before status and error code
}

// Error returns the status line, up to 200 bytes of it.
func (e *StatusError) Error() string {
	if e == nil {
		return "<nil>"
	}
	if e.Status != "" {
		return "status " + e.Status[:min(len(e.Status), 200)]
	}
	return "status " + http.StatusText(e.Code)
}

// HTTPStatusCode returns the status code. [backoff.DefaultClassifier] and the
// classifiers of package presets read it.
func (e *StatusError) HTTPStatusCode() int {
	if e == nil {
		return 0
	}
	return e.Code
}

// ErrorCode returns the error code that AWS sends in the header
// X-Amzn-Errortype, without its namespace, or "". Classifiers read it to tell a
// 400 that is a ThrottlingException from other 400s. If a service sends the
// code in the body only, set [Transport.Inspect].
func (e *StatusError) ErrorCode() string {
	if e == nil {
		return ""
	}
	code, _, _ := strings.Cut(e.Header.Get("X-Amzn-Errortype"), ":")
	return code[strings.LastIndexByte(code, '#')+1:]
}

// ResponseHeader returns a copy of the header, for code that must not import
// net/http. A request ID is http.Header(h).Get("X-Amzn-Requestid").
func (e *StatusError) ResponseHeader() map[string][]string {
	if e == nil {
		return nil
	}
	return maps.Clone(e.Header)
}

// Check returns nil for an answer below 400, and otherwise a [*StatusError].
// The error carries the Retry-After of the server, and its "do not retry". Use
// Check with any client, inside [backoff.Policy.Do]:
//
//	resp, err := client.Do(req)
//	if err != nil {
//		return err
//	}
//	defer resp.Body.Close()
//	if err := backoffhttp.Check(resp); err != nil {
//		return err
//	}
//
// If the answer comes from a [Transport] that gave up on it, Check returns the
// [*backoff.Error] of that Transport. It tells how many attempts were made, and
// why not more. No other policy retries it.
//
// Check neither reads nor closes the body. Set Classify as the classifier of
// the policy, so that the policy does not retry errors that it does not know.
func Check(resp *http.Response) error {
	if resp.StatusCode < 400 {
		return nil
	}
	if err := givenUp(resp); err != nil {
		return err
	}
	e := newStatusError(resp)
	return e.advised(e, nil, time.Now())
}

func newStatusError(resp *http.Response) *StatusError {
	return &StatusError{Code: resp.StatusCode, Status: resp.Status, Header: boundedHeader(resp.Header)}
}

// The bounds of a header that a StatusError holds. A breaker keeps the error as
// long as its circuit is open, and a server may send 10 MB.
const (
	maxHeader = 64 << 10
	maxField  = 1 << 10
)

// boundedHeader returns h, or if that is longer than maxHeader, as many of its
// fields of up to maxField as fit.
func boundedHeader(h http.Header) http.Header {
	size := 0
	for name, values := range h {
		size += sizeOfField(name, values)
	}
	if size <= maxHeader {
		return h
	}
	short, left := http.Header{}, maxHeader
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if size := sizeOfField(name, h[name]); size <= min(maxField, left) {
			short[name] = h[name]
			left -= size
		}
	}
	return short
}

// sizeOfField returns the length of the lines of a field.
func sizeOfField(name string, values []string) (size int) {
	for _, value := range values {
		size += len(name) + len(value)
	}
	return size
}

// StatusClass returns the class of an HTTP status. 408, 425 and 5xx are
// [backoff.ClassRetryable], except 501, 505, 506, 507, 508, 510 and 511. 429 is
// [backoff.ClassThrottled]. The other 4xx and 5xx are [backoff.ClassPermanent].
// All other numbers are [backoff.ClassUnknown].
//
// Source: RFC 9110 and RFC 8470; Google Cloud IoT Core and Cloud Storage, retry
// strategy.
func StatusClass(code int) backoff.Class { return backoff.Class(evidence.Status(code)) }

// gaveUpKey is the key of the error in the context of an answer.
type gaveUpKey struct{}

// markGivenUp stores why there were no more attempts, in the context of the
// request of the answer.
func markGivenUp(resp *http.Response, err error) {
	if resp.Request == nil {
		return
	}
	refused, _ := errtree.As[refusal](err)
	gave, ok := refused.(*backoff.Error)
	if !ok {
		return // the answer is final: its status says so
	}
	resp.Request = resp.Request.WithContext(context.WithValue(resp.Request.Context(), gaveUpKey{}, gave))
}

// givenUp returns the error that markGivenUp stored, or nil.
func givenUp(resp *http.Response) error {
	if resp.Request == nil {
		return nil
	}
	if gave := markOf(resp.Request); gave != nil {
		return gave
	}
	return nil
}

// markOf returns the error in the context of a request, or nil.
func markOf(req *http.Request) *backoff.Error {
	gave, _ := req.Context().Value(gaveUpKey{}).(*backoff.Error)
	return gave
}

// unmark removes from an answer to req the error of an earlier call, in whose
// answer req got its context.
func unmark(resp *http.Response, req *http.Request) {
	if resp.Request == nil {
		return
	}
	if old := markOf(req); old != nil && old == markOf(resp.Request) {
		resp.Request = resp.Request.WithContext(context.WithValue(resp.Request.Context(), gaveUpKey{}, nil))
	}
}
