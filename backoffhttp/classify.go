package backoffhttp

import (
	"cmp"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/gobackoff/backoff"
)

// Classify sorts what an HTTP call can fail with, and is the [Transport]'s classifier
// where its policy has none: [backoff.DefaultClassifier] and, on top of it, what
// net/http reports. Unlike that one it never answers [backoff.ClassUnknown]: a call is
// repeated for a reason that is known, or not at all, so all else is permanent. So is
// nil.
//
//   - Unsent: no connection (refused, no route, a timeout or a temporary failure of
//     name resolution or of the handshake), a stream that an HTTP/2 server refused
//     (REFUSED_STREAM), or left out of its GOAWAY.
//   - Retryable: timeouts, resets, connections that the server closed, with or without
//     half an answer; the other stream errors of HTTP/2 but for those below; the
//     statuses 408, 425 and 5xx but for 501, 505, 506, 507, 508, 510 and 511; 413 with
//     a Retry-After; 409 to a request that the Transport gave a key, which is in
//     flight.
//   - Throttled: status 429, AWS's throttling codes in X-Amzn-Errortype, an exhausted
//     limit of [Transport.RateLimits], ENHANCE_YOUR_CALM.
//   - Permanent: the other statuses, certificates, names that do not exist, HTTP/2's
//     HTTP_1_1_REQUIRED and INADEQUATE_SECURITY, a proxy that cannot be reached for
//     want of a route, the caller's own cancellation.
//
// A bare io.EOF is permanent: it is how a body ends. Wrapped, it is a connection that
// ended too early. (The Transport knows where it came from.)
//
// net/http names several of its errors by nothing but their text, which is read here;
// of HTTP/2 the texts of golang.org/x/net are the same. It is safe for concurrent use.
//
// Sources: RFC 9110, 15.5 and 15.6; RFC 9113, 7 and 8.7; Cloud Storage, retry strategy.
func Classify(err error) backoff.Class {
	if e, ok := errors.AsType[*StatusError](err); ok && e.class != backoff.ClassUnknown {
		return e.class
	}
	class := connecting(err, backoff.DefaultClassifier(err))
	if class == backoff.ClassUnknown || class == backoff.ClassRetryable {
		class = cmp.Or(protocol(err), class)
	}
	if class == backoff.ClassUnknown && err != io.EOF && errors.Is(err, io.EOF) {
		return backoff.ClassRetryable
	}
	return cmp.Or(class, backoff.ClassPermanent)
}

// roundTripClass is Classify for what a RoundTripper returned.
func roundTripClass(err error) backoff.Class {
	if err == io.EOF { // closed before the answer began
		return backoff.ClassRetryable
	}
	return Classify(err)
}

// after returns the classifier that asks first, and roundTripClass where it knows
// nothing.
func after(first backoff.Classifier) backoff.Classifier {
	if first == nil {
		return roundTripClass
	}
	return func(err error) backoff.Class {
		if err == errAttemptTimeout {
			return backoff.ClassRetryable // what AttemptTimeout ends is retried, as by Policy.Do
		}
		if class := first(err); class != backoff.ClassUnknown {
			return class
		}
		return roundTripClass(err)
	}
}

// connecting refines the class of an error that came before the request was sent.
func connecting(err error, class backoff.Class) backoff.Class {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "dial" && op.Op != "proxyconnect" {
		return class
	}
	if op.Op == "proxyconnect" {
		class = backoff.DefaultClassifier(op.Err)
		if class == backoff.ClassNotSent && !errors.Is(op, syscall.ECONNREFUSED) {
			return backoff.ClassPermanent // a proxy that is not there is a wrong setting
		}
	}
	if class == backoff.ClassRetryable {
		return backoff.ClassNotSent
	}
	return class
}

// protocol sorts what net/http itself says, or is ClassUnknown.
func protocol(err error) backoff.Class {
	if e, ok := errors.AsType[streamError](err); ok {
		return e.class()
	}
	return spelled(err)
}

// spelled looks for the texts in err's tree; where there are several, the greatest
// class stands.
func spelled(err error) backoff.Class {
	if class := byText(err.Error()); class != backoff.ClassUnknown {
		return class
	}
	class := backoff.ClassUnknown
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			class = spelled(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if inner != nil {
				class = max(class, spelled(inner))
			}
		}
	}
	return class
}

// streamError is filled by errors.As from the type that net/http does not export, which
// fits any struct of these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string {
	return "stream error: " + codeNames[min(int(e.Code), len(codeNames)-1)]
}

func (e streamError) class() backoff.Class {
	fromPeer := e.Cause != nil && e.Cause.Error() == "received from peer"
	return codeClass(int(e.Code), fromPeer)
}

// codeNames are HTTP/2's error codes by their number. Source: RFC 9113, 7.
var codeNames = []string{"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR",
	"SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL",
	"COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED", "unknown"}

const (
	codeProtocol = 1
	codeRefused  = 7
	codeCalm     = 11
	codeSecurity = 12
	codeHTTP11   = 13
)

// codeClass sorts a stream's error code. A PROTOCOL_ERROR of our own finding is an
// answer that cannot be read; the server's own is what some send for REFUSED_STREAM
// (go.dev/issue/47635).
func codeClass(code int, fromPeer bool) backoff.Class {
	switch code {
	case codeRefused:
		return backoff.ClassNotSent
	case codeCalm:
		return backoff.ClassThrottled
	case codeSecurity, codeHTTP11:
		return backoff.ClassPermanent
	case codeProtocol:
		if !fromPeer {
			return backoff.ClassPermanent
		}
	}
	return backoff.ClassRetryable
}

// texts are the beginnings of errors that are told by nothing else.
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
	broken      = "net/http: HTTP/1.x transport connection broken: "
)

// cutShort reports whether a header looks malformed because the connection ended in the
// middle of a line. What speaks another protocol does not begin like that.
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

// byText sorts an error of net/http, or of golang.org/x/net/http2, by its text.
func byText(text string) backoff.Class {
	if !strings.HasPrefix(text, "http") && !strings.HasPrefix(text, "net/http") && !strings.HasPrefix(text, stream) {
		return backoff.ClassUnknown
	}
	if inner, ok := strings.CutPrefix(text, cannotRetry); ok {
		return byText(inner)
	}
	if rest, ok := strings.CutPrefix(text, stream); ok {
		return streamClass(rest)
	}
	if rest, ok := strings.CutPrefix(text, broken); ok && cutShort(rest) {
		return backoff.ClassRetryable
	}
	if rest, ok := strings.CutPrefix(text, goAway); ok {
		code, _, _ := strings.Cut(rest, ", debug=")
		if strings.HasSuffix(code, "ErrCode=ENHANCE_YOUR_CALM") {
			return backoff.ClassThrottled
		}
		return backoff.ClassRetryable // the stream may have been worked on
	}
	for _, known := range texts {
		if strings.HasPrefix(text, known.text) {
			return known.class
		}
	}
	return backoff.ClassUnknown
}

// streamClass sorts "1; REFUSED_STREAM; received from peer".
func streamClass(text string) backoff.Class {
	parts := strings.SplitN(text, "; ", 3)
	if len(parts) < 2 {
		return backoff.ClassUnknown
	}
	name, _, _ := strings.Cut(parts[1], "]")
	fromPeer := len(parts) == 3 && strings.HasPrefix(parts[2], "received from peer")
	return codeClass(slices.Index(codeNames, name), fromPeer)
}
