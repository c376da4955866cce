package backoffhttp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/evidence"
	"github.com/gobackoff/backoff/internal/gaveup"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// StatusError is an HTTP response as an error. [Check] returns one, and a
// [Transport] passes one to classifiers and observers. The caller of a
// Transport does not get a StatusError: it gets the response itself.
//
// A StatusError holds the header, for request IDs and rate limits, but not the
// body, the URL or the request. Its text is the status line, so it puts no
// credentials into a log.
type StatusError struct {
	Code   int         // status code, such as 503
	Status string      // status line, such as "503 Service Unavailable"
	Header http.Header // header of the response, not to be changed; of more than 64 KiB only the fields that fit, of up to 1 KiB each

	class backoff.Class // unless ClassUnknown, it goes before status and error code
}

// Error returns the status line: up to 200 bytes of it, without what is not
// printable. Status has all of it, as the server sent it.
func (e *StatusError) Error() string {
	if e == nil {
		return "<nil>"
	}
	status := cmp.Or(e.Status, strconv.Itoa(e.Code)+" "+http.StatusText(e.Code))
	return "status " + strings.TrimSpace(printable(status)) // a code without a text ends with a space
}

// printable returns up to 200 bytes of a server's text, without the controls that
// a terminal would obey, or that would forge a line of a log.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text[:min(len(text), 200)])
}

// HTTPStatusCode returns the status code. [backoff.DefaultClassifier] and the
// classifiers of package presets read it.
func (e *StatusError) HTTPStatusCode() int { return cmp.Or(e, noStatus).Code }

// ErrorCode returns the error code that AWS sends in the header
// X-Amzn-Errortype, without its namespace, or "". Classifiers read it to tell a
// 400 that is a ThrottlingException from other 400s. If a service sends the
// code in the body only, set [Transport.Inspect].
func (e *StatusError) ErrorCode() string {
	code, _, _ := strings.Cut(cmp.Or(e, noStatus).Header.Get("X-Amzn-Errortype"), ":")
	return code[strings.LastIndexByte(code, '#')+1:]
}

// ResponseHeader returns a copy of the header, for code that must not import
// net/http. A request ID is http.Header(h).Get("X-Amzn-Requestid").
func (e *StatusError) ResponseHeader() map[string][]string {
	return maps.Clone(cmp.Or(e, noStatus).Header)
}

// noStatus is what the methods read of a StatusError that is nil.
var noStatus = new(StatusError)

// Check returns nil for a response below 400, and otherwise a [*StatusError].
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
// success replaces the rule "below 400": any other response is an error then.
// It lists statuses from 100 to 999, and [Status2xx] for all from 200 to 299.
// To a sender of webhooks a redirect is a failure, and a 409 means that the
// receiver has it already:
//
//	backoffhttp.Check(resp, backoffhttp.Status2xx, http.StatusConflict)
//
// A response below 400 that becomes an error in this way is permanent to
// [Classify], but a policy without a classifier retries it. If success has any
// other number, Check returns an error that names it, and that no policy
// retries.
//
// If the response comes from a [Transport] that gave up on it, Check returns an
// error with the [*backoff.Error] of that Transport in its tree, and the
// *StatusError in the tree of that. It says how many attempts were made, why
// not more, and what to change: a field of the Transport or of its policy. No
// other policy retries it. This also holds for a status in success, for a
// response below 400 that [Transport.Inspect] found to be a failure, and for
// the responses that CheckRetry and KeepResponse of package plug gave up on.
//
// Check neither reads nor closes the body. A nil resp is an error that no policy
// retries. Set Classify as the classifier of the policy, so that the policy does not
// retry errors that it does not know.
func Check(resp *http.Response, success ...int) error {
	if resp == nil {
		return backoff.Permanent(errors.New("backoffhttp: Check: the response is nil"))
	}
	ok := len(success) == 0 && resp.StatusCode < 400
	for _, status := range success {
		if status != Status2xx && (status < 100 || status > 999) {
			return backoff.Permanent(fmt.Errorf("backoffhttp: Check: success %d is neither a status from 100 to 999 nor Status2xx", status))
		}
		ok = ok || status == resp.StatusCode || status == Status2xx && resp.StatusCode/100 == 2
	}
	m := gaveup.Of(resp.Request)
	switch {
	case m != nil && (resp.StatusCode >= 400 || m.Answer == resp):
		return m.Err()
	case ok:
		return nil
	}
	e := newStatusError(resp)
	return e.advised(e, nil, time.Now())
}

// Status2xx tells [Check] that every status from 200 to 299 is a success.
const Status2xx = 2

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

// StatusClass returns the class of an HTTP status. 408, 425 and 5xx are [backoff.ClassRetryable],
// except 501, 505, 506, 507, 508, 510 and 511, and so is what no RFC defines, from 600 to 999. 429
// and 529 are [backoff.ClassThrottled]. The other 4xx and 5xx are [backoff.ClassPermanent]. All
// other numbers are [backoff.ClassUnknown].
//
// Source: RFC 9110 and RFC 8470; Google Cloud IoT Core and Cloud Storage, retry
// strategy.
func StatusClass(code int) backoff.Class { return backoff.Class(evidence.Status(code)) }

// advised returns err, whose tree holds e, with what the answer says about
// retries, and what the rate limits of the vendor say. Dates are compared with
// now.
func (e *StatusError) advised(err error, limits []RateLimit, now time.Time) error {
	_, asked := retryafter.Asked(e.Header, now)
	reset, used := exhausted(e.Header, limits, now)
	switch {
	case (asked || used) && limitsRefuseWith(e.Code, limits):
		e.class = backoff.ClassThrottled
	case asked && e.Code == http.StatusRequestEntityTooLarge:
		e.class = backoff.ClassRetryable // too large at the moment (RFC 9110, 15.5.14)
	}
	if wait, ok := retryafter.From(e.Header, now); ok {
		err = backoff.RetryAfter(err, wait)
	} else if used {
		err = backoff.RetryAfter(err, reset)
	}
	return e.signalled(err)
}

// signalled marks err by the headers that say whether to retry, rather than
// when. They go before any classifier. A "yes" comes from servers that know more
// than their status says, such as Stripe's.
func (e *StatusError) signalled(err error) error {
	if pushback, ok := retryafter.ParsePushback(e.Header[headerPushback]...); ok && pushback >= 0 {
		return backoff.Pushback(err, pushback)
	}
	retry, said := retryAdvice(e.Header)
	if !said {
		return err
	}
	switch class := Classify(e); {
	case retry && class.Retryable():
		return backoff.OfClass(err, class)
	case retry:
		return backoff.OfClass(err, backoff.ClassRetryable)
	case e.permanent():
		return backoff.Permanent(err)
	case class == backoff.ClassThrottled: // for budgets
		err = backoff.OfClass(err, backoff.ClassThrottled)
	}
	return backoff.OfClass(err, backoff.ClassOverloaded)
}

// permanent reports whether the response is one that a healthy server gives if
// the request must not be repeated, such as one for a declined card.
func (e *StatusError) permanent() bool {
	class := Classify(e)
	return class == backoff.ClassPermanent || e.Code < 500 && class != backoff.ClassThrottled
}

// retryAdvice reads the headers of proxies and vendors that allow or forbid a
// retry, and whether there are any. A "no" goes before a "yes". Envoy's headers mean
// "no" with any value, a pushback if it is negative or malformed.
func retryAdvice(h http.Header) (retry, said bool) {
	if saysOverload(h) {
		return false, true
	}
	for _, name := range [...]string{headerShouldRetry, headerStripeRetry} {
		switch strings.ToLower(h.Get(name)) {
		case "false":
			return false, true
		case "true":
			retry, said = true, true
		}
	}
	return retry, said
}

// saysOverload reports whether a server, or a proxy, says "do not retry" because
// it has too much to do.
func saysOverload(h http.Header) bool {
	pushback, ok := retryafter.ParsePushback(h[headerPushback]...)
	return h.Get(headerEnvoyLoad) != "" || h.Get(headerEnvoyLimit) != "" || ok && pushback < 0
}
