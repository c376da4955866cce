package backoffhttp

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/gobackoff/backoff"
)

// ofOperation returns the class of an error of package net. As long as there is
// no connection to the server, nothing of the request has been sent.
func ofOperation(e *net.OpError) backoff.Class {
	switch e.Op {
	case "dial":
		return whileConnecting(e)
	case "proxyconnect":
		if backoff.DefaultClassifier(e.Err) == backoff.ClassNotSent && !errors.Is(e, syscall.ECONNREFUSED) {
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
	if class == backoff.ClassRetryable || class == backoff.ClassUnknown && errors.Is(err, io.EOF) {
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
