package backoffhttp

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
)

// Classify returns the class of an error of an HTTP call. It knows everything
// that [backoff.DefaultClassifier] knows, and the errors of net/http. It never
// returns [backoff.ClassUnknown]: an error that it does not know is permanent,
// and so is nil. A [Transport] uses Classify for errors that its policy does
// not classify.
//
//   - NotSent: there was no connection (refused, no route, a socket without a
//     file, no free port, a timeout or a temporary failure of name resolution,
//     of the handshake or of a SOCKS proxy), or the HTTP/2 server refused the
//     stream (REFUSED_STREAM), or left it out of its GOAWAY. Of joined errors,
//     each must be NotSent. Within a Transport whose Base is an
//     [http.Transport], also a proxy that responds to CONNECT with a status that
//     is retryable below.
//   - Retryable: timeouts, resets, connections that the server closed, with or
//     without a part of the response; the other stream errors of HTTP/2,
//     except those below; the statuses 408, 425 and 5xx, except 501, 505, 506,
//     507, 508, 510 and 511; 413 with a Retry-After; 409 to a request that has
//     a key from the Transport, because an earlier attempt may be in flight.
//   - Throttled: status 429 and 529, the throttling codes of AWS in
//     X-Amzn-Errortype, a refusal by a limit of [Transport.RateLimits],
//     ENHANCE_YOUR_CALM.
//   - Permanent: the other statuses, certificate errors, names that do not
//     exist, HTTP_1_1_REQUIRED and INADEQUATE_SECURITY of HTTP/2, a proxy to
//     which there is no route, and a context that the caller cancelled.
//
// If the policy of a Transport limits the time but not the attempts, a name that does not
// exist is NotSent: it may still appear.
//
// A bare io.EOF is permanent, because it is the end of a body. A wrapped one is
// a connection that ended too early. (A Transport knows which of the two it
// got.)
//
// net/http identifies several of its errors only by their text, so Classify
// reads the text. The HTTP/2 texts of golang.org/x/net are the same. Of a
// proxy's response to CONNECT only the status text is left, such as "Bad
// Gateway". It has the class of the status; a text that is not a standard one
// is permanent. If that is not enough, let OnProxyConnectResponse of
// [http.Transport] return an error that is marked by [backoff.OfClass].
//
// The same error has another meaning if it comes from reading the request's own
// body, or from reading the response, whose header proves that the request
// arrived. A Transport tells these apart. Other programs mark them by
// [backoff.OfClass], or a POST may be sent twice.
//
// An [http.Client] that follows redirects does not show which of its requests
// failed. If the response to a POST is a 303 and the GET after it is refused,
// Classify says NotSent. Around such a client let CheckRedirect return
// [http.ErrUseLastResponse], or put the retries inside: a [Transport] makes
// each redirect a separate call.
//
// Classify is safe for concurrent use.
//
// Sources: RFC 9110, 15.5 and 15.6; RFC 9113, 7 and 8.7; Cloud Storage, retry
// strategy.
func Classify(err error) backoff.Class { return cmp.Or(known(err), backoff.ClassPermanent) }

// known is Classify, but ClassUnknown for an error that Classify does not know.
func known(err error) backoff.Class {
	if e, ok := errtree.As[*StatusError](err); ok && e != nil && e.class != backoff.ClassUnknown {
		return e.class
	}
	class := backoff.DefaultClassifier(err)
	if class <= backoff.ClassRetryable {
		class = cmp.Or(ofTree(&tree{left: errtree.Most}, err), class)
	}
	if class == backoff.ClassUnknown && err != io.EOF && errtree.Is(err, io.EOF) {
		return backoff.ClassRetryable
	}
	return class
}

// after returns the classifier of a policy that asks first: for what a RoundTripper
// returned. What first does not know, Classify decides, except that the policy knows
// whether it waits for a name that does not exist.
func after(first backoff.Classifier) backoff.Classifier {
	ask := knownAfter(first)
	return func(err error) backoff.Class {
		class := cmp.Or(ask(err), backoff.ClassPermanent)
		if class == backoff.ClassPermanent && (first == nil || first(err) == backoff.ClassUnknown) && evidence.OfWaiting(err) == evidence.NotSent {
			return backoff.ClassUnknown
		}
		return class
	}
}

// knownAfter is after for a breaker: what nobody knows is ClassUnknown, and so a failure,
// because nothing proves that there was an answer.
func knownAfter(first backoff.Classifier) backoff.Classifier {
	return func(err error) (class backoff.Class) {
		if _, late := err.(attemptTimeout); late {
			return backoff.ClassRetryable // as in Policy.Do
		}
		if first != nil {
			class = first(err)
		}
		if class == backoff.ClassUnknown && err == io.EOF { // closed before the answer began
			return backoff.ClassRetryable
		}
		return cmp.Or(class, known(err))
	}
}

// tree is a tree of errors that is read.
type tree struct {
	left  int // errors that may still be read
	depth int // of the error that is read
}

// maxDepth is how deep a tree is read. An error may make its text, or its
// Timeout, of all that it wraps, so that each level costs as much as the rest.
const maxDepth = 32

// ofTree returns what the errors of net and net/http in the tree of err say, or
// ClassUnknown if they say nothing. What w has no room for may have been sent.
func ofTree(w *tree, err error) backoff.Class {
	w.left--
	if w.left < 0 || w.depth == maxDepth {
		return backoff.ClassUnknown
	}
	w.depth++
	defer func() { w.depth-- }()
	if gave, ok := err.(*backoff.Error); ok && gave != nil && gave.Last != nil {
		return ofTree(w, gave.Last) // its other branches say why there was no more
	}
	if class := ofOne(err); class != backoff.ClassUnknown {
		return class
	}
	branches, inner := errtree.Unwrap(err)
	switch {
	case inner != nil:
		return ofTree(w, inner)
	case branches != nil:
		return ofBranches(w, branches)
	case backoff.DefaultClassifier(err) == backoff.ClassNotSent:
		return backoff.ClassNotSent
	}
	return backoff.ClassUnknown
}

// ofBranches is ofTree for errors that are joined. As in
// [backoff.DefaultClassifier] they are NotSent only if each of them is. Of other
// classes the greatest counts.
func ofBranches(w *tree, branches []error) (class backoff.Class) {
	some, all := false, true
	for _, err := range branches {
		if err == nil {
			continue
		}
		if c := ofTree(w, err); c == backoff.ClassNotSent {
			some = true
		} else {
			class, all = max(class, c), false
		}
	}
	switch {
	case some && all:
		return backoff.ClassNotSent
	case some:
		return max(class, backoff.ClassRetryable)
	}
	return class
}

// ofOne returns the class of an error of net or net/http, or ClassUnknown if
// err is none.
func ofOne(err error) backoff.Class {
	switch e := err.(type) {
	case *net.OpError:
		return ofOperation(e)
	case *net.DNSError:
		return whileConnecting(e)
	case notConnected:
		return e.class()
	case *StatusError: // its text is that of an answer
		return backoff.ClassUnknown
	case interface{ Unwrap() []error }:
		return backoff.ClassUnknown
	case interface{ As(any) bool }:
		var stream streamError
		if e.As(&stream) {
			fromPeer := stream.Cause != nil && stream.Cause.Error() == "received from peer"
			return codeClass(codeNames[stream.Code], fromPeer)
		}
	}
	text := err.Error()
	class := cmp.Or(statusOfText(text), classOfText(text))
	if _, wraps := err.(interface{ Unwrap() error }); wraps && class == backoff.ClassNotSent {
		return backoff.ClassUnknown // the text may be that of the first of several branches
	}
	return class
}

// streamError is a stream error of net/http. The type of net/http is not
// exported, but its method As copies it into any struct with the same fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error makes it a target that errors.As takes: other types have a method As that
// passes the target on to that, and errors.As panics if it is no error.
func (streamError) Error() string { return "stream error" }

// codeNames are the error codes of HTTP/2 whose class is not ClassRetryable. Source:
// RFC 9113, 7.
var codeNames = map[uint32]string{1: "PROTOCOL_ERROR", 7: "REFUSED_STREAM", 11: "ENHANCE_YOUR_CALM",
	12: "INADEQUATE_SECURITY", 13: "HTTP_1_1_REQUIRED"}

// codeClass returns the class of the error code of a stream, given its name. If the
// client itself found a PROTOCOL_ERROR, it cannot read the answer. But some servers
// send a PROTOCOL_ERROR instead of a REFUSED_STREAM (go.dev/issue/47635).
func codeClass(name string, fromPeer bool) backoff.Class {
	switch name {
	case "REFUSED_STREAM":
		return backoff.ClassNotSent
	case "ENHANCE_YOUR_CALM":
		return backoff.ClassThrottled
	case "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED":
		return backoff.ClassPermanent
	case "PROTOCOL_ERROR":
		if !fromPeer {
			return backoff.ClassPermanent
		}
	}
	return backoff.ClassRetryable
}

// texts are the beginnings of errors that only their text identifies.
var texts = []struct {
	text  string
	class backoff.Class
}{
	{"http: server closed idle connection", backoff.ClassRetryable},
	{"net/http: cannot rewind body after connection loss", backoff.ClassRetryable},
	{"net/http: TLS handshake timeout", backoff.ClassNotSent},
	{"http2: client connection lost", backoff.ClassRetryable},
	{"http2: client conn is closed", backoff.ClassRetryable},
	{"http2: client conn not usable", backoff.ClassNotSent},
	{"http2: client conn could not be established", backoff.ClassNotSent},
	{"http2: no cached connection was available", backoff.ClassNotSent},
	{"http2: Transport received Server's graceful shutdown GOAWAY", backoff.ClassNotSent},
	{"http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM", backoff.ClassThrottled},
	{"http2: Transport received GOAWAY from server ErrCode:", backoff.ClassNotSent}, // the stream was beyond the last
}

const (
	goAway      = "http2: server sent GOAWAY and closed the connection; "
	cannotRetry = "http2: Transport: cannot retry err ["
	stream      = "stream error: stream ID "
	cutOff      = "net/http: HTTP/1.x transport connection broken: "
)

// cutShort reports whether a header is malformed because the connection ended
// in the middle of a line. A server of another protocol does not send such a
// beginning.
func cutShort(text string) bool {
	if strings.HasPrefix(text, "malformed MIME header: missing colon: ") {
		return true
	}
	if line, ok := strings.CutPrefix(text, `malformed HTTP response "`); ok {
		return strings.HasPrefix("HTTP/1.1", strings.TrimSuffix(line, `"`))
	}
	code, ok := strings.CutPrefix(text, `malformed HTTP status code "`)
	return ok && len(code) <= len(`50"`)
}

// classOfText returns the class of an error of net/http, or of
// golang.org/x/net/http2, given its text.
func classOfText(text string) backoff.Class {
	if inner, ok := strings.CutPrefix(text, cannotRetry); ok {
		return classOfText(inner)
	}
	if rest, ok := strings.CutPrefix(text, stream); ok {
		return streamClass(rest)
	}
	if rest, ok := strings.CutPrefix(text, cutOff); ok && cutShort(rest) {
		return backoff.ClassRetryable
	}
	if rest, ok := strings.CutPrefix(text, goAway); ok {
		code, _, _ := strings.Cut(rest, ", debug=")
		if strings.HasSuffix(code, "ErrCode=ENHANCE_YOUR_CALM") {
			return backoff.ClassThrottled
		}
		return backoff.ClassRetryable // the server may have worked on the stream
	}
	for _, known := range texts {
		if strings.HasPrefix(text, known.text) {
			return known.class
		}
	}
	return backoff.ClassUnknown
}

// streamClass returns the class of a text such as "1; REFUSED_STREAM; received
// from peer".
func streamClass(text string) backoff.Class {
	_, rest, ok := strings.Cut(text, "; ")
	if !ok {
		return backoff.ClassUnknown
	}
	code, cause, _ := strings.Cut(rest, "; ")
	name, _, _ := strings.Cut(code, "]")
	return codeClass(name, strings.HasPrefix(cause, "received from peer"))
}

// ofOperation returns the class of an error of package net. As long as there is
// no connection to the server, nothing of the request has been sent.
func ofOperation(e *net.OpError) backoff.Class {
	switch e.Op {
	case "dial":
		return whileConnecting(e)
	case "proxyconnect":
		if evidence.IsUnreachable(e) {
			return backoff.ClassPermanent // the proxy does not exist: the setting is wrong
		}
		return whileConnecting(e.Err)
	case "socks connect":
		if e.Err != nil && socksFailures[e.Err.Error()] {
			return backoff.ClassNotSent
		}
		return whileConnecting(e.Err)
	}
	return backoff.DefaultClassifier(e)
}

// whileConnecting returns the class of an error that came while connecting.
func whileConnecting(err error) backoff.Class {
	class := backoff.DefaultClassifier(err)
	if class == backoff.ClassRetryable || class == backoff.ClassUnknown && errtree.Is(err, io.EOF) {
		return backoff.ClassNotSent
	}
	return class
}

// socksFailures are the answers of a SOCKS proxy that may be transient. Source:
// RFC 1928, 6.
var socksFailures = map[string]bool{
	"unknown error general SOCKS server failure": true,
	"unknown error network unreachable":          true,
	"unknown error host unreachable":             true,
	"unknown error connection refused":           true,
	"unknown error TTL expired":                  true,
}

// A notConnected is the error of an attempt whose CONNECT a proxy refused, so
// that nothing was sent to the server.
type notConnected struct{ error }

func (e notConnected) Unwrap() error { return e.error }

// class returns the class of the status with which the proxy refused.
func (e notConnected) class() backoff.Class {
	if class := statusOfText(e.Error()); class != backoff.ClassRetryable {
		return class
	}
	return backoff.ClassNotSent
}

// withProxy returns err, of Base, as a notConnected if it is one. Of the answer
// to a CONNECT net/http returns the status text alone. Another RoundTripper may
// make the same text of the answer of a server.
func (c *call) withProxy(err error) error {
	base, ok := c.base.(*http.Transport)
	if ok && base.Proxy != nil && c.req.URL.Scheme == "https" && statusOfText(err.Error()) != backoff.ClassUnknown {
		return notConnected{err}
	}
	return err
}

// statusOfText returns the class of the status with the text, such as "Bad
// Gateway", or ClassUnknown.
func statusOfText(text string) backoff.Class {
	for code := 400; code < 600; code++ {
		if text != "" && text == http.StatusText(code) {
			return StatusClass(code)
		}
	}
	return backoff.ClassUnknown
}
