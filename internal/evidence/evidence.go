package evidence

import (
	"context"
	"errors"
	"io"
	"reflect"

	"github.com/gobackoff/backoff/internal/errtree"
)

// A finding is a class, and in the bits above it how much it proves, so that the
// greater of two findings is the stronger one, and of two equally strong ones
// the one with the greater class. 0 is no finding.
type finding = Class

const (
	weak       finding = (1 + iota) << 3 // a timeout, a reset, a status
	specific                             // a code that names the very failure
	conclusive                           // the error says so itself

	classBits finding = 1<<3 - 1
)

// says returns the finding of a class, and none if c is Unknown.
func says(strength finding, c Class) finding {
	if c == Unknown {
		return 0
	}
	return strength | c
}

// Of returns what err, with all the errors that it wraps, means for a retry.
// The strongest evidence wins, and among equals the greater class. An error
// tree means NotSent only if each of its branches does. What is beyond
// errtree.Most errors means nothing.
//
// look, for errors of a type that is known to the caller only, returns the
// error to read in place of another one, and whether there is such a one. waits
// says that the caller waits for the server: then a name that does not exist is
// not there yet, and the server was not reached.
func Of(err error, look func(error) (error, bool), waits bool) Class {
	w := walker{look, waits, errtree.Most}
	return w.find(err) & classBits
}

// OfWaiting is Of for a caller that waits.
func OfWaiting(err error) Class {
	return Of(err, func(error) (error, bool) { return nil, false }, true)
}

// walker walks the tree of an error.
type walker struct {
	look  func(error) (error, bool)
	waits bool // whether a name that does not exist is not there yet
	left  int  // errors that may still be read
}

func (w *walker) find(err error) finding {
	if w.left--; w.left < 0 {
		return 0
	}
	if inner, ok := w.look(err); ok {
		return w.find(inner)
	}
	by := saidBy(err)
	found := w.alone(err, by)
	branches, inner := errtree.Unwrap(err)
	if inner != nil {
		branches = []error{inner}
	}
	notSent := by != ofConnection || !wasConnected(err)
	for _, inner := range branches {
		if inner != nil {
			f := w.find(inner)
			notSent = notSent && f&classBits == NotSent
			found = max(found, f)
		}
	}
	if inner == io.EOF && by == ofRequest {
		found = max(found, weak|Retryable)
	}
	switch {
	case by == ofConnection && field(err, "Op") == "dial":
		return ofDial(err, found)
	case found&classBits == NotSent && len(branches) > 0 && !notSent:
		return weak | Retryable
	}
	return found
}

// alone reads one error, without what it wraps, given what its type says.
func (w *walker) alone(err error, by said) finding {
	found := ofNamed(err, by)
	switch {
	case by == ofConnection, by == ofRequest: // their methods repeat what the error inside says
		return found
	case w.waits && by == byIsNotFound && found == specific|Permanent:
		found = weak | NotSent
	}
	return max(found, ofOne(err))
}

// ErrAttemptTimeout is that of package backoff. A client such as net/http returns it, as the cause.
var ErrAttemptTimeout = errors.New("backoff: attempt timeout")

// ofOne is alone for an error of any type.
func ofOne(err error) finding {
	switch err {
	case context.Canceled:
		return conclusive | Permanent
	case io.ErrUnexpectedEOF, ErrAttemptTimeout:
		return weak | Retryable
	}
	if e, ok := err.(Errno); ok {
		return ofErrno(e)
	}
	if hasMethod(err) {
		return max(ofMethods(err), ofCodes(err))
	}
	return 0
}

// A ConnectionError is what an error of the operating system says of a
// connection.
type ConnectionError uint8

const (
	// NoConnectionError: the error is not about a connection.
	NoConnectionError ConnectionError = iota
	// Refused: nobody listens at the other end.
	Refused
	// Unreachable: there is no route to the other end.
	Unreachable
	// Reset: the connection was reset or broken.
	Reset
	// Lost: the connection or the network went away in another way.
	Lost
	// unready: there is nothing to make a connection with, or to, yet: no port or no
	// memory that is free, a socket file that is not there.
	unready
	// refusedHere: the system or a firewall allows no such connection.
	refusedHere
)

// ofErrno reads an error of the system. A connection that was refused, or had no
// route, sent nothing. After the other errors the server may have acted.
func ofErrno(e Errno) finding {
	c := ConnectionErrorOf(e)
	switch {
	case c == Refused, c == Unreachable:
		return weak | NotSent
	case c == Reset, c == Lost, e.Temporary(), e.Timeout():
		return weak | Retryable
	}
	return 0
}

// IsAnswer reports whether an error that is Permanent is one of a service, and not of the
// way to it, nor the end of a context.
func IsAnswer(err error) bool {
	return !errtree.Find(err, func(err error) bool {
		_, ofNetwork := err.(timeouter)
		return ofNetwork || err == context.Canceled
	})
}

// IsUnreachable reports whether the tree of err has an error of the system that
// says that there is no route.
func IsUnreachable(err error) bool {
	e, ok := errtree.As[Errno](err)
	return ok && ConnectionErrorOf(e) == Unreachable
}

// None reports whether err itself says nothing, and wraps nothing that might.
// Most errors say nothing, and None costs less than Of.
func None(err error) bool {
	if isPlain(err) {
		return err != context.Canceled && err != io.ErrUnexpectedEOF && err != ErrAttemptTimeout && saidByText(err.Error()) == nothing
	}
	switch err.(type) {
	case Errno, interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return false
	}
	return reflect.TypeOf(err).Kind() == reflect.Pointer && !hasMethod(err) && saidBy(err) == nothing
}
