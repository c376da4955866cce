package errortype

import (
	"context"
	"io"
	"reflect"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
)

// connectionNames are the names of what the system says of a connection. The
// others are named by their type, or count as timeouts.
var connectionNames = map[evidence.ConnectionError]string{
	evidence.Refused:     "connection refused",
	evidence.Unreachable: "host unreachable",
	evidence.Reset:       "connection reset", // or broken otherwise
}

// networkName returns the name of a failure of the network that is err or in
// its tree, or "". What the system says counts more than that it took too long.
//
// The types of such errors say little: a *net.OpError may be a connection that was
// refused, or one that was reset. The names are part of logs and of queries, and do
// not change.
func networkName(err error) (name string) {
	switch err.(type) {
	case *backoff.Error, *backoff.OpenError: // which wrap what happened to other calls
		return ""
	}
	slow := false
	errtree.Find(err, func(err error) bool {
		name = networkNameOf(err)
		slow = slow || name == "" && isTimeout(err)
		return name != ""
	})
	if name == "" && slow {
		return "timeout"
	}
	return name
}

// networkNameOf returns the name of err itself.
func networkNameOf(err error) string {
	switch err {
	case context.Canceled:
		return "canceled"
	case io.EOF, io.ErrUnexpectedEOF:
		return "EOF"
	}
	if e, ok := err.(evidence.Errno); ok {
		return connectionNames[evidence.ConnectionErrorOf(e)]
	}
	if reflect.TypeOf(err).String() != "*net.DNSError" { // package net is not imported for it
		return ""
	}
	if reflect.ValueOf(err).Elem().FieldByName("IsNotFound").Bool() {
		return "no such host"
	}
	return "host lookup failed"
}

// isTimeout reports whether err says that it is a timeout. Its method may panic,
// as that of a nil pointer may.
func isTimeout(err error) (is bool) {
	defer func() { _ = recover() }()
	return errtree.IsTimeout(err) || err == backoff.ErrAttemptTimeout
}
