package fault

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Fault is what happens to one attempt: a request, and the response to it.
// The functions of this package make one; the zero Fault is [OK]. Faults can be
// compared by ==.
//
// A count of bytes is one of the body over HTTP, and one of all that is sent on
// a connection, with its headers. A negative count is 0. A request or response
// that is shorter than the count passes unharmed. An operation has no bytes:
// [Cut] and [Truncate] are [Lost] to it, and [CutRequest] is [Reset].
type Fault struct {
	kind   kind
	bytes  int64         // that pass
	wait   time.Duration // of Slow and Trickle
	status int
	asks   string // value of Retry-After; strip takes it away
	body   string
}

// A kind says which function made a Fault.
type kind uint8

const (
	ok kind = iota
	status
	reset
	cutRequest
	lost
	cut
	truncate
	hang
	slow
	trickle
)

var kinds = [...]string{"OK", "Status", "Reset", "CutRequest", "Lost", "Cut", "Truncate", "Hang", "Slow", "Trickle"}

// OK passes on the request and the response: it is no fault.
func OK() Fault { return Fault{} }

// Status answers with an HTTP status, such as 503, in place of the service,
// which the request does not reach. On a connection, the response is one of
// HTTP/1.1 and the last one.
func Status(code int) Fault { return Fault{kind: status, status: code} }

// Reset resets the connection before the request reaches the service.
func Reset() Fault { return Fault{kind: reset} }

// CutRequest resets the connection after n bytes of the request.
func CutRequest(n int64) Fault { return Fault{kind: cutRequest, bytes: max(0, n)} }

// Lost passes on the request, waits until the service begins to respond, and
// resets the connection. The service has done its work, and the client cannot
// know that.
func Lost() Fault { return Fault{kind: lost} }

// Cut resets the connection after n bytes of the response.
func Cut(n int64) Fault { return Fault{kind: cut, bytes: max(0, n)} }

// Truncate closes the connection in good order after n bytes of the response,
// as a service does that is shut down.
func Truncate(n int64) Fault { return Fault{kind: truncate, bytes: max(0, n)} }

// Hang passes on the request, and never the response. It lasts until the context
// of the attempt ends or, on a connection, until its deadline or its end.
func Hang() Fault { return Fault{kind: hang} }

// Slow holds back the response for d; 0 or less is [OK].
func Slow(d time.Duration) Fault {
	if d <= 0 {
		return OK()
	}
	return Fault{kind: slow, wait: d}
}

// Trickle passes on the response in pieces of n bytes, at least 1, and waits for
// d before each. A d of 0 or less is no wait.
func Trickle(n int64, d time.Duration) Fault {
	return Fault{kind: trickle, bytes: max(1, n), wait: max(0, d)}
}

// After returns f, which may be [Hang] or [Slow], so that it begins after n
// bytes of the response.
func (f Fault) After(n int64) Fault { f.bytes = max(0, n); return f }

// Body returns f, which may be [Status], with another body than that of the
// status: Status(200).Body("<html>") is a wrong response.
func (f Fault) Body(s string) Fault { f.body = s; return f }

const strip = "-"

// RetryAfter returns f with a Retry-After of d in its response, in whole
// seconds, rounded up. That of the service is replaced, and with a negative d
// taken away: OK().RetryAfter(-1). On a connection it has a meaning for
// [Status] alone.
func (f Fault) RetryAfter(d time.Duration) Fault {
	if f.asks = strip; d >= 0 {
		f.asks = strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
	}
	return f
}

// String returns f as its code reads, such as "Status(503)".
func (f Fault) String() string {
	s := kinds[f.kind]
	switch f.kind {
	case status:
		s += fmt.Sprintf("(%d)", f.status)
	case cutRequest, cut, truncate:
		s += fmt.Sprintf("(%d)", f.bytes)
	case slow:
		s += fmt.Sprintf("(%v)", f.wait)
	case trickle:
		return s + fmt.Sprintf("(%d, %v)", f.bytes, f.wait)
	}
	if f.bytes > 0 && f.kind >= hang {
		s += fmt.Sprintf(".After(%d)", f.bytes)
	}
	if f.asks != "" {
		s += ".RetryAfter(" + f.asks + ")"
	}
	return s
}

// text is the body of a Status.
func (f Fault) text() string {
	if f.body != "" {
		return f.body
	}
	return http.StatusText(f.status)
}

// setRetryAfter changes the header of a response.
func (f Fault) setRetryAfter(h http.Header) {
	switch f.asks {
	case "":
	case strip:
		h.Del("Retry-After")
	default:
		h.Set("Retry-After", f.asks)
	}
}

// request returns how many of the next n bytes of a request pass, of which done
// have passed before. 0 means that f ends the attempt there.
func (f Fault) request(done int64, n int) int {
	switch f.kind {
	case status, reset:
		return 0
	case cutRequest:
		return int(min(f.bytes-done, int64(n)))
	}
	return n
}

// response is request for a response. The bytes pass after a wait.
func (f Fault) response(done int64, n int) (pass int, wait time.Duration) {
	left := int(min(f.bytes-done, int64(n)))
	switch {
	case f.kind == lost, f.kind == cut, f.kind == truncate, f.kind == hang, f.kind == slow && left > 0:
		return left, 0
	case f.kind == slow && left == 0:
		return n, f.wait
	case f.kind == trickle:
		return int(min(f.bytes, int64(n))), f.wait
	}
	return n, 0
}
