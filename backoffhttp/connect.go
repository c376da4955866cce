package backoffhttp

import (
	"io"
	"net"
	"net/http"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
)

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
