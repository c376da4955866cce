// Package errtree searches error trees that other code has built. The functions
// of package errors never return from a cyclic tree, and overflow the stack if it
// has branches. Those of this package stop at [Most].
package errtree

// Most is how many errors of a tree are read. Those beyond are ignored.
const Most = 10_000

// A Walk reads trees. Left is how many errors it may still read.
type Walk struct{ Left int }

// Find reports whether accept accepts err or an error in its tree, in the order
// of errors.As.
func (w *Walk) Find(err error, accept func(error) bool) bool {
	for err != nil && w.Left > 0 {
		w.Left--
		if accept(err) {
			return true
		}
		branches, inner := Unwrap(err)
		for _, branch := range branches {
			if w.Find(branch, accept) {
				return true
			}
		}
		err = inner
	}
	return false
}

// Unwrap returns what err wraps: one error, or several of which any may be nil.
func Unwrap(err error) (branches []error, inner error) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return nil, e.Unwrap()
	case interface{ Unwrap() []error }:
		return e.Unwrap(), nil
	}
	return nil, nil
}

// Is is errors.Is, for a target that may be compared.
func (w *Walk) Is(err, target error) bool {
	return w.Find(err, func(err error) bool { return Matches(err, target) })
}

// Find is the Find of a Walk of its own.
func Find(err error, accept func(error) bool) bool { return (&Walk{Most}).Find(err, accept) }

// Is is the Is of a Walk of its own.
func Is(err, target error) bool { return (&Walk{Most}).Is(err, target) }

// Matches is errors.Is for err alone, without what it wraps. It is not inlined:
// it is asked for often, and large.
//
//go:noinline
func Matches(err, target error) bool {
	if err == target {
		return true
	}
	e, ok := err.(interface{ Is(error) bool })
	return ok && e.Is(target)
}

// IsTimeout reports whether err alone, without what it wraps, says by its method
// that it is a timeout, as the errors of package net do.
func IsTimeout(err error) bool {
	e, ok := err.(interface{ Timeout() bool })
	return ok && e.Timeout()
}

// As is errors.AsType.
func As[T any](err error) (found T, ok bool) {
	ok = Find(err, func(err error) bool {
		if e, ok := err.(T); ok {
			found = e
			return true
		}
		e, ok := err.(interface{ As(any) bool })
		return ok && e.As(&found)
	})
	return found, ok
}
